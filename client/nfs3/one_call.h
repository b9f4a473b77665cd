// SPDX-License-Identifier: Apache-2.0
// Calls to services that are asked once: the portmapper (RFC 1833) and MOUNT (RFC 1813 appendix I). Each
// opens a connection and closes it. Errors: Layer::kTransport with kReconnect when the service is not reached
// or does not answer in time; otherwise what it says. Coroutines for the loop they run on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/nfs3/raw_connection.h"

namespace nfsrdma::nfs3 {

constexpr uint32_t kNfsProgram = 100003, kMountProgram = 100005, kNfsVersion = 3, kMountVersion = 3;
constexpr uint16_t kPortmapperPort = 111;

// Where the program listens on TCP; kPermanent with EPROTONOSUPPORT when it is not registered.
Task<Result<uint16_t>> ask_port(Loop& loop, tcp::Endpoint server, uint32_t program, uint32_t version);

// MNT: the file handle of the export's root. kPermanent when the server refuses.
Task<Result<std::string>> mount_export(Loop& loop, tcp::Endpoint mountd, std::string path,
                                       rpc::CredentialPtr credential);
// EXPORT: the paths that there are, whoever may mount them.
Task<Result<std::vector<std::string>>> list_exports(Loop& loop, tcp::Endpoint mountd);
// UMNT: takes us off the server's list of who has mounted what, if it answers.
Task<> unmount_export(Loop& loop, tcp::Endpoint mountd, std::string path, rpc::CredentialPtr credential);

}  // namespace nfsrdma::nfs3

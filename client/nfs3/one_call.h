// SPDX-License-Identifier: Apache-2.0
// Single calls to the portmapper (RFC 1833) and to MOUNT (RFC 1813 appendix I). Each opens a connection and
// closes it. Errors: Layer::kTransport with kReconnect if the service cannot be reached or does not answer in
// time; else the service's own error. Coroutines; they stay on their loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/nfs3/raw_connection.h"

namespace nfsrdma::client::nfs3 {

constexpr uint32_t kNfsProgram = 100003, kMountProgram = 100005, kNfsVersion = 3, kMountVersion = 3;
constexpr uint16_t kPortmapperPort = 111;

// The program's TCP port. kPermanent with EPROTONOSUPPORT if it is not registered.
Task<Result<uint16_t>> ask_port(Loop& loop, net::Endpoint server, uint32_t program, uint32_t version);

// MNT: the file handle of the export's root. kPermanent if the server refuses.
Task<Result<std::string>> mount_export(Loop& loop, net::Endpoint mountd, std::string path,
                                       rpc::CredentialPtr credential);
// EXPORT: all exported paths, including those that this client may not mount.
Task<Result<std::vector<std::string>>> list_exports(Loop& loop, net::Endpoint mountd);
// UMNT: removes this mount from the server's list, if the server answers.
Task<> unmount_export(Loop& loop, net::Endpoint mountd, std::string path, rpc::CredentialPtr credential);

}  // namespace nfsrdma::client::nfs3

// SPDX-License-Identifier: Apache-2.0
// From what the user asked for to what client/ and fuse/ are told. Pure functions, but for the size of this
// machine's memory.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/mount_options.h"
#include "cli/source.h"
#include "client/options.h"
#include "fuse/options.h"
#include "transport/rpc/rpc_transport.h"

namespace nfsrdma::cli {

// The kernel's read-ahead window when the daemon may set it: requests of 1 MiB instead of 128 KiB, half the
// CPU per byte and nearly twice the throughput from a server on loopback (2026-11-20).
inline constexpr uint32_t kRootReadAheadKb = 4096;
// How far the daemon reads ahead at most: a gigabit per second over 130 ms.
inline constexpr uint32_t kReadAheadKb = 16384;
// cache_mem of a machine with so much memory.
constexpr uint64_t default_cache_bytes(uint64_t memory) {
  return std::min<uint64_t>(memory / 16, uint64_t{1} << 30);
}
inline constexpr uint16_t kNfsPort = 2049;       // RFC 8881 section 2.9.3
inline constexpr uint16_t kNfsRdmaPort = 20049;  // RFC 8267 section 9, RFC 8881 section 2.9.3

// The port of the transport that the options name; TCP's if none.
uint16_t port_of(const MountOptions& options);

// The transport is what the options name; without a name TCP: a step of the ladder (cli/ladder.h) has one.
client::ClientOptions make_client_options(const MountOptions& options, const Source& source, bool root);

// Bytes of one WRITE of FUSE's, with so much memory available at mount.
uint32_t largest_write(uint64_t available);

// `mount_point` is canonical; `machine` is what AUTH_SYS calls this host.
fuse::FuseOptions make_fuse_options(const MountOptions& options, const Source& source,
                                    const std::string& mount_point, const std::string& machine, bool root);

// The same mount with NFSv3, of a server that has no NFSv4.1: locks then stay on this machine.
MountOptions stepped_down(MountOptions options);

// threads=; by default one loop below 8 processors, then one per 4, at most 4: a loop serves a small NFS
// installation by itself, and each is a connection and a share of the session's slots.
unsigned loop_count(const MountOptions& options, unsigned processors);

// As users expect to read them in a mount table, with what was decided where they did not: the network
// protocol by the address in use, and what is the default for root.
MountOptions options_in_use(MountOptions options, bool root,
                            const std::vector<rpc::TransportStatus>& connections);

// Root's default, resvport, is not that of a user namespace's root: the network is mostly another
// namespace's.
void decide_reserved_port(MountOptions& options);

// allow_other is the default for root: a mount made by root serves the machine's users.
bool serves_other_users(const MountOptions& options, bool root);

}  // namespace nfsrdma::cli

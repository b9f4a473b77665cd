// SPDX-License-Identifier: Apache-2.0
// Translates the user's options into the options of client/ and fuse/. Pure functions, except that they read
// the size of this machine's memory, and whether this process is in a user namespace.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/options/mount_options.h"
#include "cli/options/source.h"
#include "client/api/options.h"
#include "fuse/options.h"
#include "transport/rpc/rpc_transport.h"

namespace nfsrdma::cli {

// The kernel's read-ahead window if the daemon may set it. Requests of 1 MiB in place of 128 KiB: half the
// CPU per byte, and nearly twice the throughput from a server on loopback (2026-11-20).
inline constexpr uint32_t kRootReadAheadKb = 4096;
// The limit of the daemon's own read-ahead: one gigabit per second over 130 ms.
inline constexpr uint32_t kReadAheadKb = 16384;
// The default of cache_mem for a machine with this much memory.
constexpr uint64_t default_cache_bytes(uint64_t memory) {
  return std::min<uint64_t>(memory / 16, uint64_t{1} << 30);
}
inline constexpr uint16_t kNfsPort = 2049;       // RFC 8881 section 2.9.3
inline constexpr uint16_t kNfsRdmaPort = 20049;  // RFC 8267 section 9, RFC 8881 section 2.9.3

// The port of the transport in the options; TCP's port if there is none.
uint16_t port_of(const MountOptions& options);

// The transport in the options; TCP if there is none. Each rung of the ladder (cli/mount/ladder.h) sets one.
client::ClientOptions make_client_options(const MountOptions& options, const Source& source, bool root);

// The size in bytes of FUSE's largest WRITE, for this much available memory at mount time.
uint32_t largest_write(uint64_t available);

// `mount_point` is canonical. `machine` is the host name in AUTH_SYS credentials.
fuse::FuseOptions make_fuse_options(const MountOptions& options, const Source& source,
                                    const std::string& mount_point, const std::string& machine, bool root);

// Options for the same mount with NFSv3, if the server has no NFSv4.1. Locks then stay on this machine.
MountOptions stepped_down(MountOptions options);

// threads=. Default: one loop below 8 processors, otherwise one per 4 processors, at most 4. One loop alone
// can serve a small NFS installation. Each loop needs a connection and a share of the session's slots.
unsigned loop_count(const MountOptions& options, unsigned processors);

// The options for display in a mount table. Values that the user did not set are filled in: the network
// protocol from the address in use, and root's defaults.
MountOptions options_in_use(MountOptions options, bool root,
                            const std::vector<rpc::TransportStatus>& connections);

// Decides resvport if the user did not set it. Root's default does not apply to the root of a user namespace:
// the network usually belongs to another namespace.
void decide_reserved_port(MountOptions& options);

// allow_other is the default for root: a mount by root serves the machine's users.
bool serves_other_users(const MountOptions& options, bool root);

}  // namespace nfsrdma::cli

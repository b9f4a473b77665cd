// SPDX-License-Identifier: Apache-2.0
// What a fabric of RDMA devices is made with. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace nfsrdma::fabric::verbs {

struct Options {
  // Only this device, and only this port of it; empty, 0: whichever leads to the peer (rdma_cm's routing).
  std::string device;
  unsigned port = 0;
  // Entry of the port's GID table that connections come from. RoCE: one of the interface's addresses.
  std::optional<unsigned> gid_index;
  // How long a completion queue is polled after it ran dry, before its loop sleeps. 0: not at all.
  std::chrono::microseconds poll{0};
  // Of a connection on which nothing happens: after so long a zero-length RDMA Write asks whether the peer is
  // there; reliable connections have nothing of their own for that.
  std::chrono::milliseconds keepalive{60'000};
  // Active side of an iWARP connection: as iwarp::Options::nudge_after.
  std::chrono::milliseconds nudge_after{200};
  // Passive side: for the end of connecting.
  std::chrono::milliseconds startup_timeout{10'000};
  // False: as on a device without memory windows; for tests.
  bool windows = true;
  // Work requests of one send queue; fewer where the device has fewer.
  unsigned send_depth = 256;
  // RDMA Reads outstanding at most, in either direction; the device, and then the peer, may have fewer.
  unsigned reads = 16;
  // Memory that is not of the pool and shorter is copied for an RDMA Write or Read of ours: registering it
  // is two system calls and the pinning of its pages.
  size_t copy_below = 64u << 10;
};

}  // namespace nfsrdma::fabric::verbs

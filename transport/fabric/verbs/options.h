// SPDX-License-Identifier: Apache-2.0
// Options of a fabric of RDMA devices. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace nfsrdma::fabric::verbs {

struct Options {
  // Use only this device, and only this port of it; empty, 0: the one that leads to the peer (rdma_cm's
  // routing).
  std::string device;
  unsigned port = 0;
  // Entry of the port's GID table from which connections are made. RoCE: one of the interface's addresses.
  std::optional<unsigned> gid_index;
  // How long a completion queue is polled after it became empty, before its loop sleeps. 0: not at all.
  std::chrono::microseconds poll{0};
  // After this time without any event on a connection, a zero-length RDMA Write checks whether the peer is
  // there: reliable connections have no check of their own.
  std::chrono::milliseconds keepalive{60'000};
  // Active side of an iWARP connection: see iwarp::Options::nudge_after.
  std::chrono::milliseconds nudge_after{200};
  // Passive side: how long the peer may take to complete the connection.
  std::chrono::milliseconds startup_timeout{10'000};
  // False: as on a device without memory windows; for tests.
  bool windows = true;
  // Work requests of one send queue; fewer if the device has fewer.
  unsigned send_depth = 256;
  // Maximum of outstanding RDMA Reads in each direction; the device and the peer may have fewer.
  unsigned reads = 16;
  // Memory outside the pool that is shorter than this is copied for our RDMA Writes and Reads: registering it
  // would cost two system calls and the pinning of its pages.
  size_t copy_below = 64u << 10;
};

}  // namespace nfsrdma::fabric::verbs

// SPDX-License-Identifier: Apache-2.0
// Software RDMA: iWARP in user space over an ordinary TCP socket. MPA (RFC 5044, 6581), DDP (RFC 5041), RDMAP
// (RFC 5040). Works with iWARP adapters and Linux' siw; needs no device and no privilege.
//
// Tagged data is received in place by recvmsg and sent from its place by sendmsg. Every tag, bound and access
// right is checked here, because there is no adapter to check them. We send no markers, and refuse a peer
// that requires them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "transport/fabric/fabric.h"

namespace nfsrdma::fabric::iwarp {

struct Options {
  // CRCs are used if either side asks for them. Without them the checksum of TCP, or of the network card,
  // protects the data, as it does for NFS over TCP; siw's default is the same.
  bool crc = false;
  // RDMA Reads that the peer may have outstanding; each costs a list entry. knfsd refuses a client that
  // offers none.
  uint16_t ird = 64;
  // RDMA Reads that we want to have outstanding.
  uint16_t ord = 64;
  // Bytes of a whole frame. 0, for a peer on another host: as large as one TCP segment, because adapters that
  // receive in hardware rely on that (RFC 5044 section 5.1). 0, for a peer on this host: the largest
  // possible, because each frame costs the receiver a system call or a copy.
  size_t frame_bytes = 0;
  // While the peer has sent nothing, the active side sends a zero-length RDMA Write (a nudge) after this
  // time, then after twice the time, up to five times. Linux' siw can miss a frame that follows its own MPA
  // reply closely: the frame stays unread until another one arrives. 0: never.
  std::chrono::milliseconds nudge_after{200};
  // A dead peer is detected as in the TCP transport: by keepalive and TCP_USER_TIMEOUT.
  std::chrono::milliseconds timeo{60'000};
  unsigned retrans = 2;
  // Passive side: how long to wait for the peer's request, and for how many requests at the same time.
  std::chrono::milliseconds startup_timeout{10'000};
  size_t max_startups = 64;
};

// The name of such a connection in logs and status.
inline constexpr const char* kCarrier = "software RDMA";

std::unique_ptr<Fabric> make_fabric(Loop& loop, Options options = {});

}  // namespace nfsrdma::fabric::iwarp

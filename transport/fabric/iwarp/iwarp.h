// SPDX-License-Identifier: Apache-2.0
// Software RDMA: iWARP in user space over an ordinary TCP socket. MPA (RFC 5044, 6581), DDP (RFC 5041), RDMAP
// (RFC 5040). Interoperates with iWARP adapters and Linux's siw; needs neither device nor privilege.
//
// Tagged data are received into their place by recvmsg and sent from their place by sendmsg. Every tag, bound
// and access right is checked here, for here is no adapter to do it. No markers: we send none, and a peer
// that requires them is refused.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "transport/fabric/fabric.h"

namespace nfsrdma::fabric::iwarp {

struct Options {
  // CRCs are used if either side asks for them. TCP's checksum, or the network card's, is what protects the
  // data otherwise, as it does NFS over TCP; siw's default is the same.
  bool crc = false;
  // RDMA Reads the peer may have outstanding; each costs an entry in a list. knfsd refuses a client that
  // offers none.
  uint16_t ird = 64;
  // RDMA Reads we want to have outstanding.
  uint16_t ord = 64;
  // Bytes of a whole frame. 0: what one TCP segment holds, since adapters that receive in hardware count on
  // it (RFC 5044 section 5.1), and the largest there is to a peer on this host, where there are none: a frame
  // costs a system call at the receiver, or a copy.
  size_t frame_bytes = 0;
  // While the peer has sent nothing, the active side nudges it with a zero-length RDMA Write after this time,
  // then after twice as long, five times. Linux's siw can miss a frame that comes right behind its own MPA
  // reply; it lies unread until another one comes. 0: never.
  std::chrono::milliseconds nudge_after{200};
  // A dead peer is found as by the TCP transport: keepalive and TCP_USER_TIMEOUT.
  std::chrono::milliseconds timeo{60'000};
  unsigned retrans = 2;
  // Passive side: for the peer's request, and for how many at a time.
  std::chrono::milliseconds startup_timeout{10'000};
  size_t max_startups = 64;
};

// What such a connection is called in logs and status.
inline constexpr const char* kCarrier = "software RDMA";

std::unique_ptr<Fabric> make_fabric(Loop& loop, Options options = {});

}  // namespace nfsrdma::fabric::iwarp

// SPDX-License-Identifier: Apache-2.0
// A port on which connect() neither succeeds nor fails: its backlog is full.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <vector>

#include "tests/unit/transport/support/peer.h"

namespace nfsrdma::test {

class BlackHole {
 public:
  // With a backlog of 1, two connections fill the queue; further ones are not answered (tcp_abort_on_overflow
  // is 0).
  BlackHole() {
    for (int i = 0; i < 8; ++i) fillers_.push_back(connect());
  }
  uint16_t port() const { return listener_.port(); }

 private:
  net::Socket connect() {
    net::Socket s(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(listener_.port());
    ::connect(s.get(), reinterpret_cast<const sockaddr*>(&a), sizeof(a));
    return s;
  }
  Listener listener_{"127.0.0.1", 0, 1};
  std::vector<net::Socket> fillers_;
};

}  // namespace nfsrdma::test

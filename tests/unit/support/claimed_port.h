// SPDX-License-Identifier: Apache-2.0
// ClaimedPort: a port of loopback, free for TCP and UDP, for a server that is another program. No other
// ClaimedPort of this machine has it while this one lives, and no outgoing connection takes it. A test
// failure if there is none. One thread.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "transport/runtime/fd.h"

namespace nfsrdma::test {

class ClaimedPort {
 public:
  ClaimedPort() {
    // Below the ports that Linux gives to outgoing connections (ip_local_port_range: 32768 and above).
    constexpr uint16_t kFirst = 20000, kEnd = 32000;
    std::random_device random;
    for (int attempt = 0; attempt < 1000; ++attempt) {
      number_ = static_cast<uint16_t>(kFirst + random() % (kEnd - kFirst));
      if (claim() && can_bind(SOCK_STREAM) && can_bind(SOCK_DGRAM)) return;
    }
    ADD_FAILURE() << "no free port";
  }

  uint16_t number() const { return number_; }

 private:
  // An abstract Unix socket named after the port; tests/system/harness/ports.py claims ports in the same way.
  bool claim() {
    claim_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = "nfsrdma-test-port-" + std::to_string(number_);
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return ::bind(claim_.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0;
  }
  bool can_bind(int type) const {
    const Fd socket(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (type == SOCK_STREAM) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(number_);
    return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }

  uint16_t number_ = 0;
  Fd claim_;
};

}  // namespace nfsrdma::test

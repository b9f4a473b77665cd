// SPDX-License-Identifier: Apache-2.0
// ConnectorOptions: which host to connect to, and how. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "transport/net/family.h"

namespace nfsrdma::net {

class ServerAddress;

struct ConnectorOptions {
  std::string host;  // name or literal address; looked up again for every connect
  // Where the address in use is stored; null: nowhere. With `follows`, connects only to the stored address.
  std::shared_ptr<ServerAddress> address;
  bool follows = false;
  uint16_t port = 2049;
  Family family = Family::kAny;
  bool reserved_port = false;  // bind a local port below 1024 when permitted (nfs(5) resvport)
  // `timeo` is the time to wait for a reply, `retrans` how often to wait again. dead_peer_times() computes
  // from them when a socket counts its peer as dead.
  std::chrono::milliseconds timeo{60'000};
  unsigned retrans = 2;
  std::chrono::milliseconds connect_timeout{10'000};  // for each address
};

}  // namespace nfsrdma::net

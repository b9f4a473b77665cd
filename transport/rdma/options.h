// SPDX-License-Identifier: Apache-2.0
// What an RPC-over-RDMA transport is made with.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "transport/tcp/tcp_transport.h"

namespace nfsrdma::rdma {

enum class Versions : uint8_t {
  kAuto,  // 2 where the server has it, else 1
  kOnly1,
  kOnly2,
};

struct RdmaOptions {
  std::string host;  // name or literal address; looked up afresh for every connect
  uint16_t port = 20049;
  // As in tcp::TcpOptions: all connections of a mount go to one address of the server.
  std::shared_ptr<tcp::ServerAddress> address;
  bool follows = false;
  tcp::Family family = tcp::Family::kAny;
  bool reserved_port = false;
  Versions versions = Versions::kAuto;
  std::chrono::milliseconds timeo{60'000};
  unsigned retrans = 2;
  // One address, and RDMA's beginning there.
  std::chrono::milliseconds connect_timeout{10'000};
  // Likewise, until a connection has been made: who can turn to another transport does not wait for long.
  std::chrono::milliseconds first_connect_timeout{10'000};
  // How long the answer to the first message of version 2 may take.
  std::chrono::milliseconds negotiation_timeout{5'000};
  // How long a call waits while no memory can be opened to the server and none is, e.g. because other loops'
  // calls have all that may be locked. Then the connection is lost.
  std::chrono::milliseconds memory_patience{5'000};
  std::chrono::milliseconds backoff_first{100};
  std::chrono::milliseconds backoff_max{10'000};
  // Calls outstanding at most. Linux' server grants 64 (6.1) or 128; Chimera echoes what is asked for, up
  // to 64.
  uint32_t credits = 64;
  uint32_t callback_credits = 8;
  // Inline thresholds offered in both directions; RFC 8797 and version 2 have 4096 as what is usual.
  size_t inline_bytes = 4096;
  // Each posted Receive. More than is offered: Linux' server Sends up to three pages inline whatever it was
  // told.
  size_t receive_bytes = 12288;
  // Data items of at least so many bytes travel by RDMA even where they would fit inline.
  size_t ddp_threshold = SIZE_MAX;
  // Ask by the Connection Configuration Protocol (RFC 5666 section 6) what the server takes; version 1 only.
  bool configuration_protocol = false;
  // Why this fabric and no better one; for status.
  std::string fabric_reason;
  // The longest reply that is made room for when a server says that the Reply chunk was too small.
  size_t max_reply_bytes = (1u << 20) + (64u << 10);
};

}  // namespace nfsrdma::rdma

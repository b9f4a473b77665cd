// SPDX-License-Identifier: Apache-2.0
// Options of an RPC-over-RDMA transport.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "transport/net/family.h"

namespace nfsrdma::net {
class ServerAddress;
}

namespace nfsrdma::rdma {

enum class Versions : uint8_t {
  kAuto,  // version 2 if the server supports it, else 1
  kOnly1,
  kOnly2,
};

struct RdmaOptions {
  std::string host;  // name or literal address; looked up again for every connect
  uint16_t port = 20049;
  // As in net::ConnectorOptions: all connections of a mount go to one address of the server.
  std::shared_ptr<net::ServerAddress> address;
  bool follows = false;
  net::Family family = net::Family::kAny;
  bool reserved_port = false;
  Versions versions = Versions::kAuto;
  std::chrono::milliseconds timeo{60'000};
  unsigned retrans = 2;
  // The time to connect to one address, including RDMA's own handshake.
  std::chrono::milliseconds connect_timeout{10'000};
  // The same time, until the first connection is made. Short if the mount can try another transport.
  std::chrono::milliseconds first_connect_timeout{10'000};
  // How long the reply to the first message of version 2 may take.
  std::chrono::milliseconds negotiation_timeout{5'000};
  // How long a call waits when no memory can be opened to the server and none is open, e.g. because calls of
  // other loops have locked all memory that may be locked. Then the connection is dropped.
  std::chrono::milliseconds memory_patience{5'000};
  std::chrono::milliseconds backoff_first{100};
  std::chrono::milliseconds backoff_max{10'000};
  // Maximum of outstanding calls. Linux' server grants 64 (6.1) or 128; Chimera grants what is requested, up
  // to 64.
  uint32_t credits = 64;
  uint32_t callback_credits = 8;
  // Inline thresholds offered in both directions; 4096 is usual in RFC 8797 and version 2.
  size_t inline_bytes = 4096;
  // Size of each posted Receive. Larger than the offer: Linux' server Sends up to three pages inline,
  // whatever we offered.
  size_t receive_bytes = 12288;
  // Data items of at least this size travel by RDMA even if they would fit inline.
  size_t ddp_threshold = SIZE_MAX;
  // Ask for the server's limits by the Connection Configuration Protocol (RFC 5666 section 6); version 1
  // only.
  bool configuration_protocol = false;
  // Why this fabric is used and no better one; for status.
  std::string fabric_reason;
  // Upper bound of the Reply chunk that we offer when a server reports that it was too small.
  size_t max_reply_bytes = (1u << 20) + (64u << 10);
};

}  // namespace nfsrdma::rdma

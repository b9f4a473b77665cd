// SPDX-License-Identifier: Apache-2.0
// RPC-over-RDMA version 1 CM Private Data (RFC 8797 section 4): eight bytes that both sides send when they
// connect. [0xf6ab0e18 u32][version u8 = 1][flags u8, bit 0 = R][send size u8][receive size u8]. Sizes are in
// KiB, minus one.
#pragma once

#include <array>

#include "xdr/support/bytes.h"

namespace nfsrdma::rpcrdma {

struct private_data {
  // The defaults apply to a peer that sends no private data (section 5.1).
  bool remote_invalidation = false;
  size_t send_bytes = 1024;     // longest message that this peer will Send
  size_t receive_bytes = 1024;  // longest message that it can receive
  bool operator==(const private_data&) const = default;
};

inline constexpr size_t kPrivateDataBytes = 8;

// Sizes are rounded down to KiB and clamped to the format's range, 1024...262144.
std::array<std::byte, kPrivateDataBytes> encode(const private_data& v);

// "the buffer containing the received Private Data is searched for the Format Identifier word. The offset of
// the Format Identifier is not restricted to any alignment" (section 5.2). Returns the defaults if it is not
// found or has another version.
private_data find_private_data(ConstBytes data);

}  // namespace nfsrdma::rpcrdma

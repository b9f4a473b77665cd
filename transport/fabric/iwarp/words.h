// SPDX-License-Identifier: Apache-2.0
// Big-endian words of 2 and 8 bytes, for MPA and DDP; xdr/support/bytes.h has those of 4 bytes.
#pragma once

#include <cstdint>

#include "xdr/support/bytes.h"

namespace nfsrdma::fabric::iwarp {

inline void store_be16(std::byte* to, uint16_t v) {
  to[0] = static_cast<std::byte>(v >> 8);
  to[1] = static_cast<std::byte>(v);
}
inline uint16_t load_be16(const std::byte* from) {
  return static_cast<uint16_t>(std::to_integer<unsigned>(from[0]) << 8 | std::to_integer<unsigned>(from[1]));
}
inline void store_be64(std::byte* to, uint64_t v) {
  store_be32(to, static_cast<uint32_t>(v >> 32));
  store_be32(to + 4, static_cast<uint32_t>(v));
}
inline uint64_t load_be64(const std::byte* from) {
  return uint64_t{load_be32(from)} << 32 | load_be32(from + 4);
}

}  // namespace nfsrdma::fabric::iwarp

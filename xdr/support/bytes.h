// SPDX-License-Identifier: Apache-2.0
// Byte spans, big-endian words, and the 4-byte rounding of XDR (RFC 4506 section 3: "all items require a
// multiple of four bytes").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace nfsrdma {

using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;
using ByteVector = std::vector<std::byte>;

inline constexpr size_t xdr_padded(size_t n) {
  return (n + 3) & ~size_t{3};
}
inline constexpr size_t xdr_padding(size_t n) {
  return xdr_padded(n) - n;
}

inline void store_be32(std::byte* to, uint32_t v) {
  to[0] = static_cast<std::byte>(v >> 24);
  to[1] = static_cast<std::byte>(v >> 16);
  to[2] = static_cast<std::byte>(v >> 8);
  to[3] = static_cast<std::byte>(v);
}
inline uint32_t load_be32(const std::byte* from) {
  return std::to_integer<uint32_t>(from[0]) << 24 | std::to_integer<uint32_t>(from[1]) << 16 |
         std::to_integer<uint32_t>(from[2]) << 8 | std::to_integer<uint32_t>(from[3]);
}

inline ConstBytes as_const_bytes(std::string_view s) {
  return std::as_bytes(std::span(s.data(), s.size()));
}
inline std::string_view as_string_view(ConstBytes b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

}  // namespace nfsrdma

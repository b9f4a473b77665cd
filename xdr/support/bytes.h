// Byte spans, and the 4-byte rounding of XDR (RFC 4506 section 3: "all items require a multiple of four bytes").
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

inline constexpr size_t xdr_padded(size_t n) { return (n + 3) & ~size_t{3}; }
inline constexpr size_t xdr_padding(size_t n) { return xdr_padded(n) - n; }

inline ConstBytes as_const_bytes(std::string_view s) { return std::as_bytes(std::span(s.data(), s.size())); }
inline std::string_view as_string_view(ConstBytes b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

}  // namespace nfsrdma

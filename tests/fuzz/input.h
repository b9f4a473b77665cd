// SPDX-License-Identifier: Apache-2.0
// Input: a fuzzer's bytes, read as the steps of a small program. Missing bytes at the end are 0, so every
// prefix of an input is a valid input.
#pragma once

#include <algorithm>
#include <cstdint>

#include "xdr/support/bytes.h"

namespace nfsrdma::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : left_(std::as_bytes(std::span(data, size))) {}

  bool empty() const { return left_.empty(); }
  uint8_t byte() {
    const ConstBytes taken = bytes(1);
    return taken.empty() ? uint8_t{0} : std::to_integer<uint8_t>(taken[0]);
  }
  uint16_t half() {
    const uint8_t high = byte();
    return static_cast<uint16_t>(high << 8 | byte());
  }
  // The next `n` bytes, or fewer if there are fewer.
  ConstBytes bytes(size_t n) {
    const ConstBytes taken = left_.first(std::min(n, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  // Changes up to seven bytes of `message`.
  void spoil(MutableBytes message) {
    for (unsigned n = byte() & 7; n > 0; --n) {
      const size_t at = byte();
      const std::byte with{byte()};
      if (at < message.size()) message[at] ^= with;
    }
  }

 private:
  ConstBytes left_;
};

// Sizes at which the code under test may take another path: 0, small, about a KiB, a page, large.
inline size_t size_of(uint8_t code) {
  constexpr size_t kSizes[] = {0, 1, 3, 4, 100, 900, 1024, 4000, 4096, 5000, 9000, 16384, 20001, 65536};
  return kSizes[code % std::size(kSizes)];
}

// Credits that a peer may grant, including 0 and 2^32-1.
inline uint32_t credit_of(uint8_t code) {
  if (code == 255) return UINT32_MAX;
  return code < 200 ? code % 8 : 1u << (code % 32);
}

}  // namespace nfsrdma::fuzz

// SPDX-License-Identifier: Apache-2.0
// Input: a fuzzer's bytes, read as the steps of a small program. What is missing at the end is 0, so that
// every prefix of an input is one, too.
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
  // At most so many as there are.
  ConstBytes bytes(size_t n) {
    const ConstBytes taken = left_.first(std::min(n, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  // Up to seven places of `message`, each of which is changed by a byte.
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

// 0, small, a KiB or so, a page, large: sizes at which something else is done.
inline size_t size_of(uint8_t code) {
  constexpr size_t kSizes[] = {0, 1, 3, 4, 100, 900, 1024, 4000, 4096, 5000, 9000, 16384, 20001, 65536};
  return kSizes[code % std::size(kSizes)];
}

// What a peer may grant; and 0 and 2^32-1 above all.
inline uint32_t credit_of(uint8_t code) {
  if (code == 255) return UINT32_MAX;
  return code < 200 ? code % 8 : 1u << (code % 32);
}

}  // namespace nfsrdma::fuzz

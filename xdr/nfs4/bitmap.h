// SPDX-License-Identifier: Apache-2.0
// bitmap4: a set of small numbers, mostly attributes (RFC 8881 section 3.3.7).
//
//     uint32_t<>: bit n is bit n % 32 of word n / 32
//
// At most eight words (256 bits) are accepted; the RFCs up to the extensions of NFSv4.2 define 83 attributes
// and 76 operations. The number of encoded words is kept, so that a decoded bitmap is encoded again
// unchanged; comparison ignores it. A value type; any thread.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>

#include "xdr/codec.h"

namespace nfsrdma::nfs4 {

using xdr::Ref;

class bitmap4 {
 public:
  static constexpr size_t kMaxWords = 8;
  static constexpr uint32_t kMaxBits = kMaxWords * 32;

  constexpr bitmap4() = default;
  static constexpr bitmap4 of(std::initializer_list<uint32_t> bits) {
    bitmap4 map;
    for (const uint32_t bit : bits) map.set(bit);
    return map;
  }

  constexpr bool test(uint32_t bit) const {
    return bit < kMaxBits && (words_[bit / 32] >> bit % 32 & 1) != 0;
  }
  constexpr void set(uint32_t bit) {
    if (bit >= kMaxBits) return;
    words_[bit / 32] |= uint32_t{1} << bit % 32;
    if (count_ <= bit / 32) count_ = bit / 32 + 1;
  }
  // Empty words at the end are not encoded any more.
  constexpr void clear(uint32_t bit) {
    if (bit >= kMaxBits) return;
    words_[bit / 32] &= ~(uint32_t{1} << bit % 32);
    trim();
  }
  constexpr bool empty() const { return *this == bitmap4{}; }

  constexpr bitmap4 operator|(const bitmap4& b) const {
    return merged(b, [](uint32_t x, uint32_t y) { return x | y; });
  }
  constexpr bitmap4 operator&(const bitmap4& b) const {
    return merged(b, [](uint32_t x, uint32_t y) { return x & y; });
  }
  constexpr bitmap4 without(const bitmap4& b) const {
    return merged(b, [](uint32_t x, uint32_t y) { return x & ~y; });
  }
  constexpr bool contains(const bitmap4& b) const { return b.without(*this).empty(); }

  // Calls visit(bit) for each set bit, lowest first, until visit returns false.
  template <class Visit>
  constexpr bool every(Visit visit) const {
    for (uint32_t w = 0; w < count_; ++w) {
      for (uint32_t left = words_[w]; left != 0; left &= left - 1) {
        if (!visit(w * 32 + static_cast<uint32_t>(std::countr_zero(left)))) return false;
      }
    }
    return true;
  }

  constexpr bool operator==(const bitmap4& b) const { return words_ == b.words_; }

  template <class X>
  friend bool xdr(X& x, Ref<X, bitmap4> v) {
    if constexpr (xdr::kDecodes<X>) {
      v = bitmap4{};
      if (!x.count(v.count_, kMaxWords, 4)) {
        v.count_ = 0;
        return false;
      }
    } else {
      if (!x(v.count_)) return false;
    }
    for (uint32_t i = 0; i < v.count_; ++i) {
      if (!x(v.words_[i])) return false;
    }
    return true;
  }

 private:
  template <class Op>
  constexpr bitmap4 merged(const bitmap4& b, Op op) const {
    bitmap4 map;
    for (size_t i = 0; i < kMaxWords; ++i) map.words_[i] = op(words_[i], b.words_[i]);
    map.count_ = kMaxWords;
    map.trim();
    return map;
  }
  constexpr void trim() {
    while (count_ > 0 && words_[count_ - 1] == 0) --count_;
  }

  uint32_t count_ = 0;
  std::array<uint32_t, kMaxWords> words_{};  // words_[count_..] are zero
};

}  // namespace nfsrdma::nfs4

// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4 (Aumasson and Bernstein, 2012): a short keyed hash that cannot be forged without the key. Pure.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace nfsrdma::filer::tree {

class SipHash {
 public:
  explicit SipHash(const std::array<uint64_t, 2>& key) : key_(key) {}

  uint64_t operator()(std::string_view text) const {
    State s{key_[0] ^ 0x736f6d6570736575u, key_[1] ^ 0x646f72616e646f6du, key_[0] ^ 0x6c7967656e657261u,
            key_[1] ^ 0x7465646279746573u};
    size_t at = 0;
    for (; at + 8 <= text.size(); at += 8) absorb(s, word(text.substr(at, 8)));
    absorb(s, word(text.substr(at)) | uint64_t{text.size() & 0xff} << 56);
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; ++i) round(s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
  }

 private:
  struct State {
    uint64_t v0, v1, v2, v3;
  };
  // Up to eight bytes, little-endian.
  static uint64_t word(std::string_view bytes) {
    uint64_t w = 0;
    for (size_t i = 0; i < bytes.size(); ++i) w |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    return w;
  }
  static void absorb(State& s, uint64_t m) {
    s.v3 ^= m;
    round(s);
    round(s);
    s.v0 ^= m;
  }
  static void round(State& s) {
    s.v0 += s.v1;
    s.v2 += s.v3;
    s.v1 = std::rotl(s.v1, 13) ^ s.v0;
    s.v3 = std::rotl(s.v3, 16) ^ s.v2;
    s.v0 = std::rotl(s.v0, 32);
    s.v2 += s.v1;
    s.v0 += s.v3;
    s.v1 = std::rotl(s.v1, 17) ^ s.v2;
    s.v3 = std::rotl(s.v3, 21) ^ s.v0;
    s.v2 = std::rotl(s.v2, 32);
  }

  std::array<uint64_t, 2> key_;
};

}  // namespace nfsrdma::filer::tree

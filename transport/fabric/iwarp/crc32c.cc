// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace nfsrdma::fabric::iwarp {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41, least significant bit first

// kTables[n][b]: the effect of byte b on the state when n bytes follow it within the same eight.
constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> t{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t s = b;
    for (int i = 0; i < 8; ++i) s = s >> 1 ^ ((s & 1) != 0 ? kPolynomial : 0);
    t[0][b] = s;
  }
  for (size_t n = 1; n < 8; ++n) {
    for (size_t b = 0; b < 256; ++b) t[n][b] = t[n - 1][b] >> 8 ^ t[0][t[n - 1][b] & 0xff];
  }
  return t;
}
constexpr auto kTables = make_tables();

uint32_t one_byte(uint32_t state, uint32_t byte) {
  return state >> 8 ^ kTables[0][(state ^ byte) & 0xff];
}

uint32_t load_le32(const std::byte* p) {
  return std::to_integer<uint32_t>(p[0]) | std::to_integer<uint32_t>(p[1]) << 8 |
         std::to_integer<uint32_t>(p[2]) << 16 | std::to_integer<uint32_t>(p[3]) << 24;
}

}  // namespace

uint32_t crc32c_by_table(uint32_t state, ConstBytes bytes) {
  const std::byte* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 8; p += 8, n -= 8) {
    const uint32_t low = state ^ load_le32(p);
    const uint32_t high = load_le32(p + 4);
    state = kTables[7][low & 0xff] ^ kTables[6][low >> 8 & 0xff] ^ kTables[5][low >> 16 & 0xff] ^
            kTables[4][low >> 24] ^ kTables[3][high & 0xff] ^ kTables[2][high >> 8 & 0xff] ^
            kTables[1][high >> 16 & 0xff] ^ kTables[0][high >> 24];
  }
  for (; n > 0; ++p, --n) state = one_byte(state, std::to_integer<uint32_t>(*p));
  return state;
}

#if defined(__x86_64__)
namespace {

// Length of each of the three streams: 3 * 1360 is nearly a page; the FPDUs of Ethernet are shorter than
// that.
constexpr size_t kLane = 1360;

// The effect of kLane zero bytes on a state. The map is linear, so the states with a single bit determine it.
class LaneShift {
 public:
  LaneShift() {
    std::array<uint32_t, 32> bits{};
    for (size_t i = 0; i < 32; ++i) {
      bits[i] = uint32_t{1} << i;
      for (size_t n = 0; n < kLane; ++n) bits[i] = one_byte(bits[i], 0);
    }
    for (size_t place = 0; place < 4; ++place) {
      for (size_t b = 0; b < 256; ++b) {
        for (size_t i = 0; i < 8; ++i) {
          if ((b >> i & 1) != 0) table_[place][b] ^= bits[place * 8 + i];
        }
      }
    }
  }
  uint32_t operator()(uint32_t s) const {
    return table_[0][s & 0xff] ^ table_[1][s >> 8 & 0xff] ^ table_[2][s >> 16 & 0xff] ^ table_[3][s >> 24];
  }

 private:
  std::array<std::array<uint32_t, 256>, 4> table_{};
};

uint64_t word(const std::byte* p) {
  uint64_t v = 0;
  std::memcpy(&v, p, sizeof v);
  return v;
}

__attribute__((target("sse4.2"))) uint32_t three_lanes(uint32_t state, const std::byte* p,
                                                       const LaneShift& shift) {
  uint64_t a = state;
  uint64_t b = 0;
  uint64_t c = 0;
  for (size_t i = 0; i < kLane; i += 8) {
    a = _mm_crc32_u64(a, word(p + i));
    b = _mm_crc32_u64(b, word(p + kLane + i));
    c = _mm_crc32_u64(c, word(p + 2 * kLane + i));
  }
  const uint32_t ab = shift(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
  return shift(ab) ^ static_cast<uint32_t>(c);
}

}  // namespace

bool crc32c_has_instruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_by_instruction(uint32_t state, ConstBytes bytes) {
  static const LaneShift shift;
  const std::byte* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 3 * kLane; p += 3 * kLane, n -= 3 * kLane) state = three_lanes(state, p, shift);
  uint64_t s = state;
  for (; n >= 8; p += 8, n -= 8) s = _mm_crc32_u64(s, word(p));
  state = static_cast<uint32_t>(s);
  for (; n > 0; ++p, --n) state = _mm_crc32_u8(state, std::to_integer<uint8_t>(*p));
  return state;
}
#else
bool crc32c_has_instruction() {
  return false;
}
uint32_t crc32c_by_instruction(uint32_t state, ConstBytes bytes) {
  return crc32c_by_table(state, bytes);
}
#endif

void Crc32c::add(ConstBytes bytes) {
  state_ = crc32c_has_instruction() ? crc32c_by_instruction(state_, bytes) : crc32c_by_table(state_, bytes);
}

void Crc32c::store(std::byte* to) const {
  for (unsigned i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(value() >> 8 * i);
}

}  // namespace nfsrdma::fabric::iwarp

// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/crc32c.h"

#include <gtest/gtest.h>

#include <random>

namespace nfsrdma::fabric::iwarp {
namespace {

struct Vector {
  const char* name;
  ByteVector bytes;
  uint32_t crc;
};

// RFC 3720 appendix B.4, "CRC Examples", as numbers; on the wire the least significant byte comes first.
std::vector<Vector> rfc3720() {
  ByteVector up(32);
  ByteVector down(32);
  for (size_t i = 0; i < 32; ++i) {
    up[i] = static_cast<std::byte>(i);
    down[i] = static_cast<std::byte>(31 - i);
  }
  ByteVector read(48);  // "An iSCSI - SCSI Read (10) Command PDU"
  const std::pair<size_t, unsigned> set[] = {{0, 0x01},  {1, 0xc0},  {16, 0x14}, {22, 0x04},
                                             {27, 0x14}, {31, 0x18}, {32, 0x28}, {40, 0x02}};
  for (const auto& [at, value] : set) read[at] = static_cast<std::byte>(value);
  return {{"32 bytes of zeroes", ByteVector(32), 0x8a9136aa},
          {"32 bytes of ones", ByteVector(32, std::byte{0xff}), 0x62a8ab43},
          {"32 bytes of incrementing 00..1f", up, 0x46dd794e},
          {"32 bytes of decrementing 1f..00", down, 0x113fdb5c},
          {"an iSCSI SCSI Read (10) command PDU", read, 0xd9963a56}};
}

TEST(Crc32c, Rfc3720Examples) {
  for (const Vector& v : rfc3720()) {
    Crc32c c;
    c.add(v.bytes);
    EXPECT_EQ(c.value(), v.crc) << v.name;
  }
}

TEST(Crc32c, OnTheWire_LeastSignificantByteFirst) {
  Crc32c c;
  c.add(ByteVector(32));
  std::byte wire[4];
  c.store(wire);
  EXPECT_EQ(load_be32(wire), 0xaa36918au);  // "aa 36 91 8a" in RFC 3720
}

// Bit by bit, as RFC 3720 section 12.1 defines it; 0x82f63b78 is its polynomial with the bits reversed.
uint32_t by_definition(ConstBytes bytes) {
  uint32_t state = 0xffffffff;
  for (const std::byte byte : bytes) {
    state ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = state >> 1 ^ ((state & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~state;
}

// Lengths around those at which an implementation by vectors changes its way, and all alignments.
TEST(Crc32c, IsWhatItsDefinitionSays) {
  std::mt19937 random(1);
  ByteVector bytes(70'000);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  for (size_t n :
       {0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 255, 256, 257, 511, 513, 4079, 4080, 4081, 8167, 65'000}) {
    for (size_t at = 0; at < 9; ++at) {
      const ConstBytes part = ConstBytes(bytes).subspan(at, n);
      Crc32c c;
      c.add(part);
      EXPECT_EQ(c.value(), by_definition(part)) << n << " at " << at;
    }
  }
}

TEST(Crc32c, InPieces_IsTheSame) {
  std::mt19937 random(2);
  ByteVector bytes(20'000);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  Crc32c whole;
  whole.add(bytes);
  for (int round = 0; round < 50; ++round) {
    Crc32c c;
    for (ConstBytes left = bytes; !left.empty();) {
      const size_t n = std::min<size_t>(left.size(), random() % 6000);
      c.add(left.first(n));
      left = left.subspan(n);
    }
    EXPECT_EQ(c.value(), whole.value());
  }
}

}  // namespace
}  // namespace nfsrdma::fabric::iwarp

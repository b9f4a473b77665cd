// SPDX-License-Identifier: Apache-2.0
// Headers against frames of another implementation and against the RFCs' figures.
#include "transport/fabric/iwarp/ddp.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/golden/hex.h"
#include "tests/unit/fabric/support/captured.h"
#include "transport/fabric/iwarp/terminate.h"

namespace nfsrdma::fabric::iwarp {
namespace {

namespace captured = test::captured;
using golden::from_hex;

// Decodes the header, encodes it again to the same bytes, and checks the frame's length.
Segment read_and_write(const ByteVector& frame) {
  const size_t ulpdu = load_be16(frame.data());
  EXPECT_EQ(frame.size(), fpdu_bytes(ulpdu));
  const Segment s = load_segment(frame.data() + kLengthBytes);
  EXPECT_EQ(s.header_bytes(), header_bytes(frame[kLengthBytes]));
  ByteVector again(s.header_bytes());
  store_segment(s, again.data());
  EXPECT_EQ(again, ByteVector(frame.begin() + 2, frame.begin() + 2 + static_cast<ptrdiff_t>(again.size())));
  return s;
}

TEST(CapturedFrames, Send) {
  const Segment s = read_and_write(from_hex(captured::kSend));
  EXPECT_FALSE(s.tagged);
  EXPECT_TRUE(s.last);
  EXPECT_EQ(s.opcode, Opcode::kSend);
  EXPECT_EQ(s.ddp_version, 1);
  EXPECT_EQ(s.rdmap_version, 1);
  EXPECT_EQ(s.queue, kSendQueue);
  EXPECT_EQ(s.msn, 1u);
  EXPECT_EQ(s.message_offset, 0u);
}

TEST(CapturedFrames, SendWithInvalidate) {
  const Segment s = read_and_write(from_hex(captured::kSendInvalidate));
  EXPECT_EQ(s.opcode, Opcode::kSendInvalidate);
  EXPECT_EQ(s.invalidate, 0x44a39f01u);
  EXPECT_EQ(s.msn, 2u);
}

TEST(CapturedFrames, Write) {
  const Segment s = read_and_write(from_hex(captured::kWrite));
  EXPECT_TRUE(s.tagged);
  EXPECT_TRUE(s.last);
  EXPECT_EQ(s.opcode, Opcode::kWrite);
  EXPECT_EQ(s.stag, 0x44a39f01u);
  EXPECT_EQ(s.offset, 0x26e30e5d0464c000u);
}

TEST(CapturedFrames, ReadRequest) {
  const ByteVector frame = from_hex(captured::kReadRequest);
  const Segment s = read_and_write(frame);
  EXPECT_EQ(s.opcode, Opcode::kReadRequest);
  EXPECT_EQ(s.queue, kReadRequestQueue);
  const ReadRequest r = load_read_request(frame.data() + kLengthBytes + kUntaggedBytes);
  EXPECT_EQ(r, (ReadRequest{0xbf32d001, 0xffff888104908000, 262144, 0xb551cb01, 0x3be30e5d035f0000}));
  ByteVector again(kReadRequestBytes);
  store_read_request(r, again.data());
  EXPECT_EQ(load_read_request(again.data()), r);
}

// "The length of the pad is set so as to make the size of the FPDU an integral multiple of four" (RFC 5044
// section 4.1).
TEST(Fpdu, EverySize_IsAMultipleOfFour) {
  for (size_t n = kTaggedBytes; n <= kMaxUlpduBytes; ++n) {
    ASSERT_EQ(fpdu_bytes(n) % 4, 0u);
    ASSERT_LE(fpdu_padding(n), 3u);
  }
}

TEST(Segment, EveryValue_ComesBack) {
  EXPECT_TRUE(rc::check([] {
    Segment s;
    s.tagged = *rc::gen::arbitrary<bool>();
    s.last = *rc::gen::arbitrary<bool>();
    s.ddp_version = *rc::gen::inRange<uint8_t>(0, 4);
    s.rdmap_version = *rc::gen::inRange<uint8_t>(0, 4);
    s.opcode = static_cast<Opcode>(*rc::gen::inRange(0, 16));
    if (s.tagged) {
      s.stag = *rc::gen::arbitrary<uint32_t>();
      s.offset = *rc::gen::arbitrary<uint64_t>();
    } else {
      s.invalidate = *rc::gen::arbitrary<uint32_t>();
      s.queue = *rc::gen::arbitrary<uint32_t>();
      s.msn = *rc::gen::arbitrary<uint32_t>();
      s.message_offset = *rc::gen::arbitrary<uint32_t>();
    }
    ByteVector bytes(s.header_bytes());
    store_segment(s, bytes.data());
    RC_ASSERT(load_segment(bytes.data()) == s);
  }));
}

// RFC 5040 figures 7 and 8: layer 1 (DDP), type 1, code 1, M and D; length, header.
TEST(Terminate, WithADdpHeader_IsAsTheFigureHasIt) {
  Terminate t{term::kBounds, 0x07a, {}, {}};
  const ByteVector frame = from_hex(captured::kWrite);
  std::copy_n(frame.begin() + 2, kUntaggedBytes, t.ddp_header.emplace().begin());
  EXPECT_EQ(encode(t), from_hex("11 01 c000 007a c1 40 44a39f01 26e30e5d0464c000"));
}

TEST(Terminate, OfAReadRequest_HasAllThree) {
  Terminate t{term::kReadAccess, 0x2e, {}, {}};
  const ByteVector frame = from_hex(captured::kReadRequest);
  std::copy_n(frame.begin() + 2, kUntaggedBytes, t.ddp_header.emplace().begin());
  std::copy_n(frame.begin() + 2 + kUntaggedBytes, kReadRequestBytes, t.read_request.emplace().begin());
  const ByteVector bytes = encode(t);
  EXPECT_EQ(bytes.size(), kMaxTerminateBytes);
  EXPECT_EQ(ByteVector(bytes.begin(), bytes.begin() + 6), from_hex("01 02 e000 002e"));
  // Cut at every byte.
  for (size_t n = 0; n < bytes.size(); ++n) {
    const ByteVector cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_FALSE(decode_terminate(cut)) << n;
  }
  const auto back = decode_terminate(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->code, term::kReadAccess);
  EXPECT_EQ(encode(*back), bytes);
}

TEST(Terminate, OfMpa_IsBare) {
  EXPECT_EQ(encode(Terminate{term::kCrc, {}, {}, {}}), from_hex("20 02 0000"));
  EXPECT_EQ(to_string(term::kCrc), "MPA: CRC error");
  EXPECT_EQ(to_string({9, 8, 7}), "layer 9, type 8, code 7");
}

}  // namespace
}  // namespace nfsrdma::fabric::iwarp

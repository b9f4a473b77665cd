// SPDX-License-Identifier: Apache-2.0
#include "xdr/codec.h"

#include <gtest/gtest.h>

namespace nfsrdma::xdr {
namespace {

ByteVector bytes(std::initializer_list<int> values) {
  ByteVector out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

template <class T>
ByteVector encoded(const T& v) {
  ByteVector out;
  Encoder x(out);
  EXPECT_TRUE(x(v));
  return out;
}

// RFC 4506 section 4: integers are big-endian, in units of four bytes.
TEST(Encoder, Integers_AreBigEndian) {
  EXPECT_EQ(encoded(uint32_t{0x01020304}), bytes({1, 2, 3, 4}));
  EXPECT_EQ(encoded(int32_t{-2}), bytes({0xff, 0xff, 0xff, 0xfe}));
  EXPECT_EQ(encoded(uint64_t{0x0102030405060708}), bytes({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(encoded(int64_t{-1}), bytes({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}));
  EXPECT_EQ(encoded(true), bytes({0, 0, 0, 1}));
}

TEST(Decoder, Integers_ComeBack) {
  const ByteVector in =
      bytes({0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  Decoder x(in);
  int32_t a = 0;
  uint64_t b = 0;
  int64_t c = 0;
  bool d = false;
  EXPECT_TRUE(x(a) && x(b) && x(c) && x(d));
  EXPECT_EQ(a, -2);
  EXPECT_EQ(b, 0x0102030405060708U);
  EXPECT_EQ(c, INT64_MIN);
  EXPECT_TRUE(d);
  EXPECT_EQ(x.left(), 0U);
}

// RFC 4506 section 4.4: a boolean is enum { FALSE = 0, TRUE = 1 }.
TEST(Decoder, BooleanOfTwo_Fails) {
  const ByteVector in = bytes({0, 0, 0, 2});
  Decoder x(in);
  bool v = false;
  EXPECT_FALSE(x(v));
  EXPECT_STREQ(x.failure(), "boolean is neither 0 nor 1");
}

TEST(Decoder, AfterAFailure_KeepsTheFirstReasonAndReadsNoMore) {
  const ByteVector in = bytes({0, 0, 0, 2, 0, 0, 0, 9});
  Decoder x(in);
  bool flag = false;
  uint32_t v = 77;
  EXPECT_FALSE(x(flag));
  EXPECT_FALSE(x(v));
  EXPECT_FALSE(x.skip(0));
  EXPECT_EQ(v, 77U);
  EXPECT_STREQ(x.failure(), "boolean is neither 0 nor 1");
}

// RFC 4506 section 3: "If the n bytes needed to contain the data are not a multiple of four, then the n bytes
// are followed by enough (0 to 3) residual zero bytes, r, to make the total byte count a multiple of 4."
TEST(Opaque, OddLengths_ArePaddedWithZeros) {
  ByteVector out;
  Encoder x(out);
  EXPECT_TRUE(x.opaque(as_const_bytes("abcde"), 5));
  EXPECT_EQ(out, bytes({0, 0, 0, 5, 'a', 'b', 'c', 'd', 'e', 0, 0, 0}));
  Decoder d(out);
  ConstBytes view;
  EXPECT_TRUE(d.opaque(view, 5));
  EXPECT_EQ(as_string_view(view), "abcde");
  EXPECT_EQ(d.left(), 0U);
}

TEST(Opaque, PaddingMissing_Fails) {
  const ByteVector in = bytes({0, 0, 0, 5, 'a', 'b', 'c', 'd', 'e', 0, 0});
  Decoder x(in);
  ConstBytes view;
  EXPECT_FALSE(x.opaque(view, 5));
  EXPECT_STREQ(x.failure(), "truncated");
}

TEST(Opaque, PaddingThatIsNotZero_IsAccepted) {
  const ByteVector in = bytes({0, 0, 0, 1, 'a', 7, 7, 7});
  Decoder x(in);
  ConstBytes view;
  EXPECT_TRUE(x.opaque(view, 1));
  EXPECT_EQ(as_string_view(view), "a");
}

TEST(Opaque, LongerThanItsType_FailsBothWays) {
  ByteVector out;
  Encoder e(out);
  EXPECT_FALSE(e.opaque(as_const_bytes("abcde"), 4));
  EXPECT_TRUE(out.empty());
  const ByteVector in = bytes({0, 0, 0, 5, 'a', 'b', 'c', 'd', 'e', 0, 0, 0});
  Decoder d(in);
  ConstBytes view;
  EXPECT_FALSE(d.opaque(view, 4));
}

TEST(Opaque, LengthOfFourGigabytes_FailsWithoutOverflow) {
  const ByteVector in = bytes({0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4});
  Decoder x(in);
  ConstBytes view;
  EXPECT_FALSE(x.opaque(view, SIZE_MAX));
  EXPECT_STREQ(x.failure(), "truncated");
}

TEST(Batch, GivesTheSameBytesAndPositions_AsOneItemAfterTheOther) {
  const ByteVector data(300, std::byte{0xee});
  std::vector<Bulk> apart_bulks, together_bulks;
  ByteVector apart, together;
  Encoder a(apart, &apart_bulks), t(together, &together_bulks);
  {
    const Encoder::Batch outer(t);
    for (uint32_t n = 0; n < 80; ++n) {
      const Encoder::Batch inner(t);
      for (Encoder* x : {&a, &t}) {
        EXPECT_TRUE((*x)(n) && (*x)(uint64_t{n} << 40) && x->fixed(ConstBytes(data).first(n)));
        EXPECT_TRUE(x->opaque(ConstBytes(data).first(3 * n), 300) && x->bulk(ConstBytes(data).first(n), 300));
      }
      EXPECT_EQ(t.position(), a.position());
      EXPECT_EQ(t.inline_bytes(), a.inline_bytes());
    }
    EXPECT_TRUE(a.patch(8, 77) && t.patch(8, 77));
    EXPECT_TRUE(a(true) && t(true));
  }
  EXPECT_EQ(together, apart);
  ASSERT_EQ(together_bulks.size(), apart_bulks.size());
  for (size_t i = 0; i < apart_bulks.size(); ++i) {
    EXPECT_EQ(together_bulks[i].position, apart_bulks[i].position);
    EXPECT_EQ(together_bulks[i].inline_offset, apart_bulks[i].inline_offset);
  }
}

TEST(Encoder, AfterItsCallerCutTheMessage_MakesRoomAgain) {
  ByteVector out;
  Encoder x(out);
  EXPECT_TRUE(x(uint32_t{1}) && x(uint32_t{2}) && x(uint32_t{3}));
  out.resize(4);
  out.shrink_to_fit();
  EXPECT_TRUE(x(uint32_t{4}));
  EXPECT_EQ(out, bytes({0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4}));
}

TEST(Bulk, WithoutAList_IsCopiedInline) {
  ByteVector out;
  Encoder x(out);
  EXPECT_TRUE(x(uint32_t{1}) && x.bulk(as_const_bytes("xyz"), 100));
  EXPECT_EQ(out, bytes({0, 0, 0, 1, 0, 0, 0, 3, 'x', 'y', 'z', 0}));
  EXPECT_EQ(x.position(), 12U);
}

TEST(Bulk, WithAList_StandsBesideTheStreamAtItsPosition) {
  ByteVector out = bytes({9, 9, 9, 9});  // for example a record mark
  std::vector<Bulk> bulks;
  Encoder x(out, &bulks);
  EXPECT_TRUE(x(uint32_t{1}) && x.bulk(as_const_bytes("xyz"), 100) && x(uint32_t{2}));
  EXPECT_TRUE(x.bulk(as_const_bytes("1234"), 100));
  EXPECT_EQ(out, bytes({9, 9, 9, 9, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 4}));
  ASSERT_EQ(bulks.size(), 2U);
  EXPECT_EQ(bulks[0].position, 8U);
  EXPECT_EQ(bulks[0].inline_offset, 8U);
  EXPECT_EQ(as_string_view(bulks[0].data), "xyz");
  EXPECT_EQ(bulks[1].position, 20U);  // 8 + 3 data + 1 padding + 8
  EXPECT_EQ(bulks[1].inline_offset, 16U);
  EXPECT_EQ(x.position(), 24U);
  EXPECT_EQ(x.inline_bytes(), 16U);
}

// RFC 8166 section 3.4.6: an empty item has no data to move, and some servers treat a chunk for it as an
// error.
TEST(Bulk, Empty_LeavesNoEntry) {
  ByteVector out;
  std::vector<Bulk> bulks;
  Encoder x(out, &bulks);
  EXPECT_TRUE(x.bulk({}, 100));
  EXPECT_TRUE(bulks.empty());
  EXPECT_EQ(out, bytes({0, 0, 0, 0}));
}

TEST(Bulk, Sizer_CountsItBesideTheStream) {
  Sizer s;
  EXPECT_TRUE(s(uint64_t{1}) && s.bulk(as_const_bytes("xyz"), 100));
  EXPECT_EQ(s.inline_bytes(), 12U);
  EXPECT_EQ(s.bulk_bytes(), 4U);
  EXPECT_EQ(s.total(), 16U);
}

TEST(Bulk, ReceivedElsewhere_IsTakenFromThere) {
  const ByteVector in = bytes({0, 0, 0, 3, 0, 0, 0, 8});
  Decoder x(in);
  x.set_bulk(as_const_bytes("abc"));
  ConstBytes view;
  uint32_t after = 0;
  EXPECT_TRUE(x.bulk(view, 100) && x(after));
  EXPECT_EQ(as_string_view(view), "abc");
  EXPECT_EQ(after, 8U);
}

TEST(Bulk, ReceivedLengthThatDiffers_Fails) {
  const ByteVector in = bytes({0, 0, 0, 4});
  Decoder x(in);
  x.set_bulk(as_const_bytes("abc"));
  ConstBytes view;
  EXPECT_FALSE(x.bulk(view, 100));
}

TEST(Bulk, OnlyTheNextItem_IsReceivedElsewhere) {
  const ByteVector in = bytes({0, 0, 0, 1, 0, 0, 0, 2, 'h', 'i', 0, 0});
  Decoder x(in);
  x.set_bulk(as_const_bytes("z"));
  ConstBytes first;
  ConstBytes second;
  EXPECT_TRUE(x.bulk(first, 100) && x.bulk(second, 100));
  EXPECT_EQ(as_string_view(first), "z");
  EXPECT_EQ(as_string_view(second), "hi");
}

TEST(Patch, CountWrittenBefore_IsReplaced) {
  ByteVector out = bytes({9, 9, 9, 9});
  Encoder x(out);
  EXPECT_TRUE(x(uint32_t{1}));
  const size_t at = x.inline_bytes();
  EXPECT_TRUE(x(uint32_t{0}) && x(uint32_t{3}) && x.patch(at, 2));
  EXPECT_EQ(out, bytes({9, 9, 9, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3}));
}

TEST(Patch, OutsideOfWhatWasWritten_Fails) {
  for (const size_t at : {size_t{4}, size_t{2}, SIZE_MAX - 3}) {
    ByteVector out;
    Encoder x(out);
    EXPECT_TRUE(x(uint32_t{1}));
    EXPECT_FALSE(x.patch(at, 2)) << at;
    EXPECT_FALSE(x.ok());
  }
}

TEST(Raw, NotAMultipleOfFour_Fails) {
  ByteVector out;
  Encoder x(out);
  EXPECT_TRUE(x.raw(as_const_bytes("abcd")));
  EXPECT_FALSE(x.raw(as_const_bytes("abc")));
  EXPECT_EQ(out.size(), 4U);
}

TEST(Array, ComesBack) {
  const std::vector<uint32_t> values{1, 2, 3};
  ByteVector out;
  Encoder e(out);
  EXPECT_TRUE(array(e, values, 3));
  Sizer s;
  EXPECT_TRUE(array(s, values, 3));
  EXPECT_EQ(s.total(), out.size());
  Decoder d(out);
  std::vector<uint32_t> back{7};
  EXPECT_TRUE(array(d, back, 3));
  EXPECT_EQ(back, values);
}

TEST(Array, LongerThanItsType_FailsBothWays) {
  const std::vector<uint32_t> values{1, 2, 3};
  ByteVector out;
  Encoder e(out);
  EXPECT_FALSE(array(e, values, 2));
  const ByteVector in = bytes({0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3});
  Decoder d(in);
  std::vector<uint32_t> back;
  EXPECT_FALSE(array(d, back, 2));
  EXPECT_TRUE(back.empty());
}

TEST(Array, CountBeyondTheBytesLeft_AllocatesNothing) {
  const ByteVector in = bytes({0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1});
  Decoder x(in);
  std::vector<uint64_t> back;
  EXPECT_FALSE(array(x, back, UINT32_MAX, 8));
  EXPECT_EQ(back.capacity(), 0U);
  EXPECT_STREQ(x.failure(), "truncated array");
}

TEST(Optional, PresentAndAbsent_ComeBack) {
  for (const std::optional<uint32_t> v : {std::optional<uint32_t>{}, std::optional<uint32_t>{5}}) {
    ByteVector out;
    Encoder e(out);
    EXPECT_TRUE(optional(e, v));
    EXPECT_EQ(out.size(), v ? 8U : 4U);
    Decoder d(out);
    std::optional<uint32_t> back{99};
    EXPECT_TRUE(optional(d, back));
    EXPECT_EQ(back, v);
  }
}

TEST(Strings, AnyByte_ComesBack) {
  const std::string v("a\0\xff", 3);
  ByteVector out;
  Encoder e(out);
  EXPECT_TRUE(xdr::bytes(e, v, 3));
  Decoder d(out);
  std::string back;
  EXPECT_TRUE(xdr::bytes(d, back, 3));
  EXPECT_EQ(back, v);
}

enum Color : uint32_t { kRed = 1 };

TEST(Enums, AreFourBytes_AndNotChecked) {
  EXPECT_EQ(encoded(kRed), bytes({0, 0, 0, 1}));
  const ByteVector in = bytes({0, 0, 0, 9});
  Decoder x(in);
  Color color{};
  EXPECT_TRUE(x(color));
  EXPECT_EQ(static_cast<uint32_t>(color), 9U);
}

TEST(DecodeWhole, TrailingBytes_AreAnError) {
  const ByteVector in = bytes({0, 0, 0, 1, 0, 0, 0, 2});
  const auto v = decode<uint32_t>(in, "a number");
  ASSERT_FALSE(v);
  EXPECT_EQ(v.error().layer, Layer::kXdr);
  EXPECT_EQ(v.error().recovery, Recovery::kPermanent);
  EXPECT_EQ(v.error().errnum, EIO);
  EXPECT_EQ(describe(v.error()), "a number: Input/output error: trailing bytes");
}

TEST(DecodeWhole, Truncated_NamesTheReason) {
  const ByteVector in = bytes({0, 0, 0});
  const auto v = decode<uint32_t>(in, "a number");
  ASSERT_FALSE(v);
  EXPECT_EQ(v.error().cause, "truncated");
}

}  // namespace
}  // namespace nfsrdma::xdr

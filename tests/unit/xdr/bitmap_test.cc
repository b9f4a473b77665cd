// SPDX-License-Identifier: Apache-2.0
#include "xdr/nfs4/bitmap.h"

#include <gtest/gtest.h>

#include <unordered_set>

#include "xdr/nfs4/basic.h"

namespace nfsrdma::nfs4 {
namespace {

ByteVector encoded(const bitmap4& v) {
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_TRUE(x(v));
  return out;
}

bitmap4 decoded(std::initializer_list<uint32_t> words) {
  ByteVector wire;
  xdr::Encoder e(wire);
  for (const uint32_t word : words) e(word);
  bitmap4 v;
  xdr::Decoder d(wire);
  EXPECT_TRUE(d(v)) << d.failure();
  return v;
}

// RFC 8881 section 3.3.7: "The position of the integer in the array that contains bit n can be computed from
// the expression (n / 32), and its bit within that integer is (n mod 32)."
TEST(Bitmap, Bit33_IsBitOneOfWordOne) {
  const bitmap4 map = bitmap4::of({33});
  EXPECT_TRUE(map.test(33));
  EXPECT_FALSE(map.test(32));
  EXPECT_EQ(map, decoded({2, 0, 2}));
  EXPECT_EQ(encoded(map).size(), 12U);
}

TEST(Bitmap, Empty_IsACountOfZero) {
  EXPECT_EQ(encoded(bitmap4{}).size(), 4U);
  EXPECT_TRUE(bitmap4{}.empty());
}

TEST(Bitmap, ZeroWordsFromAPeer_AreKeptOnTheWireAndIgnoredInComparison) {
  const bitmap4 padded = decoded({3, 1, 0, 0});
  EXPECT_EQ(padded, bitmap4::of({0}));
  EXPECT_EQ(encoded(padded).size(), 16U);
}

TEST(Bitmap, EightWords_AreAcceptedAndNineAreNot) {
  EXPECT_TRUE(decoded({8, 0, 0, 0, 0, 0, 0, 0, 0x80000000}).test(255));
  const ByteVector nine = [] {
    ByteVector wire;
    xdr::Encoder e(wire);
    for (const uint32_t word : {9U, 0U, 0U, 0U, 0U, 0U, 0U, 0U, 0U, 1U}) e(word);
    return wire;
  }();
  xdr::Decoder x(nine);
  bitmap4 v = bitmap4::of({1});
  EXPECT_FALSE(x(v));
  EXPECT_TRUE(v.empty());
}

TEST(Bitmap, DecodedTwice_ForgetsTheFirst) {
  ByteVector wire;
  xdr::Encoder e(wire);
  EXPECT_TRUE(e(bitmap4::of({40})) && e(bitmap4::of({1})));
  xdr::Decoder d(wire);
  bitmap4 v;
  EXPECT_TRUE(d(v) && d(v));
  EXPECT_EQ(v, bitmap4::of({1}));
  EXPECT_EQ(encoded(v).size(), 8U);
}

TEST(Bitmap, Cleared_GivesUpWordsThatBecomeEmpty) {
  bitmap4 map = bitmap4::of({1, 64});
  map.clear(64);
  EXPECT_EQ(map, bitmap4::of({1}));
  EXPECT_EQ(encoded(map).size(), 8U);
  map.clear(1);
  EXPECT_TRUE(map.empty());
}

TEST(Bitmap, SetOperations_AreThoseOfSets) {
  const bitmap4 a = bitmap4::of({1, 33, 70});
  const bitmap4 b = bitmap4::of({33, 71});
  EXPECT_EQ(a | b, bitmap4::of({1, 33, 70, 71}));
  EXPECT_EQ(a & b, bitmap4::of({33}));
  EXPECT_EQ(a.without(b), bitmap4::of({1, 70}));
  EXPECT_TRUE(a.contains(bitmap4::of({70})));
  EXPECT_FALSE(a.contains(b));
  EXPECT_EQ(encoded(a & b).size(), 12U);
}

TEST(Bitmap, Every_VisitsInOrderAndStops) {
  std::vector<uint32_t> seen;
  EXPECT_TRUE(bitmap4::of({70, 0, 31, 32}).every([&](uint32_t bit) {
    seen.push_back(bit);
    return true;
  }));
  EXPECT_EQ(seen, (std::vector<uint32_t>{0, 31, 32, 70}));
  EXPECT_FALSE(bitmap4::of({1, 2}).every([](uint32_t bit) { return bit != 1; }));
}

TEST(Bitmap, BitsBeyondTheEnd_AreNotSet) {
  const bitmap4 map;
  EXPECT_FALSE(map.test(256));
  EXPECT_FALSE(map.test(UINT32_MAX));
}

TEST(Filehandle, Of128Bytes_FitsAnd129DoesNot) {
  const std::string bytes(129, 'f');
  const nfs_fh4 whole(as_const_bytes(bytes).first(128));
  EXPECT_EQ(whole.size(), NFS4_FHSIZE);
  nfs_fh4 fh = whole;
  EXPECT_FALSE(fh.assign(as_const_bytes(bytes)));
  EXPECT_EQ(fh, whole);
  EXPECT_TRUE(nfs_fh4(as_const_bytes(bytes)).empty());
}

TEST(Filehandle, ReplacedByAShorterOne_ComparesByItsBytes) {
  nfs_fh4 fh(as_const_bytes("longer handle"));
  EXPECT_TRUE(fh.assign(as_const_bytes("ab")));
  EXPECT_EQ(fh, nfs_fh4(as_const_bytes("ab")));
  EXPECT_NE(fh, nfs_fh4(as_const_bytes("abc")));
  EXPECT_NE(fh, nfs_fh4(as_const_bytes("ac")));
  std::unordered_set<nfs_fh4> set{fh};
  EXPECT_TRUE(set.contains(nfs_fh4(as_const_bytes("ab"))));
}

// RFC 8881 section 8.2.3 lists the special stateids.
TEST(Stateid, SpecialValues_AreTheRfcs) {
  EXPECT_EQ(kAnonymousStateid, (stateid4{0, {}}));
  EXPECT_EQ(kReadBypassStateid.seqid, NFS4_UINT32_MAX);
  for (const std::byte b : kReadBypassStateid.other) EXPECT_EQ(b, std::byte{0xff});
  EXPECT_EQ(kCurrentStateid.seqid, 1U);
  EXPECT_TRUE(kCurrentStateid.same_state(kAnonymousStateid));
  EXPECT_EQ(kInvalidStateid.seqid, NFS4_UINT32_MAX);
  EXPECT_TRUE(kInvalidStateid.same_state(kAnonymousStateid));
  EXPECT_EQ(std::hash<stateid4>{}(kCurrentStateid), std::hash<stateid4>{}(kAnonymousStateid));
}

TEST(Verifier, OfANumber_IsBigEndian) {
  const verifier4 v = verifier4::of(0x0102030405060708);
  EXPECT_EQ(std::to_integer<int>(v.data[0]), 1);
  EXPECT_EQ(std::to_integer<int>(v.data[7]), 8);
}

}  // namespace
}  // namespace nfsrdma::nfs4

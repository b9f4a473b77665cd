// SPDX-License-Identifier: Apache-2.0
// How much memory a hostile peer can make the decoders allocate. Every word of every golden message is
// replaced by false lengths. The largest block and the sum of a decode must be limited by the received bytes,
// not by the claimed lengths.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/golden/golden.h"

namespace {

size_t g_largest = 0;
size_t g_total = 0;

void* counted(size_t n) {
  g_largest = n > g_largest ? n : g_largest;
  g_total += n;
  void* p = std::malloc(n != 0 ? n : 1);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

// Not inlined, because g++ would warn that malloc() and free() do not match new and delete.
[[gnu::noinline]] void release(void* p) {
  std::free(p);
}

}  // namespace

void* operator new(size_t n) {
  return counted(n);
}
void* operator new[](size_t n) {
  return counted(n);
}
// The standard library's own calls the one above, AddressSanitizer's does not.
void* operator new(size_t n, const std::nothrow_t&) noexcept {
  try {
    return counted(n);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
  release(p);
}
void operator delete(void* p) noexcept {
  release(p);
}
void operator delete[](void* p) noexcept {
  release(p);
}
void operator delete(void* p, size_t) noexcept {
  release(p);
}
void operator delete[](void* p, size_t) noexcept {
  release(p);
}

namespace nfsrdma::golden {
namespace {

struct Allocated {
  size_t largest = 0;
  size_t total = 0;
};

Allocated decode_counted(Kind kind, ConstBytes bytes) {
  Allocated allocated;
  visit_kind(kind, [&](auto value) {
    g_largest = 0;
    g_total = 0;
    xdr::Decoder x(bytes);
    (void)(x(value.header) && x(value.body));
    allocated = {g_largest, g_total};
  });
  return allocated;
}

// A vector reserves at most 64 elements before any has decoded; the largest element is an operation. Later
// growth at most doubles what has decoded.
constexpr size_t kLargestElement = std::max(sizeof(nfs4::nfs_resop4), sizeof(nfs4::nfs_argop4));

TEST(HostileLengths, InAnyWord_AllocateNoMoreThanTheMessageIsWorth) {
  for (const Message& message : messages()) {
    const size_t honest = decode_counted(message.kind, message.bytes).total;
    for (size_t at = 0; at + 4 <= message.bytes.size(); at += 4) {
      for (const uint32_t lie : {0xffffffffU, 0x7fffffffU, 0x80000000U, 0x00ffffffU, 65535U, 1024U}) {
        ByteVector bytes = message.bytes;
        store_be32(bytes.data() + at, lie);
        const Allocated got = decode_counted(message.kind, bytes);
        ASSERT_LE(got.largest, 64 * kLargestElement) << message.name << " word " << at / 4 << " = " << lie;
        ASSERT_LE(got.total, 4 * honest + 64 * kLargestElement)
            << message.name << " word " << at / 4 << " = " << lie;
      }
    }
  }
}

template <class T>
size_t allocated_by(std::initializer_list<uint32_t> words) {
  ByteVector wire;
  xdr::Encoder e(wire);
  for (const uint32_t word : words) e(word);
  g_total = 0;
  {
    T value{};
    xdr::Decoder x(wire);
    EXPECT_FALSE(x(value));
  }
  return g_total;
}

TEST(HostileLengths, CountsOfFourBillion_AllocateNothing) {
  constexpr uint32_t kLie = 0xffffffff;
  EXPECT_EQ(allocated_by<nfs4::COMPOUND4args>({0, 1, kLie, 0}), 0U);
  EXPECT_EQ(allocated_by<nfs4::COMPOUND4args>({kLie, 1, 0}), 0U);
  EXPECT_EQ(allocated_by<nfs4::COMPOUND4res>({0, 0, kLie, 0}), 0U);
  EXPECT_EQ(allocated_by<nfs4::CB_COMPOUND4args>({0, 1, 0, kLie, 0}), 0U);
  EXPECT_EQ(allocated_by<nfs4::TEST_STATEID4args>({kLie, 0, 0, 0, 0}), 0U);
  EXPECT_EQ(allocated_by<nfs4::TEST_STATEID4res>({0, kLie, 0}), 0U);
  EXPECT_EQ(allocated_by<nfs4::SECINFO4res>({0, kLie, 1}), 0U);
  EXPECT_EQ(allocated_by<nfs4::CREATE_SESSION4args>({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kLie}), 0U);
  EXPECT_EQ(allocated_by<nfs4::READLINK4res>({0, kLie, 0}), 0U);
  EXPECT_EQ(allocated_by<nfs4::READ4res>({0, 1, kLie, 0}), 0U);
  EXPECT_EQ(allocated_by<nfs4::LOOKUP4args>({kLie, 0}), 0U);
  EXPECT_EQ(allocated_by<nfs4::fattr4>({1, 1U << nfs4::FATTR4_SIZE, kLie, 0}), 0U);
  EXPECT_EQ(allocated_by<nfs4::bitmap4>({kLie, 0, 0}), 0U);
  EXPECT_EQ(allocated_by<rpc::authsys_parms>({0, 0, 0, 0, kLie}), 0U);
}

// How far a whole message can be inflated: an entry of READDIR has at least 24 encoded bytes.
TEST(HostileLengths, DirectoryOfEmptyEntries_CostsAFixedFactor) {
  nfs4::READDIR4res res;
  res.resok4.reply.entries.resize(10000);
  ByteVector wire;
  xdr::Encoder e(wire);
  ASSERT_TRUE(e(res));
  g_total = 0;
  nfs4::READDIR4res back;
  xdr::Decoder x(wire);
  ASSERT_TRUE(x(back));
  // A vector that doubles allocates in all at most three times its final size.
  EXPECT_LE(g_total, 4 * 10000 * sizeof(nfs4::entry4));
  EXPECT_LE(sizeof(nfs4::entry4), 24U * wire.size() / 10000);
}

}  // namespace
}  // namespace nfsrdma::golden

// SPDX-License-Identifier: Apache-2.0
// Pipe, PipePool, BulkData: data comes out as it went in, a full pipe reports it, and nobody gets data of an
// earlier user.
#include "transport/memory/pipe.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/unit/transport/support/eventually.h"
#include "transport/memory/bulk_data.h"

namespace nfsrdma::test {
namespace {

ByteVector letters(size_t n) {
  ByteVector bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>('a' + i % 23);
  return bytes;
}

struct PipeTest : ::testing::Test {
  void SetUp() override {
    pipe = pool.get();
    if (pipe == nullptr) GTEST_SKIP() << "the system gives no pipe of " << Pipe::kSlots << " pages";
  }
  PipePool pool;
  PipeRef pipe;
};

TEST_F(PipeTest, SocketToDescriptor_BytesAndCountsAreRight) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
  EXPECT_EQ(pipe->fill(sockets[0], 100), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(pipe->full()) << "it was the socket that had nothing";
  const ByteVector sent = letters(5000);
  ASSERT_EQ(::send(sockets[1], sent.data(), sent.size(), 0), 5000);
  EXPECT_EQ(pipe->fill(sockets[0], 4000), 4000);
  EXPECT_EQ(pipe->size(), 4000u);

  PipeRef next = pool.get();
  EXPECT_EQ(next->fill(*pipe, 3000), 3000);
  EXPECT_EQ(pipe->size(), 1000u);
  EXPECT_EQ(next->drain(sockets[0], 3000), 3000);
  EXPECT_EQ(next->size(), 0u);
  ByteVector got(3000);
  ASSERT_EQ(::recv(sockets[1], got.data(), got.size(), MSG_WAITALL), 3000);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), sent.begin()));

  ::close(sockets[1]);
  EXPECT_EQ(pipe->fill(sockets[0], 4000), 1000);
  EXPECT_EQ(pipe->fill(sockets[0], 4000), 0) << "the end of the stream";
  ::close(sockets[0]);
}

TEST_F(PipeTest, EverySlotUsed_Full) {
  const ByteVector page = letters(4096);
  for (size_t i = 0; i < Pipe::kSlots; ++i) ASSERT_EQ(pipe->write(page), 4096) << i;
  EXPECT_TRUE(pipe->full());
  EXPECT_EQ(pipe->write(page), -1);
  EXPECT_EQ(errno, EAGAIN);
  ByteVector back(page.size());
  EXPECT_TRUE(read_all(*pipe, back));
  EXPECT_FALSE(pipe->full());
}

TEST_F(PipeTest, ReturnedWithBytesInIt_NobodyGetsThem) {
  for (size_t i = 0; i < 3 * PipePool::kMaxPipes; ++i) {
    ASSERT_NE(pipe, nullptr) << "the pool counts pipes that are gone";
    EXPECT_EQ(pipe->size(), 0u);
    ByteVector byte(1);
    EXPECT_EQ(pipe->read(byte), -1);
    EXPECT_EQ(errno, EAGAIN);
    ASSERT_EQ(pipe->write(letters(10)), 10);
    pipe.reset();
    pipe = pool.get();
  }
}

TEST_F(PipeTest, AllLent_NoneMore) {
  std::vector<PipeRef> lent;
  while (PipeRef p = pool.get()) lent.push_back(std::move(p));
  EXPECT_EQ(lent.size() + 1, PipePool::kMaxPipes - PipePool::kReserved);
  for (size_t i = 0; i < PipePool::kReserved; ++i) {
    lent.push_back(pool.get_reserved());
    EXPECT_NE(lent.back(), nullptr) << "a reply can still be put together";
  }
  EXPECT_EQ(pool.get_reserved(), nullptr);
  lent.erase(lent.begin() + PipePool::kReserved, lent.end());
  EXPECT_NE(pool.get(), nullptr);
}

TEST_F(PipeTest, Paused_NoneForAWhile) {
  pool.pause();
  EXPECT_EQ(pool.get(), nullptr);
  EXPECT_EQ(pool.get_reserved(), nullptr);
  pipe.reset();
  EXPECT_EQ(pool.get(), nullptr);
  EXPECT_TRUE(eventually([&] { return pool.get() != nullptr; }));
}

TEST_F(PipeTest, BulkData_LandsWhereItBelongs) {
  BufferPool buffers;
  const ByteVector want = letters(10000);
  BulkData data;
  data.slice = buffers.slice(want.size());
  std::memcpy(data.slice.bytes.data(), want.data(), want.size());
  std::memset(data.slice.bytes.data() + 1000, 0, 7000);
  data.piped = {1000, 8000};
  data.pipe = std::move(pipe);
  ASSERT_EQ(data.pipe->write(ConstBytes(want).subspan(1000, 7000)), 7000);
  EXPECT_TRUE(data.land());
  EXPECT_TRUE(data.piped.empty());
  EXPECT_TRUE(std::equal(want.begin(), want.end(), data.slice.bytes.begin()));
  EXPECT_TRUE(data.land()) << "nothing is left to do";
}

TEST_F(PipeTest, PipeHoldsLessThanItShould_IsSaid) {
  BufferPool buffers;
  BulkData data;
  data.slice = buffers.slice(100);
  data.piped = {0, 100};
  data.pipe = std::move(pipe);
  ASSERT_EQ(data.pipe->write(letters(99)), 99);
  EXPECT_FALSE(data.land());
}

}  // namespace
}  // namespace nfsrdma::test

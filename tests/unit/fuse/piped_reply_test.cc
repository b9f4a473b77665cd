// SPDX-License-Identifier: Apache-2.0
// PipedReply: header and data are sent in order, whether in memory or in pipes, and when the pipe has too few
// slots.
#include "fuse/piped_reply.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace nfsrdma::fuse::test {
namespace {

constexpr char kHeader[] = "sixteen bytes ..";
constexpr size_t kHeaderBytes = 16;

struct PipedReplyTest : ::testing::Test {
  // Data of `size` bytes of which [begin, end) is in a pipe, in slots of `slot` bytes.
  void add(size_t size, size_t begin, size_t end, size_t slot = 4096) {
    BulkData d;
    d.slice = pool->slice(size);
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (want.size() + i) % 26);
    std::memcpy(d.slice.bytes.data(), text.data(), size);
    if (begin != end) {
      d.piped = {begin, end};
      d.pipe = pool->pipes().get();
      ASSERT_NE(d.pipe, nullptr);
      std::memset(d.slice.bytes.data() + begin, '#', end - begin);
      for (size_t at = begin; at < end; at += slot) {
        const auto piece = std::as_bytes(std::span(text).subspan(at, std::min(slot, end - at)));
        ASSERT_EQ(d.pipe->write(piece), static_cast<ssize_t>(piece.size()));
      }
    }
    want += text;
    data.push_back(std::move(d));
  }

  void send() {
    char header[kHeaderBytes + 1];
    std::memcpy(header, kHeader, sizeof header);
    std::FILE* device = std::tmpfile();
    ASSERT_NE(device, nullptr);
    PipedReply reply;
    reply.expect(data, pool->pipes());
    ASSERT_TRUE(reply.expected());
    const ssize_t n = reply.send(::fileno(device), {header, kHeaderBytes});
    EXPECT_FALSE(reply.expected());
    EXPECT_EQ(n, static_cast<ssize_t>(kHeaderBytes + want.size()));
    std::string got(kHeaderBytes + want.size() + 1, '\0');
    got.resize(static_cast<size_t>(::pread(::fileno(device), got.data(), got.size(), 0)));
    EXPECT_TRUE(got == kHeader + want);
    std::fclose(device);
  }

  void SetUp() override {
    if (buffers.pipes().get() == nullptr) GTEST_SKIP() << "the system gives no pipes";
  }

  BufferPool buffers;
  BufferPool* pool = &buffers;
  std::vector<BulkData> data;
  std::string want;
};

TEST_F(PipedReplyTest, MemoryAndPipes_InOrder) {
  add(70000, 100, 69000);
  add(5000, 0, 0);
  add(70000, 0, 70000);
  EXPECT_TRUE(PipedReply::suits(data));
  send();
}

TEST_F(PipedReplyTest, MoreFragmentsThanSlots_IsAnsweredFromMemory) {
  // Needs 1 + 1 + 200 + 1 + 200 of 256 slots: the pipe is full within the second piece.
  add(200 * 4096 + 50, 50, 200 * 4096 + 50);
  add(200 * 4096 + 50, 0, 200 * 4096);
  EXPECT_TRUE(PipedReply::suits(data));
  send();
}

TEST_F(PipedReplyTest, StuckAtAnyPlace_IsAnsweredFromMemory) {
  for (const size_t pages : {253, 254, 255, 256}) {
    // After a full pipe a pool gives none for a while, so each round has its own pool.
    BufferPool fresh;
    pool = &fresh;
    want.clear();
    add(pages * 4096, 0, pages * 4096);
    add(9000, 3, 8000, 1000);
    send();
    data.clear();
  }
}

TEST_F(PipedReplyTest, NoPipeLeft_IsAnsweredFromMemory) {
  add(70000, 100, 69000);
  std::vector<PipeRef> lent;
  while (PipeRef p = buffers.pipes().get_reserved()) lent.push_back(std::move(p));
  send();
}

// Without any reply the application would block for ever.
TEST_F(PipedReplyTest, PipeHoldsLessThanItShould_EioIsTheAnswer) {
  add(70000, 0, 69000);
  ByteVector lost(1);
  ASSERT_EQ(data.front().pipe->read(lost), 1);
  fuse_out_header header{};
  header.len = static_cast<uint32_t>(sizeof header + 70000);
  header.unique = 77;
  std::FILE* device = std::tmpfile();
  ASSERT_NE(device, nullptr);
  PipedReply reply;
  reply.expect(data, buffers.pipes());
  EXPECT_EQ(reply.send(::fileno(device), {&header, sizeof header}), static_cast<ssize_t>(sizeof header));
  fuse_out_header got{};
  ASSERT_EQ(::pread(::fileno(device), &got, sizeof got, 0), static_cast<ssize_t>(sizeof got));
  EXPECT_EQ(got.len, sizeof got);
  EXPECT_EQ(got.error, -EIO);
  EXPECT_EQ(got.unique, 77u);
  std::fclose(device);
}

TEST_F(PipedReplyTest, ManyPieces_DoNotSuit) {
  for (size_t i = 0; i <= PipedReply::kMaxPieces; ++i) {
    EXPECT_EQ(PipedReply::suits(data), i > 0) << i;
    add(100, 0, i == 0 ? 100 : 0);
  }
  EXPECT_FALSE(PipedReply::suits(data));
}

TEST_F(PipedReplyTest, MuchInMemory_DoesNotSuit) {
  add(200000, 0, 100000);
  EXPECT_FALSE(PipedReply::suits(data));
  data.clear();
  add(100, 0, 0);
  EXPECT_FALSE(PipedReply::suits(data)) << "nothing in a pipe";
}

}  // namespace
}  // namespace nfsrdma::fuse::test

// BufferPool: size classes, alignment, sharing, what it keeps.
#include "transport/memory/buffer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace nfsrdma::test {
namespace {

TEST(BufferPool, EverySize_PageAlignedAndLargeEnough) {
  BufferPool pool;
  for (const size_t n : {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{65537}, size_t{1} << 20,
                         (size_t{1} << 20) + 1, BufferPool::kMaxBytes}) {
    const BufferRef b = pool.get(n);
    ASSERT_TRUE(b);
    EXPECT_GE(b->capacity(), n);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data()) % 4096, 0u);
    std::memset(b->data(), 0x5a, b->capacity());  // all of it is ours
  }
  EXPECT_EQ(pool.outstanding_bytes(), 0u);
}

TEST(BufferPool, LastReferenceGone_MemoryIsUsedAgain) {
  BufferPool pool;
  const std::byte* first = nullptr;
  {
    BufferRef a = pool.get(10000);
    first = a->data();
    const BufferRef b = a;
    EXPECT_FALSE(a.unique());
    a.reset();
    EXPECT_TRUE(b.unique());
    EXPECT_NE(pool.get(10000)->data(), first) << "still in use";
    EXPECT_EQ(pool.outstanding_bytes(), 16384u);
  }
  EXPECT_EQ(pool.get(16384)->data(), first);
}

TEST(BufferPool, KeepLimit_ExcessGoesBackToTheSystem) {
  BufferPool pool(8192);
  {
    std::vector<BufferRef> many;
    for (int i = 0; i < 100; ++i) many.push_back(pool.get(4096));
    EXPECT_EQ(pool.outstanding_bytes(), 100u * 4096);
  }
  EXPECT_EQ(pool.outstanding_bytes(), 0u);
}

TEST(Slice, Windows_ShareTheMemory) {
  BufferPool pool;
  Slice whole = pool.slice(5000);
  EXPECT_EQ(whole.size(), 5000u);
  const Slice part = whole.subslice(100, 50);
  EXPECT_EQ(part.bytes.data(), whole.bytes.data() + 100);
  whole = Slice{};
  EXPECT_EQ(pool.outstanding_bytes(), 8192u) << "the part keeps all of it";
  EXPECT_EQ(part.first(10).size(), 10u);
}

TEST(BufferPool, FourThreads_GetShareAndDrop) {
  BufferPool pool;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (uint32_t i = 0; i < 5000; ++i) {
        const Slice a = pool.slice(4096u << (i % 3));
        std::memset(a.bytes.data(), static_cast<int>(t), a.size());
        const Slice b = a;
        ASSERT_EQ(b.bytes[b.size() - 1], static_cast<std::byte>(t));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(pool.outstanding_bytes(), 0u);
}

}  // namespace
}  // namespace nfsrdma::test

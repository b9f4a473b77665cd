// SPDX-License-Identifier: Apache-2.0
// BufferPool: size classes, alignment, sharing, and what it keeps.
#include "transport/memory/buffer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace nfsrdma::test {
namespace {

// In smaps (proc(5)), for the mapping that contains `at`: the rest of the line that begins with `label`.
std::string mapping_of(const std::byte* at, const char* label) {
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long first = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &end) == 2)
      inside = first <= reinterpret_cast<uintptr_t>(at) && reinterpret_cast<uintptr_t>(at) < end;
    if (inside && line.starts_with(label)) return line.substr(std::strlen(label));
  }
  return {};
}

// The kernel's flags for that mapping: two-letter words.
std::set<std::string> kernel_flags(const std::byte* at) {
  std::istringstream words(mapping_of(at, "VmFlags:"));
  return {std::istream_iterator<std::string>(words), {}};
}

bool has_huge_pages(const std::byte* at) {
  const std::string kib = mapping_of(at, "AnonHugePages:");
  return !kib.empty() && std::stoul(kib) != 0;
}

TEST(BufferPool, EverySize_PageAlignedAndLargeEnough) {
  BufferPool pool;
  for (const size_t n : {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{65537}, size_t{1} << 20,
                         (size_t{1} << 20) + 1, BufferPool::kMaxBytes}) {
    const BufferRef b = pool.get(n);
    ASSERT_TRUE(b);
    EXPECT_GE(b->capacity(), n);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data()) % 4096, 0u);
    std::memset(b->data(), 0x5a, b->capacity());  // all of its memory is usable
  }
  EXPECT_EQ(pool.outstanding_bytes(), 0u);
}

TEST(BufferPool, Data_IsNotInCoreDumps) {
  BufferPool pool(0);
  for (const size_t bytes : {size_t{1}, size_t{100'000}, BufferPool::kMaxBytes}) {
    const BufferRef b = pool.get(bytes);
    // proc_pid_smaps(5): "dd - do not include area into core dump".
    EXPECT_NE(mapping_of(b->data(), "VmFlags:").find(" dd"), std::string::npos) << bytes;
  }
}

TEST(BufferPool, BuffersOfManyPages_LieInMemoryThatMayHaveHugeOnes) {
  BufferPool pool;
  const BufferRef large = pool.get(BufferPool::kMaxBytes), small = pool.get(4096);
  ASSERT_TRUE(large && small);
  *large->data() = *small->data() = std::byte{1};
  const std::set<std::string> of_large = kernel_flags(large->data());
  if (of_large.empty()) GTEST_SKIP() << "/proc/self/smaps has no VmFlags";
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage"))
    GTEST_SKIP() << "this kernel has no huge pages";
  EXPECT_TRUE(of_large.contains("hg")) << "MADV_HUGEPAGE";
  EXPECT_FALSE(kernel_flags(small->data()).contains("hg"))
      << "all of a slab would be resident for a few pages";
}

// Memory outside the pool shows whether the system has any huge pages.
TEST(BufferPool, BuffersOfManyPages_AreInHugeOnes) {
#ifdef NFSRDMA_SANITIZED
  GTEST_SKIP() << "a sanitizer's allocator puts slabs where no huge page fits";
#endif
  constexpr size_t kSlabs = 8, kBytes = kSlabs * BufferPool::kSlabBytes;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  (void)::madvise(memory, kBytes, MADV_HUGEPAGE);
  std::memset(memory, 0x5a, kBytes);
  const bool there_are = has_huge_pages(static_cast<const std::byte*>(memory));
  ::munmap(memory, kBytes);
  if (!there_are) GTEST_SKIP() << "the system gives no huge pages";
  BufferPool pool;
  std::vector<BufferRef> buffers;
  for (size_t i = 0; i < kSlabs; ++i) {
    buffers.push_back(pool.get(BufferPool::kMaxBytes));
    ASSERT_TRUE(buffers.back());
    std::memset(buffers.back()->data(), 0x5a, buffers.back()->capacity());
  }
  EXPECT_TRUE(std::any_of(buffers.begin(), buffers.end(),
                          [](const BufferRef& b) { return has_huge_pages(b->data()); }));
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
  EXPECT_EQ(pool.slabs(), 0u);
}

// A regression: READs were received into a new mapping each, because WRITEs had left all memory that may be
// kept in another size.
TEST(BufferPool, OneSizeLeftAllThatIsKept_AnotherIsStillUsedAgain) {
  BufferPool pool(4 * BufferPool::kSlabBytes);
  {
    std::vector<BufferRef> writes;
    for (int i = 0; i < 8; ++i) writes.push_back(pool.get(BufferPool::kMaxBytes));
  }
  EXPECT_EQ(pool.slabs(), 4u);
  const std::byte* first = pool.get(4096)->data();
  EXPECT_EQ(pool.slabs(), 4u) << "one of the other size went";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(pool.get(4096)->data(), first);
  EXPECT_EQ(pool.slabs(), 4u);
}

// A writer that filled buffers until COMMIT will fill them again. Where a free page has to be fetched from a
// virtual machine's host, its first touch costs more than everything else. Memory is freed when nobody has
// used it for a while.
TEST(BufferPool, UsedLately_IsKeptUntilItHasBeenIdleForAWhile) {
  BufferPool pool(2 * BufferPool::kSlabBytes, 6 * BufferPool::kSlabBytes);
  const auto use = [&](size_t buffers) {
    std::vector<BufferRef> held;
    for (size_t i = 0; i < buffers; ++i) held.push_back(pool.get(BufferPool::kMaxBytes));
  };
  use(10);
  EXPECT_EQ(pool.slabs(), 6u);
  EXPECT_EQ(pool.idle_bytes(), 6 * BufferPool::kSlabBytes);
  pool.trim(3);
  use(4);
  pool.trim(3);
  EXPECT_EQ(pool.slabs(), 6u);
  pool.trim(3);
  EXPECT_EQ(pool.slabs(), 4u) << "two have not been used since the first call";
  pool.trim(3);
  EXPECT_EQ(pool.slabs(), 2u);
  for (int i = 0; i < 10; ++i) pool.trim(3);
  EXPECT_EQ(pool.slabs(), 2u) << "so much stays";
}

// A slab with some buffers in use cannot be freed, however many are free: it does not count.
TEST(BufferPool, SlabsThatCannotGo_DoNotMakeOthersGo) {
  BufferPool pool(BufferPool::kSlabBytes);
  std::vector<BufferRef> held;
  for (size_t i = 0; i < 10 * BufferPool::kSlabBytes / 8192; ++i) held.push_back(pool.get(8192));
  for (size_t i = 0; i < held.size(); ++i) {
    if (i % (BufferPool::kSlabBytes / 8192) != 0) held[i].reset();
  }
  EXPECT_EQ(pool.slabs(), 10u);
  const std::byte* first = pool.get(1u << 20)->data();
  EXPECT_EQ(pool.get(1u << 20)->data(), first);
  EXPECT_EQ(pool.slabs(), 11u);
}

// Makes slabs with these numbers of buffers in use each, as if the pool had handed them out one after the
// other.
std::vector<std::vector<BufferRef>> use_of_slabs(BufferPool& pool, size_t capacity,
                                                 std::vector<size_t> used) {
  std::vector<std::vector<BufferRef>> slabs(used.size());
  for (auto& slab : slabs) {
    while (slab.size() < BufferPool::kSlabBytes / capacity) slab.push_back(pool.get(capacity));
  }
  for (size_t i = 0; i < used.size(); ++i) slabs[i].resize(used[i]);
  return slabs;
}

std::vector<size_t> leaving(const std::vector<std::vector<BufferRef>>& slabs) {
  std::vector<size_t> found;
  for (size_t i = 0; i < slabs.size(); ++i) {
    if (!slabs[i].empty() && BufferPool::is_leaving(slabs[i][0])) found.push_back(i);
  }
  return found;
}

// The buffers in use of one size fit into fewer slabs: the emptiest slabs leave when nothing of them is in
// use. 9/8 of the necessary slabs remain, plus one.
TEST(BufferPool, WhereTheRestHasRoom_TheEmptiestSlabsLeave) {
  BufferPool pool(0);
  auto slabs = use_of_slabs(pool, 8192, {5, 6, 256, 100, 1, 2, 3, 200});
  const auto twos = use_of_slabs(pool, 1u << 20, {1, 1, 1, 1, 1, 1});
  EXPECT_FALSE(pool.anything_leaving());
  for (int turn = 0; turn < 3; ++turn) {
    pool.trim(1);
    // 317 buffers are in use in seven slabs with room for 256 each: two are needed, one more stays.
    EXPECT_EQ(leaving(slabs), (std::vector<size_t>{0, 4, 5, 6})) << turn;
    EXPECT_EQ(leaving(twos).size(), 2u) << turn;
  }
  EXPECT_FALSE(BufferPool::is_leaving({}));
  EXPECT_TRUE(pool.anything_leaving());
  EXPECT_FALSE(BufferPool::is_leaving(pool.get(8192)));
  for (const size_t i : {0, 4, 5, 6}) slabs[i].clear();
  EXPECT_EQ(pool.slabs(), 4 + twos.size());
  pool.trim(1);
  EXPECT_EQ(leaving(slabs), std::vector<size_t>{});
}

TEST(BufferPool, WhatLeaves_IsUsedAgain_BeforeMoreIsGot) {
  BufferPool pool(BufferPool::kSlabBytes);
  auto slabs = use_of_slabs(pool, 8192, {9, 8, 7, 6});
  pool.trim(1);
  ASSERT_EQ(leaving(slabs), (std::vector<size_t>{2, 3}));
  std::vector<BufferRef> more;
  const auto use = [&](size_t buffers) {
    for (; buffers > 0; --buffers) more.push_back(pool.get(8192));
  };
  use(2 * 256 - 9 - 8);
  EXPECT_EQ(leaving(slabs), (std::vector<size_t>{2, 3}));
  use(1);
  EXPECT_EQ(leaving(slabs), std::vector<size_t>{3}) << "the fuller one stays";
  use(2 * 256 - 7 - 6 - 1);
  EXPECT_FALSE(pool.anything_leaving());
  EXPECT_EQ(pool.slabs(), 4u);
  more.clear();
  slabs.clear();
  EXPECT_EQ(pool.slabs(), 1u);
}

// The pages of an idle slab are resident and registered.
TEST(BufferPool, WhatIsIdle_IsCutAnewForAnotherSize) {
  struct Watcher final : SlabWatcher {
    void on_slab_going(const std::byte*) override { ++gone; }
    unsigned gone = 0;
  } watcher;
  BufferPool pool(20 * BufferPool::kSlabBytes);
  pool.add_watcher(watcher);
  use_of_slabs(pool, BufferPool::kMaxBytes, std::vector<size_t>(20, 0));
  const auto used = use_of_slabs(pool, 8192, {1});
  EXPECT_EQ(pool.slabs(), 20u);
  std::set<const std::byte*> slabs;
  for (const size_t capacity : {4096, 65536, 1 << 20}) {
    const auto cut = use_of_slabs(pool, capacity, std::vector<size_t>(3, BufferPool::kSlabBytes / capacity));
    for (const BufferRef& b : cut[0]) {
      ASSERT_EQ(b->capacity(), capacity);
      std::memset(b->data(), 0x5a, capacity);
      slabs.insert(pool.slab_of(b.bytes()));
    }
    EXPECT_EQ(pool.slabs(), 20u);
  }
  EXPECT_EQ(slabs.size(), 3u);
  EXPECT_FALSE(slabs.contains(pool.slab_of(used[0][0].bytes())));
  EXPECT_EQ(watcher.gone, 0u);
  pool.remove_watcher(watcher);
}

// Sizes that are used in turn keep one slab each.
TEST(BufferPool, WhatAnotherSizeWillUseAgain_IsLeftToIt) {
  BufferPool pool;
  std::map<size_t, const std::byte*> first;
  for (size_t capacity = 4096; capacity <= BufferPool::kMaxBytes; capacity *= 2)
    first[capacity] = pool.get(capacity)->data();
  EXPECT_EQ(pool.slabs(), 10u);
  for (const auto& [capacity, data] : first) EXPECT_EQ(pool.get(capacity)->data(), data);
  EXPECT_EQ(pool.slabs(), 10u);
}

// As requested by a machine that is short of memory.
TEST(BufferPool, WhatIsIdle_IsGivenBackWhenAskedFor) {
  BufferPool pool(4 * BufferPool::kSlabBytes);
  use_of_slabs(pool, 8192, {0, 0, 0, 0});
  for (int i = 0; i < 9; ++i) pool.trim(1);
  EXPECT_EQ(pool.slabs(), 4u);
  pool.trim(1, 0);
  EXPECT_EQ(pool.slabs(), 0u);
}

TEST(BufferPool, BuffersOfOneSize_ShareSlabs) {
  BufferPool pool;
  std::vector<BufferRef> many;
  for (size_t i = 0; i < BufferPool::kSlabBytes / 4096; ++i) many.push_back(pool.get(4096));
  EXPECT_EQ(pool.slabs(), 1u);
  many.push_back(pool.get(4096));
  EXPECT_EQ(pool.slabs(), 2u);
  many.push_back(pool.get(8192));
  EXPECT_EQ(pool.slabs(), 3u) << "of another size";
  std::set<const std::byte*> slabs;
  for (const BufferRef& b : many) slabs.insert(pool.slab_of(b.bytes()));
  EXPECT_EQ(slabs.size(), 3u);
  EXPECT_FALSE(slabs.contains(nullptr));
  const ByteVector other(100);
  EXPECT_EQ(pool.slab_of(other), nullptr);
  EXPECT_EQ(pool.slab_of({many[0]->data(), BufferPool::kSlabBytes + 1}), nullptr) << "longer than a slab";
}

// A registration must end before its memory gets another owner.
TEST(BufferPool, SlabThatGoes_IsToldBefore_TillTheWatcherIsRemoved) {
  struct Watcher final : SlabWatcher {
    void on_slab_going(const std::byte* slab) override { gone.push_back(slab); }
    std::vector<const std::byte*> gone;
  } watcher;
  BufferPool pool(0);
  pool.add_watcher(watcher);
  BufferRef a = pool.get(4096);
  BufferRef b = pool.get(4096);
  const std::byte* slab = pool.slab_of(a.bytes());
  EXPECT_EQ(pool.slab_of(b.bytes()), slab);
  a.reset();
  EXPECT_TRUE(watcher.gone.empty()) << "half of it is in use";
  b.reset();
  EXPECT_EQ(watcher.gone, std::vector<const std::byte*>{slab});
  pool.remove_watcher(watcher);
  pool.get(4096).reset();
  EXPECT_EQ(watcher.gone.size(), 1u);
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

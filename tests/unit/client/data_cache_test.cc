// SPDX-License-Identifier: Apache-2.0
// DataCache alone: what it finds, what it evicts first, and what it never evicts.
#include "client/core/read/data_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "client/api/node.h"
#include "client/core/write/write_limits.h"

namespace nfsrdma::client {
namespace {

constexpr size_t kPage = DataCache::kPageBytes;
constexpr uint64_t kMiB = 1u << 20;

class File final : public Node {
  void last_reference() noexcept override {}
};

class DataCacheTest : public testing::Test {
 protected:
  DataCacheTest() { cache.set_limit(16 * kMiB); }
  ~DataCacheTest() override { cache.drop_all(); }

  // Fills `bytes` with a pattern that depends on offset and version.
  static void mark(MutableBytes bytes, uint64_t offset, unsigned version) {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte((offset + i) / kPage * 7 + version);
  }
  std::optional<DataCache::Fill> begin(const File& f, uint64_t offset, size_t size) {
    return cache.begin(f, offset, size, pool);
  }
  bool fill(const File& f, uint64_t offset, size_t size, bool end = false, unsigned version = 0) {
    auto filling = begin(f, offset, size);
    if (!filling) return false;
    EXPECT_EQ(filling->offset, offset);
    mark(filling->room.bytes, offset, version);
    return cache.complete(*filling, filling->room.size(), end, now);
  }
  DataCache::Found find(const File& f, uint64_t offset, size_t size) {
    return cache.find(f, offset, size, TimePoint::min());
  }
  // The number of cached bytes from `offset` on.
  size_t has(const File& f, uint64_t offset, size_t size = kMiB) { return find(f, offset, size).size; }

  BufferPool pool;
  DataCache cache;
  File file, other;
  TimePoint now{std::chrono::hours(1)};
};

TEST_F(DataCacheTest, WhatIsHereOrOnItsWay_IsCovered) {
  EXPECT_FALSE(cache.covers(file, 0, kPage));
  ASSERT_TRUE(fill(file, 0, 4 * kPage));
  const auto filling = begin(file, 4 * kPage, 4 * kPage);
  ASSERT_TRUE(filling);
  EXPECT_TRUE(cache.covers(file, kPage, 7 * kPage));
  EXPECT_FALSE(cache.covers(file, kPage, 7 * kPage + 1));
  EXPECT_FALSE(cache.covers(other, 0, kPage));
  cache.abandon(*filling);
  EXPECT_FALSE(cache.covers(file, kPage, 7 * kPage));
}

TEST_F(DataCacheTest, WhatWasFilled_IsFound_WithWhatIsMissingBehindIt) {
  EXPECT_EQ(find(file, 0, kMiB).missing, kMiB);
  ASSERT_TRUE(fill(file, 64 * kPage, 64 * kPage));
  EXPECT_EQ(find(file, 0, kMiB).missing, 64 * kPage) << "up to what is there";
  const auto found = find(file, 65 * kPage + 5, kMiB);
  EXPECT_EQ(found.size, 63 * kPage - 5);
  EXPECT_EQ(found.missing, kMiB - found.size);
  EXPECT_FALSE(found.end || found.awaited);
  ASSERT_EQ(found.data.size(), 1u);
  ByteVector expected(found.size);
  mark(expected, 65 * kPage + 5, 0);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.data[0].bytes.begin()));
  EXPECT_EQ(has(other, 64 * kPage), 0u);
}

TEST_F(DataCacheTest, TheEndOfTheFile_IsAnAnswer) {
  ASSERT_TRUE(fill(file, 0, 3 * kPage + 10, true));
  auto found = find(file, 2 * kPage, kMiB);
  EXPECT_EQ(found.size, kPage + 10);
  EXPECT_TRUE(found.end);
  found = find(file, 5 * kPage, kPage);
  EXPECT_EQ(found.size, 0u);
  EXPECT_TRUE(found.end);
  cache.punch(file, 8 * kPage, 9 * kPage);  // a write behind the end makes the file longer
  found = find(file, 2 * kPage, kMiB);
  EXPECT_EQ(found.size, kPage + 10);
  EXPECT_FALSE(found.end);
  EXPECT_GT(found.missing, 0u);
}

TEST_F(DataCacheTest, WhatIsOnItsWay_IsAwaitedAndNotBegunAgain) {
  const auto first = begin(file, 0, 64 * kPage);
  ASSERT_TRUE(first);
  EXPECT_TRUE(find(file, kPage, kPage).awaited);
  EXPECT_FALSE(begin(file, 0, 64 * kPage));
  EXPECT_FALSE(begin(file, 10 * kPage, 20 * kPage));
  const auto behind = begin(file, 32 * kPage, 64 * kPage);
  ASSERT_TRUE(behind);
  EXPECT_EQ(behind->offset, 64 * kPage);
  EXPECT_EQ(behind->room.size(), 32 * kPage);
  cache.abandon(*first);
  EXPECT_EQ(find(file, kPage, kPage).missing, kPage);
  const auto again = begin(file, 0, 128 * kPage);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->room.size(), 64 * kPage) << "up to what is on its way";
  EXPECT_FALSE(cache.complete(*first, kPage, false, now)) << "an earlier one";
}

TEST_F(DataCacheTest, AShortAnswer_IsKeptAsFarAsItGoes) {
  const auto filling = begin(file, 0, 64 * kPage);
  ASSERT_TRUE(filling);
  EXPECT_TRUE(cache.complete(*filling, 10 * kPage, false, now));
  EXPECT_EQ(has(file, 0), 10 * kPage);
  EXPECT_TRUE(fill(file, 10 * kPage, 54 * kPage));
  EXPECT_EQ(has(file, 0), 64 * kPage);
  const auto nothing = begin(file, kMiB, kPage);
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(cache.complete(*nothing, 0, true, now));
  EXPECT_FALSE(find(file, kMiB, kPage).awaited);
}

// A write drops the pages that it touches, anywhere in an extent, and no others.
TEST_F(DataCacheTest, Punched_GoesByPages) {
  ASSERT_TRUE(fill(file, 0, 16 * kPage));
  cache.punch(file, 4 * kPage + 1, 5 * kPage + 1);
  EXPECT_EQ(has(file, 0), 4 * kPage);
  auto found = find(file, 4 * kPage, 12 * kPage);
  EXPECT_EQ(found.size, 0u);
  EXPECT_EQ(found.missing, 2 * kPage);
  EXPECT_EQ(has(file, 6 * kPage), 10 * kPage);
  cache.punch(file, 0, UINT64_MAX);
  EXPECT_TRUE(cache.empty());
}

TEST_F(DataCacheTest, PunchedWhileItIsOnItsWay_IsNotKept) {
  const auto filling = begin(file, 0, 16 * kPage);
  const auto untouched = begin(file, 16 * kPage, 16 * kPage);
  ASSERT_TRUE(filling && untouched);
  cache.punch(file, 15 * kPage, 15 * kPage + 1);
  EXPECT_FALSE(find(file, 0, kPage).awaited);
  EXPECT_FALSE(cache.complete(*filling, 16 * kPage, false, now));
  EXPECT_TRUE(cache.complete(*untouched, 16 * kPage, false, now));
  EXPECT_EQ(cache.numbers().refused_bytes, 16 * kPage);
}

TEST_F(DataCacheTest, DroppedWhileItIsOnItsWay_IsNotKept) {
  for (int how = 0; how < 3; ++how) {
    const auto filling = begin(file, 0, 16 * kPage);
    ASSERT_TRUE(filling);
    if (how == 0) cache.drop(file);
    if (how == 1) cache.drop_all();
    if (how == 2) cache.forget(file);
    const auto second = begin(file, 0, 16 * kPage);
    ASSERT_TRUE(second) << "the same place is free";
    EXPECT_FALSE(cache.complete(*filling, 16 * kPage, false, now));
    EXPECT_TRUE(find(file, 0, kPage).awaited) << "the second one";
    cache.abandon(*second);
  }
  EXPECT_TRUE(cache.empty());
}

TEST_F(DataCacheTest, WhatNobodyHasConfirmed_IsNotBelieved) {
  ASSERT_TRUE(fill(file, 0, 16 * kPage));
  const TimePoint later = now + std::chrono::seconds(60);
  EXPECT_EQ(cache.find(file, 0, kPage, now).size, kPage);
  cache.confirm(file, later);
  EXPECT_EQ(cache.find(file, 0, kPage, later).size, kPage);
  EXPECT_EQ(cache.find(file, 0, kPage, later + Duration(1)).size, 0u);
  EXPECT_TRUE(cache.empty());
}

// --- room ---

TEST_F(DataCacheTest, Room_IsNeverExceeded_ByTenTimesAsMuch) {
  cache.set_limit(2 * kMiB);
  for (uint64_t at = 0; at < 20 * kMiB; at += 64 * kPage) {
    EXPECT_TRUE(fill(file, at, 64 * kPage));
    if (at % (3 * 64 * kPage) == 0) has(file, at, 64 * kPage);
    EXPECT_LE(cache.numbers().bytes, 2 * kMiB);
  }
  EXPECT_EQ(pool.outstanding_bytes(), cache.numbers().bytes);
  EXPECT_GE(cache.numbers().evicted_bytes, 18 * kMiB);
}

TEST_F(DataCacheTest, WhatTheKernelHas_GoesFirst) {
  cache.set_limit(8 * 64 * kPage);
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(fill(file, i * 64 * kPage, 64 * kPage));
  // The share for answered data, a sixteenth, is smaller than one extent.
  EXPECT_EQ(has(file, 5 * 64 * kPage, 64 * kPage), 64 * kPage);
  ASSERT_TRUE(fill(other, 0, 64 * kPage));
  EXPECT_EQ(has(file, 5 * 64 * kPage), 0u);
  EXPECT_EQ(has(file, 0, kPage), kPage) << "older, and not answered yet";
}

TEST_F(DataCacheTest, WhatIsAskedForAgain_Stays) {
  ASSERT_TRUE(fill(file, 0, 64 * kPage));
  for (int turn = 0; turn < 2; ++turn) EXPECT_EQ(has(file, 0, 64 * kPage), 64 * kPage);
  for (uint64_t i = 1; i <= 63; ++i) {
    ASSERT_TRUE(fill(file, i * 64 * kPage, 64 * kPage));
    EXPECT_EQ(has(file, i * 64 * kPage, 64 * kPage), 64 * kPage);
  }
  EXPECT_EQ(has(file, 0, 64 * kPage), 64 * kPage);
  EXPECT_LE(cache.numbers().bytes, 16 * kMiB / DataCache::kAnsweredShare + 64 * kPage)
      << "the rest was answered once";
}

TEST_F(DataCacheTest, WhatIsRepliedFrom_IsNotEvicted) {
  cache.set_limit(64 * kPage);
  ASSERT_TRUE(fill(file, 0, 64 * kPage));
  {
    const auto reply = find(file, 0, 64 * kPage);
    EXPECT_FALSE(fill(other, 0, 64 * kPage)) << "no room can be made";
    cache.drop(file);  // drop() removes it from the cache; the reply keeps its memory
    ByteVector expected(64 * kPage);
    mark(expected, 0, 0);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), reply.data[0].bytes.begin()));
  }
  EXPECT_TRUE(fill(other, 0, 64 * kPage));
}

TEST_F(DataCacheTest, WhatIsOnItsWay_IsNotEvicted) {
  cache.set_limit(64 * kPage);
  const auto filling = begin(file, 0, 64 * kPage);
  ASSERT_TRUE(filling);
  EXPECT_FALSE(begin(other, 0, kPage));
  cache.set_limit(0);
  EXPECT_TRUE(cache.complete(*filling, 64 * kPage, false, now));
}

// Extents that are being filled take all the room. Nothing is evicted for data that cannot fit anyway.
TEST_F(DataCacheTest, WhatCannotFit_ThrowsNothingOut) {
  cache.set_limit(64 * kPage);
  ASSERT_TRUE(fill(other, 0, kPage));
  const auto filling = begin(file, 0, 32 * kPage);
  ASSERT_TRUE(filling);
  EXPECT_FALSE(begin(file, 64 * kPage, 64 * kPage));
  EXPECT_EQ(has(other, 0, kPage), kPage);
  EXPECT_TRUE(cache.complete(*filling, 32 * kPage, false, now));
}

// The reply to a READ that returned no data has an empty slice.
TEST_F(DataCacheTest, NoRoom_IsNotBegunToBeFilled) {
  ASSERT_TRUE(fill(file, 0, 2 * kPage));
  EXPECT_FALSE(cache.begin(file, 0, Slice{}));
  EXPECT_FALSE(cache.begin(file, 0, pool.slice(kPage).first(0)));
  EXPECT_EQ(cache.numbers().extents, 1u);
  EXPECT_EQ(has(file, 0), 2 * kPage);
  cache.drop(file);
  EXPECT_EQ(cache.numbers().bytes, 0u);
  EXPECT_TRUE(cache.empty());
}

class DataCacheFairness : public DataCacheTest, public testing::WithParamInterface<size_t> {
 protected:
  static constexpr size_t kSmall = 4 * kPage, kPiece = 64 * kPage;
  DataCacheFairness() : small(GetParam()) { cache.set_limit(4 * kMiB); }
  ~DataCacheFairness() override { cache.drop_all(); }
  void fill_small() {
    for (const File& f : small) ASSERT_TRUE(fill(f, 0, kSmall));
  }
  // Reads only a part, so that the order of eviction stays the same.
  size_t small_that_stay() {
    return static_cast<size_t>(
        std::count_if(small.begin(), small.end(), [&](const File& f) { return has(f, 0, kPage) == kPage; }));
  }
  std::deque<File> small;
};

TEST_P(DataCacheFairness, OneLargeFile_DoesNotThrowOutTheOthers) {
  fill_small();
  for (uint64_t at = 0; at < 40 * kMiB; at += kPiece) ASSERT_TRUE(fill(file, at, kPiece));
  EXPECT_EQ(small_that_stay(), small.size());
  EXPECT_EQ(cache.numbers().bytes,
            (4 * kMiB - small.size() * kSmall) / kPiece * kPiece + small.size() * kSmall)
      << "it has what the others leave";
  EXPECT_EQ(has(file, 40 * kMiB - kPiece), kPiece) << "of it, what was used last";
}

TEST_P(DataCacheFairness, SeveralLargeFiles_DoNotThrowOutTheOthers) {
  fill_small();
  for (uint64_t at = 0; at < 20 * kMiB; at += kPiece) {
    ASSERT_TRUE(fill(file, at, kPiece));
    ASSERT_TRUE(fill(other, at, kPiece));
  }
  EXPECT_EQ(small_that_stay(), small.size());
  EXPECT_EQ(has(file, 20 * kMiB - kPiece), kPiece);
  EXPECT_EQ(has(other, 20 * kMiB - kPiece), kPiece);
}

// The same for data that the kernel has, too.
TEST_P(DataCacheFairness, OneLargeFileThatWasAnswered_LeavesTheOthersTheirPartOfThat) {
  cache.set_limit(64 * kMiB);
  fill_small();
  for (const File& f : small) ASSERT_EQ(has(f, 0, kSmall), kSmall);
  for (uint64_t at = 0; at < 100 * kMiB; at += kPiece) {
    ASSERT_TRUE(fill(file, at, kPiece));
    ASSERT_EQ(has(file, at, kPiece), kPiece);
  }
  EXPECT_EQ(small_that_stay(), small.size());
}

INSTANTIATE_TEST_SUITE_P(SmallFiles, DataCacheFairness, testing::Values(8, 16, 32, 64, 128));

// The share of one file is small. But a new file gets enough room that it does not evict its own read-ahead;
// the oldest data goes instead.
TEST_F(DataCacheTest, AFileThatComesWhenTheRoomIsFullOfSmallOnes_GetsItsPart) {
  cache.set_limit(4 * kMiB);
  constexpr size_t kSmall = 4 * kPage, kPiece = 16 * kPage, kPart = 4 * kMiB / DataCache::kMostSharers;
  std::deque<File> small(256);
  for (const File& f : small) ASSERT_TRUE(fill(f, 0, kSmall));
  for (uint64_t at = 0; at < kPart; at += kPiece) ASSERT_TRUE(fill(file, at, kPiece));
  for (uint64_t at = 0; at < kPart; at += kPiece) EXPECT_EQ(has(file, at, kPage), kPage) << at;
  for (uint64_t at = kPart; at < 40 * kMiB; at += kPiece) ASSERT_TRUE(fill(file, at, kPiece));
  constexpr size_t kGone = (kPart + kPiece) / kSmall;
  for (size_t i = 0; i < small.size(); ++i) EXPECT_EQ(has(small[i], 0, kPage), i < kGone ? 0 : kPage) << i;
}

TEST_F(DataCacheTest, OfTheLargestFile_WhatIsRepliedFromStays) {
  cache.set_limit(4 * 64 * kPage);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(fill(file, i * 64 * kPage, 64 * kPage));
  ASSERT_TRUE(fill(other, 0, 64 * kPage));
  const auto reply = find(file, 0, 2 * 64 * kPage);
  ASSERT_EQ(reply.size, 2 * 64 * kPage);
  ASSERT_TRUE(fill(other, 64 * kPage, 64 * kPage));
  EXPECT_EQ(has(file, 2 * 64 * kPage), 0u) << "the only one of it that nobody needs";
  ASSERT_TRUE(fill(other, 2 * 64 * kPage, 64 * kPage));
  EXPECT_EQ(has(other, 0), 0u);
  EXPECT_EQ(has(other, 64 * kPage, 2 * 64 * kPage), 2 * 64 * kPage);
  EXPECT_EQ(has(file, 0, 2 * 64 * kPage), 2 * 64 * kPage);
}

TEST_F(DataCacheTest, AMillionSmallFiles_DoNotPinAMillionMegabytes) {
  std::array<File, 256> small;
  for (const File& f : small) ASSERT_TRUE(fill(f, 0, 100, true));
  EXPECT_EQ(cache.numbers().bytes, small.size() * kPage);
}

TEST_F(DataCacheTest, ALowerLimit_GivesMemoryBackAtOnce) {
  for (uint64_t i = 0; i < 16; ++i) ASSERT_TRUE(fill(file, i * 64 * kPage, 64 * kPage));
  cache.set_limit(4 * 64 * kPage);
  EXPECT_EQ(pool.outstanding_bytes(), 4 * 64 * kPage);
  cache.set_limit(0);
  EXPECT_EQ(pool.outstanding_bytes(), 0u);
  EXPECT_FALSE(fill(file, 0, kPage));
}

// Each slab keeps one small file and is otherwise free: without moving, all slabs would stay allocated.
class DataCacheSlabs : public DataCacheTest {
 protected:
  static constexpr size_t kSmall = 4 * kPage, kInSlab = BufferPool::kSlabBytes / kSmall, kSlabs = 10;
  DataCacheSlabs() {
    cache.set_limit(kSlabs * BufferPool::kSlabBytes);
    for (const File& f : small) EXPECT_TRUE(fill(f, 0, kSmall, true));
  }
  ~DataCacheSlabs() override { cache.drop_all(); }  // before its files
  // Drops all but `stay` files of each slab, and all but one of the first slab.
  void drop_most(size_t stay = 1) {
    for (size_t i = 1; i < small.size(); ++i) {
      if (i < kInSlab || i % kInSlab >= stay) cache.drop(small[i]);
    }
    trim();
    EXPECT_TRUE(pool.anything_leaving());
  }
  void trim() { pool.trim(1, 0); }
  void expect_contents(const std::vector<Slice>& data, size_t size) {
    ByteVector expected(size);
    mark(expected, 0, 0);
    ASSERT_EQ(data.size(), 1u);
    EXPECT_TRUE(std::ranges::equal(data[0].bytes, expected));
  }
  std::deque<File> small{kSlabs * kInSlab};
};

TEST_F(DataCacheSlabs, SmallFilesThatStay_DoNotKeepASlabEach) {
  drop_most();
  const auto before = cache.numbers();
  ASSERT_EQ(before.extents, kSlabs);
  ASSERT_EQ(pool.slabs(), kSlabs);
  cache.leave_slabs(pool);
  trim();
  EXPECT_FALSE(pool.anything_leaving());
  EXPECT_EQ(pool.slabs(), 2u);
  EXPECT_EQ(cache.numbers().bytes, before.bytes);
  EXPECT_EQ(cache.numbers().evicted_bytes, 0u);
  for (size_t i = 0; i < small.size(); i += kInSlab) {
    const auto found = find(small[i], 0, kMiB);
    EXPECT_TRUE(found.end);
    expect_contents(found.data, kSmall);
  }
}

// One call moves a limited amount; repeated calls move all.
TEST_F(DataCacheSlabs, HoweverManyThereAre_AllAreMoved) {
  constexpr size_t kStay = kInSlab / 2;  // 10 MiB; four slabs' part moves
  for (size_t i = 0; i < small.size(); ++i) {
    if (i % kInSlab >= kStay) cache.drop(small[i]);
  }
  const auto in_leaving = [&] {
    size_t bytes = 0;
    for (size_t i = 0; i < small.size(); ++i) {
      const auto found = find(small[i], 0, kPage);  // a part: all of it might be evicted
      if (!found.data.empty() && BufferPool::is_leaving(found.data[0].buffer)) bytes += kSmall;
    }
    return bytes;
  };
  trim();
  ASSERT_EQ(in_leaving(), 4 * kStay * kSmall);
  cache.leave_slabs(pool);
  EXPECT_EQ(in_leaving(), 0u);
  trim();
  EXPECT_EQ(pool.slabs(), 6u);
  for (size_t i = 0; i < small.size(); ++i) EXPECT_EQ(has(small[i], 0, kPage) != 0, i % kInSlab < kStay);
}

TEST_F(DataCacheSlabs, WhatIsMovedAtOnce_IsBounded) {
  std::deque<File> more(3 * small.size());
  cache.set_limit(4 * kSlabs * BufferPool::kSlabBytes);
  for (const File& f : more) ASSERT_TRUE(fill(f, 0, kSmall, true));
  for (size_t i = 0; i < small.size(); ++i) {
    if (i % kInSlab >= kInSlab / 2) cache.drop(small[i]);
  }
  for (size_t i = 0; i < more.size(); ++i) {
    if (i % kInSlab >= kInSlab / 2) cache.drop(more[i]);
  }
  trim();
  const size_t before = pool.slabs();
  cache.leave_slabs(pool);
  trim();
  EXPECT_GE(pool.slabs(), before - 5) << "4 MiB, and what is in one turn of looking";
  EXPECT_LT(pool.slabs(), before);
  EXPECT_TRUE(pool.anything_leaving());
  for (int turn = 0; turn < 9; ++turn) cache.leave_slabs(pool);
  EXPECT_FALSE(pool.anything_leaving());
  cache.drop_all();
}

TEST_F(DataCacheSlabs, WhatIsRepliedFrom_StaysUntilItIsSent) {
  std::vector<DataCache::Found> replies;
  for (size_t i = 0; i < small.size(); i += kInSlab) replies.push_back(find(small[i], 0, kSmall));
  drop_most();
  cache.leave_slabs(pool);
  trim();
  EXPECT_EQ(pool.slabs(), kSlabs);
  size_t moved = 0;
  for (size_t i = 0; i < replies.size(); ++i) {
    expect_contents(replies[i].data, kSmall);
    const auto found = find(small[i * kInSlab], 0, kSmall);
    expect_contents(found.data, kSmall);
    moved += found.data[0].bytes.data() != replies[i].data[0].bytes.data() ? 1 : 0;
  }
  EXPECT_EQ(moved, kSlabs - 2);
  replies.clear();
  trim();
  EXPECT_EQ(pool.slabs(), 2u);
}

// READ data must land where its buffer was registered.
TEST_F(DataCacheSlabs, WhatIsOnItsWay_IsNotMoved) {
  cache.drop(small[0]);
  auto filling = begin(small[0], 0, kSmall);  // in the first slab, which has free room
  ASSERT_TRUE(filling);
  drop_most(2);
  ASSERT_TRUE(BufferPool::is_leaving(filling->room.buffer));
  cache.leave_slabs(pool);
  mark(filling->room.bytes, 0, 0);
  EXPECT_TRUE(cache.complete(*filling, kSmall, true, now));
  const std::byte* landed = filling->room.bytes.data();
  filling.reset();
  EXPECT_EQ(find(small[0], 0, kSmall).data[0].bytes.data(), landed);
  cache.leave_slabs(pool);
  const auto found = find(small[0], 0, kSmall);
  EXPECT_NE(found.data[0].bytes.data(), landed) << "once it has come it is";
  expect_contents(found.data, kSmall);
}

// Data that is dropped or replaced while it is moved must not come back.
TEST_F(DataCacheSlabs, MovedBesideAllElse_IsWhatIsTrue) {
  std::jthread mover([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pool.trim(1, 0);
      cache.leave_slabs(pool);
    }
  });
  for (unsigned version = 0; version < 20; version += 2) {
    // Each remaining file is replaced while it and its neighbours are moved.
    for (const File& f : small) {
      cache.drop(f);
      ASSERT_TRUE(fill(f, 0, kSmall, true, version));
    }
    for (size_t i = 0; i < small.size(); ++i) {
      if (i % 32 != 0) cache.drop(small[i]);
    }
    for (size_t i = 0; i < small.size(); i += 32) {
      cache.drop(small[i]);
      ASSERT_TRUE(fill(small[i], 0, kSmall, true, version + 1));
    }
    for (size_t i = 0; i < small.size(); ++i) {
      const auto found = find(small[i], 0, kSmall);
      ASSERT_EQ(found.size, i % 32 == 0 ? kSmall : 0) << i;
      if (found.size != 0) {
        ASSERT_EQ(found.data[0].bytes[0], std::byte(version + 1)) << i;
      }
    }
  }
}

TEST(DataCacheLimit, FollowsTheMemoryThereIs) {
  EXPECT_EQ(DataCache::fitting(100 * kMiB, 1000 * kMiB, 0), 100 * kMiB) << "as wanted";
  EXPECT_EQ(DataCache::fitting(100 * kMiB, 80 * kMiB, 40 * kMiB), 60 * kMiB);
  EXPECT_EQ(DataCache::fitting(100 * kMiB, 0, 100 * kMiB), 50 * kMiB) << "nothing is left: it gives half";
}

// A limit of 0 only if nothing was wanted. A lack of memory is often short, so some room stays.
TEST(DataCacheLimit, IsNeverNothing_UnlessThatIsWanted) {
  EXPECT_EQ(DataCache::fitting(100 * kMiB, 0, 0), DataCache::kLeastRoom);
  EXPECT_EQ(DataCache::fitting(100 * kMiB, 1, 4095), DataCache::kLeastRoom);
  EXPECT_EQ(DataCache::fitting(kMiB, 0, 0), kMiB);
  EXPECT_EQ(DataCache::fitting(0, 1000 * kMiB, 0), 0u);
}

TEST(WriteLimit, FollowsTheMemoryThereIs) {
  const auto plenty = WriteLimits::fitting(16'000 * kMiB, 0);
  EXPECT_EQ(plenty.buffers(), 512 * kMiB);
  EXPECT_EQ(plenty.uncommitted(), 256 * kMiB);
  EXPECT_EQ(plenty.unanswered(), 64 * kMiB);
  EXPECT_EQ(plenty.commit_at(), 32 * kMiB);
  EXPECT_EQ(WriteLimits::fitting(2048 * kMiB, 0).buffers(), 512 * kMiB);
  for (const uint64_t written : {0u, 16u, 64u}) {
    const auto container = WriteLimits::fitting(256 * kMiB - written * kMiB, written * kMiB);
    EXPECT_EQ(container.buffers(), 64 * kMiB) << "what is written already is in it";
    EXPECT_EQ(container.uncommitted(), 32 * kMiB);
    EXPECT_EQ(container.unanswered(), 8 * kMiB);
  }
  EXPECT_EQ(WriteLimits::fitting(0, 0).unanswered(), 4 * kMiB) << "a few at once, whatever happens";
}

TEST_F(DataCacheTest, Waste_IsWhatNobodyAskedFor) {
  ASSERT_TRUE(fill(file, 0, 16 * kPage));
  has(file, 0, 4 * kPage);
  cache.drop(file);
  const auto n = cache.numbers();
  EXPECT_EQ(n.filled_bytes, 16 * kPage);
  EXPECT_EQ(n.wasted_bytes, 12 * kPage);
  EXPECT_EQ(n.hit_bytes, 4 * kPage);
  EXPECT_EQ(n.extents, 0u);
}

// Compared with a model that knows the current version of each page: no stale data is found, and the byte
// counts are correct.
RC_GTEST_PROP(DataCacheProperty, WhatIsFound_IsOfTheLatestVersion, ()) {
  constexpr size_t kFilePages = 64;
  BufferPool pool;
  DataCache cache;
  cache.set_limit(*rc::gen::inRange<uint64_t>(4, 80) * kPage);
  const File file{};
  std::array<uint8_t, kFilePages> version{};
  struct UnderWay {
    DataCache::Fill fill;
    std::array<uint8_t, kFilePages> read;
  };
  std::vector<UnderWay> under_way;
  for (unsigned steps = *rc::gen::inRange(1u, 120u); steps-- > 0;) {
    const auto page = *rc::gen::inRange<size_t>(0, kFilePages);
    const auto pages = *rc::gen::inRange<size_t>(1, kFilePages - page + 1);
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
        if (auto fill = cache.begin(file, page * kPage, pages * kPage, pool))
          under_way.push_back({std::move(*fill), version});
        break;
      case 1:
        if (!under_way.empty()) {
          UnderWay done = std::move(under_way.back());
          under_way.pop_back();
          const MutableBytes room = done.fill.room.bytes;
          for (size_t i = 0; i < room.size(); ++i)
            room[i] = std::byte(done.read[(done.fill.offset + i) / kPage]);
          cache.complete(done.fill, room.size(), false, TimePoint{});
        }
        break;
      case 2:  // written, not aligned
        cache.punch(file, page * kPage + 1, (page + pages) * kPage - 1);
        for (size_t p = page; p < page + pages; ++p) ++version[p];
        break;
      case 3:
        cache.drop(file);
        for (auto& v : version) ++v;
        break;
      default: {
        const auto found = cache.find(file, page * kPage, pages * kPage, TimePoint::min());
        RC_ASSERT(found.size + found.missing <= pages * kPage);
        uint64_t at = page * kPage;
        for (const Slice& s : found.data) {
          for (const std::byte b : s.bytes) RC_ASSERT(b == std::byte(version[at++ / kPage]));
        }
        RC_ASSERT(at == page * kPage + found.size);
      }
    }
    RC_ASSERT(cache.numbers().bytes <= cache.limit());
  }
  for (const UnderWay& u : under_way) cache.abandon(u.fill);
  under_way.clear();
  RC_ASSERT(pool.outstanding_bytes() == cache.numbers().bytes);
  cache.drop_all();
  RC_ASSERT(pool.outstanding_bytes() == 0u);
}

}  // namespace
}  // namespace nfsrdma::client

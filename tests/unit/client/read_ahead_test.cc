// SPDX-License-Identifier: Apache-2.0
// ReadPattern: what it predicts, and that it predicts nothing for reads without a pattern. ReadPace: how far
// to read ahead. AheadReaders: how many descriptors share the room.
#include "client/core/read/read_ahead.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "client/core/read/ahead_readers.h"
#include "client/core/read/read_history.h"
#include "client/core/read/read_pace.h"

namespace nfsrdma::client {
namespace {

using Kind = ReadPattern::Kind;
constexpr uint64_t kKiB = 1024, kMiB = kKiB * kKiB, kGiB = kMiB * kKiB;
constexpr uint64_t kPiece = 128 * kKiB;

// All ranges that are worth reading now.
std::vector<ReadRange> all_ahead(ReadPattern& p, uint64_t window, uint64_t end = kGiB) {
  std::vector<ReadRange> ranges;
  while (auto r = p.next(window, kPiece, end)) ranges.push_back(*r);
  return ranges;
}
uint64_t bytes(const std::vector<ReadRange>& ranges) {
  uint64_t sum = 0;
  for (const ReadRange& r : ranges) sum += r.size;
  return sum;
}

TEST(ReadPattern, Forward_IsSeenAtTheSecondRead_AndGrowsToTheWindow) {
  ReadPattern p;
  p.note(5 * kMiB, kPiece);
  EXPECT_EQ(p.kind(), Kind::kNone);
  EXPECT_TRUE(all_ahead(p, kMiB).empty());
  p.note(5 * kMiB + kPiece, kPiece);
  EXPECT_EQ(p.kind(), Kind::kForward);
  const auto first = all_ahead(p, kMiB);
  ASSERT_EQ(first.size(), 2u) << "twice what was read";
  EXPECT_EQ(first[0], (ReadRange{5 * kMiB + 2 * kPiece, kPiece}));
  uint64_t place = 5 * kMiB + 2 * kPiece;
  uint64_t reach = first.back().offset + first.back().size;
  for (int i = 0; i < 10; ++i, place += kPiece) {
    p.note(place, kPiece);
    for (const ReadRange& r : all_ahead(p, kMiB)) {
      EXPECT_EQ(r.offset, reach) << "each once, in order";
      reach += r.size;
    }
    EXPECT_LE(reach, place + kPiece + kMiB);
  }
  EXPECT_EQ(reach, place + kMiB);
}

TEST(ReadPattern, TheBeginningOfAFile_IsTrusted) {
  ReadPattern p;
  p.note(0, kPiece);
  EXPECT_EQ(bytes(all_ahead(p, kMiB)), 2 * kPiece);
}

TEST(ReadPattern, NothingBeyondTheEnd_AndWhatIsLeftThereIsTakenWhole) {
  ReadPattern p;
  p.note(0, kPiece);
  const auto ahead = all_ahead(p, kMiB, kPiece + 10'000);
  ASSERT_EQ(ahead.size(), 1u);
  EXPECT_EQ(ahead[0], (ReadRange{kPiece, 10'000}));
  ReadPattern whole;
  whole.note(0, kPiece);
  EXPECT_TRUE(all_ahead(whole, kMiB, kPiece).empty());
}

TEST(ReadPattern, Backward_GoesToTheBeginning) {
  ReadPattern p;
  uint64_t place = 3 * kMiB;
  std::set<uint64_t> covered;
  for (; place > 0; place -= kPiece) {
    p.note(place - kPiece, kPiece);
    if (place < 3 * kMiB) {
      EXPECT_EQ(p.kind(), Kind::kBackward);
    }
    for (const ReadRange& r : all_ahead(p, kMiB)) {
      EXPECT_LE(r.offset + r.size, place - kPiece);
      for (uint64_t at = r.offset; at < r.offset + r.size; at += 4096)
        EXPECT_TRUE(covered.insert(at).second) << "each once";
    }
  }
  EXPECT_EQ(covered.size() * 4096, 3 * kMiB - 2 * kPiece) << "all but the first two reads";
}

TEST(ReadPattern, Strided_IsSeenAtTheFourthRead) {
  for (const int64_t stride : {int64_t{kMiB}, -int64_t{kMiB}, int64_t{3} * 4096 + 100}) {
    ReadPattern p;
    uint64_t place = 100 * kMiB;
    for (int i = 0; i < 3; ++i, place += static_cast<uint64_t>(stride)) {
      p.note(place, 8192);
      EXPECT_TRUE(all_ahead(p, kMiB).empty());
    }
    p.note(place, 8192);
    EXPECT_EQ(p.kind(), Kind::kStrided);
    const auto ahead = all_ahead(p, kMiB);
    ASSERT_EQ(ahead.size(), 4u);
    for (const ReadRange& r : ahead) {
      place += static_cast<uint64_t>(stride);
      EXPECT_LE(r.offset, place);
      EXPECT_GE(r.offset + r.size, place + 8192);
      EXPECT_LE(r.size, 3 * 4096u);
    }
    place -= static_cast<uint64_t>(stride) * 3;
    p.note(place, 8192);
    EXPECT_EQ(all_ahead(p, kMiB).size(), 5u) << "twice as far, less what was given";
  }
}

// The parts into which the kernel splits a run.
void read_run(ReadPattern& p, uint64_t first, uint64_t size, const std::function<void()>& after_each = {}) {
  for (uint64_t at = 0; at < size; at += kPiece) {
    p.note(first + at, std::min(kPiece, size - at));
    if (after_each) after_each();
  }
}

// Near and far, forward and backward, and blocks that are read from last to first.
TEST(ReadPattern, RunsThatTheKernelSplits_AreSeenAtTheThird) {
  constexpr uint64_t kRun = 4 * kPiece;
  for (const int64_t stride :
       {int64_t{8 * kMiB}, -int64_t{8 * kMiB}, int64_t{kRun + 256 * kKiB}, -int64_t{kRun}}) {
    SCOPED_TRACE(stride);
    ReadPattern p;
    uint64_t first = 300 * kMiB;
    std::map<uint64_t, uint64_t> given;  // by offset
    for (int run = 0; run < 12; ++run, first += static_cast<uint64_t>(stride)) {
      if (run > 2) {
        EXPECT_EQ(given.erase(first), 1u) << "all of run " << run << " was read ahead";
        for (uint64_t at = kPiece; at < kRun; at += kPiece) EXPECT_EQ(given.erase(first + at), 1u);
      }
      read_run(p, first, kRun, [&] {
        if (run < 2) return;
        EXPECT_EQ(p.kind(), Kind::kStrided);
        for (const ReadRange& r : all_ahead(p, 2 * kMiB)) EXPECT_TRUE(given.emplace(r.offset, r.size).second);
      });
      if (run == 2) given.erase(given.lower_bound(first), given.lower_bound(first + kRun));
    }
    EXPECT_EQ(given.size(), 4 * kRun / kPiece) << "nothing between the runs, and no farther than the window";
    for (const auto& [offset, size] : given) EXPECT_EQ(size, kPiece);
  }
}

TEST(ReadPattern, RunsLongerThanTheWindow_AreReadAheadOfWithin) {
  constexpr uint64_t kRun = 8 * kMiB, kStride = 20 * kMiB;
  ReadPattern p;
  read_run(p, kStride, kRun);
  read_run(p, 2 * kStride, kRun);
  for (uint64_t run = 3; run < 6; ++run) {
    uint64_t read = 0, reach = 0;
    read_run(p, run * kStride, kRun, [&] {
      read += kPiece;
      for (const ReadRange& r : all_ahead(p, kMiB)) reach = r.offset + r.size;
      const uint64_t ahead = read + kMiB;
      EXPECT_EQ(reach, ahead <= kRun ? run * kStride + ahead : (run + 1) * kStride + ahead - kRun);
    });
  }
}

TEST(ReadPattern, ARunThatGoesOn_IsForward) {
  for (const uint64_t run : {kPiece, 3 * kPiece}) {
    ReadPattern p;
    for (uint64_t i = 1; i < 6; ++i) read_run(p, i * 8 * kMiB, run);
    EXPECT_EQ(p.kind(), Kind::kStrided);
    p.note(5 * 8 * kMiB + run, kPiece);
    EXPECT_EQ(p.kind(), Kind::kForward);
    EXPECT_EQ(all_ahead(p, kMiB).front(), (ReadRange{5 * 8 * kMiB + run + kPiece, kPiece}));
  }
}

TEST(ReadPattern, RunsOfOtherLengths_AreForwardEach) {
  ReadPattern p;
  for (uint64_t i = 1; i < 12; ++i) {
    read_run(p, i * 8 * kMiB, (1 + i) * kPiece);
    EXPECT_EQ(p.kind(), Kind::kForward) << i;
    EXPECT_FALSE(all_ahead(p, kMiB).empty());
  }
}

// The file has become shorter meanwhile.
TEST(ReadPattern, RunsBeyondTheEnd_AreNotForetold) {
  ReadPattern p;
  for (uint64_t i = 1; i < 6; ++i) read_run(p, i * 8 * kMiB, 2 * kPiece);
  EXPECT_TRUE(all_ahead(p, kMiB, 6 * 8 * kMiB).empty());
  const auto ahead = all_ahead(p, kMiB, 6 * 8 * kMiB + 5000);
  ASSERT_EQ(ahead.size(), 1u);
  EXPECT_EQ(ahead.front(), (ReadRange{6 * 8 * kMiB, 5000}));
}

// A server may accept very little at once (rsize=1024): a range of less than a page would never end.
TEST(ReadPattern, LessThanAPageAtOnce_IsNotReadAhead) {
  for (const int64_t stride : {int64_t{4096}, -int64_t{4096}, int64_t{65536}}) {
    ReadPattern p;
    for (uint64_t i = 0; i < 8; ++i) {
      p.note(100 * kMiB + i * static_cast<uint64_t>(stride), 4096);
      EXPECT_EQ(p.next(kMiB, 2048, kGiB), std::nullopt) << stride;
    }
  }
}

// The window of a long stream stays the same.
TEST(ReadPattern, AfterManyReads_TheWindowIsStillWhole) {
  ReadPattern p;
  uint64_t place = 0;
  for (int i = 0; i < 200; ++i, place += kPiece) {
    p.note(place, kPiece);
    const uint64_t given = bytes(all_ahead(p, 8 * kMiB, 100 * kGiB));
    if (i >= 20) {
      EXPECT_EQ(given, kPiece) << "as much as was read, at read " << i;
    }
  }
}

// No overflow at the largest distances.
TEST(ReadPattern, StridesAcrossEverything_AreNotFollowed) {
  ReadPattern p;
  for (uint64_t i = 0; i < 8; ++i) {
    p.note(i << 59, 8192);
    EXPECT_TRUE(all_ahead(p, kMiB, UINT64_MAX).empty());
  }
}

TEST(ReadPattern, SeveralStreamsInTurn_AreToldApart) {
  ReadPattern p;
  constexpr unsigned kPlaces = 6;
  std::array<uint64_t, kPlaces> reach{};
  for (uint64_t turn = 0; turn < 20; ++turn) {
    for (unsigned i = 0; i < kPlaces; ++i) {
      const uint64_t base = (i + 1) * 100 * kMiB;
      p.note(base + turn * kPiece, kPiece);
      if (turn == 0) continue;
      EXPECT_EQ(p.kind(), Kind::kForward);
      for (const ReadRange& r : all_ahead(p, kMiB)) {
        EXPECT_GE(r.offset, base);
        EXPECT_LE(r.offset + r.size, base + (turn + 1) * kPiece + kMiB);
        reach[i] = r.offset + r.size - base;
      }
    }
  }
  for (const uint64_t r : reach) EXPECT_EQ(r, 20 * kPiece + kMiB);
}

TEST(ReadPattern, ASeek_EndsIt_AndComingBackGoesOn) {
  ReadPattern p;
  for (uint64_t i = 0; i < 8; ++i) p.note(i * kPiece, kPiece);
  EXPECT_TRUE(p.next(kMiB, kPiece, kGiB));
  p.note(500 * kMiB, kPiece);
  EXPECT_EQ(p.kind(), Kind::kNone);
  EXPECT_FALSE(p.next(kMiB, kPiece, kGiB)) << "what was not asked for is not asked for any more";
  p.note(8 * kPiece, kPiece);
  EXPECT_TRUE(p.next(kMiB, kPiece, kGiB));
}

TEST(ReadPattern, ReadsOutOfOrder_AreOneStream) {
  ReadPattern p;
  for (uint64_t i = 0; i < 4; ++i) p.note(i * kPiece, kPiece);
  for (uint64_t i = 4; i < 40; i += 2) {
    p.note((i + 1) * kPiece, kPiece);
    EXPECT_EQ(p.kind(), Kind::kForward);
    p.note(i * kPiece, kPiece);
    EXPECT_EQ(p.kind(), Kind::kForward);
  }
  EXPECT_EQ(all_ahead(p, kMiB).front().offset, 40 * kPiece);
}

// One of two loops is three reads behind.
TEST(ReadPattern, ReadsFarOutOfOrder_AreNoRuns) {
  ReadPattern p;
  for (uint64_t i = 0; i < 4; ++i) p.note(i * kPiece, kPiece);
  for (uint64_t i = 4; i < 64; i += 6) {
    for (const uint64_t piece : {i + 1, i + 3, i + 5, i, i + 2, i + 4}) {
      p.note(piece * kPiece, kPiece);
      EXPECT_EQ(p.kind(), Kind::kForward) << piece;
    }
  }
}

// A run has a fixed length. Reads anywhere within an expected run are random reads.
TEST(ReadPattern, RandomReadsWithinALongRun_AreNotFollowed) {
  constexpr uint64_t kRun = 64 * kMiB, kStride = 100 * kMiB;
  ReadPattern p;
  read_run(p, kStride, kRun);
  read_run(p, 2 * kStride, kRun);
  read_run(p, 3 * kStride, 4 * kPiece);
  EXPECT_EQ(p.kind(), Kind::kStrided);
  std::mt19937_64 random(1);
  uint64_t given = 0;
  for (unsigned i = 0; i < 500; ++i) {
    p.note(3 * kStride + 8 * kMiB + random() % ((kRun - 8 * kMiB) / 4096) * 4096, 4096);
    given += bytes(all_ahead(p, kMiB));
  }
  EXPECT_LE(given, kMiB);
}

TEST(ReadPattern, StridesToTheEndOfAllOffsets_AreNotFollowed) {
  ReadPattern p;
  for (uint64_t i = 0; i < 4; ++i) p.note((uint64_t{1} << 63) - 1 - 3 * kGiB - 8191 + i * kGiB, 4096);
  p.note(4096, 4096);
  EXPECT_EQ(p.kind(), Kind::kNone);
}

TEST(ReadPattern, OneThatJumpsAhead_IsNotForward) {
  ReadPattern p;
  for (uint64_t i = 0; i < 4; ++i) p.note(i * 4096, 4096);
  uint64_t place = 4 * 4096;
  for (unsigned i = 0; i < ReadPattern::kMostGaps + 1; ++i) p.note(place += 13 * 4096 * (i + 2), 4096);
  EXPECT_EQ(p.kind(), Kind::kNone);
}

// Skipped bytes are not read ahead again and again.
TEST(ReadPattern, OneThatJumpsAheadAfterEachTwoReads_CostsNoMoreThanItReads) {
  ReadPattern p;
  std::mt19937_64 random(1);
  uint64_t place = 0, read = 0, given = 0;
  for (unsigned chunk = 0; chunk < 100; ++chunk, place += (1 + random() % 7) * kPiece) {
    read_run(p, place, 2 * kPiece, [&] { given += bytes(all_ahead(p, 16 * kMiB)); });
    place += 2 * kPiece;
    read += 2 * kPiece;
  }
  EXPECT_LT(given, 2 * read);
}

// Skips between runs of at least kSlackBytes are allowed.
TEST(ReadPattern, JumpsBetweenLongRuns_EndNoStream) {
  ReadPattern p;
  uint64_t place = 0;
  for (unsigned run = 0; run < 20; ++run, place += (1 + run % 7) * kPiece) {
    const uint64_t size = ReadPattern::kSlackBytes + run % 3 * kPiece;
    read_run(p, place, size, [&] { EXPECT_EQ(p.kind(), Kind::kForward) << run; });
    place += size;
  }
}

// --- ranges that were dropped, or for which no READ was sent ---

TEST(ReadPattern, WhatIsGone_IsGivenAgain) {
  for (const int64_t step : {int64_t{kPiece}, -int64_t{kPiece}, int64_t{8 * kMiB}}) {
    SCOPED_TRACE(step);
    ReadPattern p;
    uint64_t place = 300 * kMiB;
    const auto read_next = [&] { p.note(place += static_cast<uint64_t>(step), kPiece); };
    for (int i = 0; i < 10; ++i) {
      read_next();
      all_ahead(p, kMiB);
    }
    read_next();
    p.missed(place, kPiece);
    const auto again = all_ahead(p, kMiB);
    ASSERT_FALSE(again.empty());
    EXPECT_EQ(again.front(), (ReadRange{place + static_cast<uint64_t>(step), kPiece}));
    EXPECT_LE(bytes(again), 2 * kPiece) << "as of a new stream";
    for (int i = 0; i < 10; ++i) {
      read_next();
      all_ahead(p, kMiB);
    }
    read_next();
    EXPECT_EQ(bytes(all_ahead(p, kMiB)), kPiece) << "as far ahead as before";
  }
}

// The first reads, and repeated reads, were not predicted.
TEST(ReadPattern, WhatWasNotGiven_IsNotMissed) {
  ReadPattern p;
  p.note(0, kPiece);
  EXPECT_FALSE(all_ahead(p, kMiB).empty());
  p.missed(0, kPiece);
  EXPECT_TRUE(all_ahead(p, kMiB).empty());
  for (uint64_t i = 1; i < 8; ++i) {
    p.note(i * kPiece, kPiece);
    all_ahead(p, kMiB);
  }
  for (const uint64_t i : {7u, 4u}) {
    p.note(i * kPiece, kPiece);
    p.missed(i * kPiece, kPiece);
    EXPECT_TRUE(all_ahead(p, kMiB).empty()) << i;
  }
}

// Two loops: the later read looked into the cache first.
TEST(ReadPattern, OfReadsThatMissTogether_TheLastCounts) {
  ReadPattern p;
  for (uint64_t i = 0; i < 8; ++i) {
    p.note(i * kPiece, kPiece);
    all_ahead(p, kMiB);
  }
  p.note(8 * kPiece, kPiece);
  p.note(9 * kPiece, kPiece);
  all_ahead(p, kMiB);
  p.missed(8 * kPiece, kPiece);
  EXPECT_TRUE(all_ahead(p, kMiB).empty());
  p.missed(9 * kPiece, kPiece);
  const auto again = all_ahead(p, kMiB);
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(again.front().offset, 10 * kPiece);
  p.missed(9 * kPiece, kPiece);
  EXPECT_TRUE(all_ahead(p, kMiB).empty()) << "once";
}

// As when we write between the reads.
TEST(ReadPattern, WhatIsAlwaysGone_IsHardlyEverGiven) {
  ReadPattern p;
  uint64_t given = 0;
  constexpr uint64_t kReads = 2000;
  for (uint64_t i = 0; i < kReads; ++i) {
    p.note(i * kPiece, kPiece);
    p.missed(i * kPiece, kPiece);
    given += bytes(all_ahead(p, 16 * kMiB));
  }
  EXPECT_LE(given, kReads * kPiece / 4);
  const uint64_t rested = kReads + ReadPattern::kMostRest / kPiece;
  for (uint64_t i = kReads; i < rested; ++i) p.note(i * kPiece, kPiece);
  EXPECT_FALSE(all_ahead(p, 16 * kMiB).empty()) << "it is tried again";
}

TEST(ReadPattern, WhatIsPutBack_IsGivenNext) {
  for (const int64_t step : {int64_t{kPiece}, -int64_t{kPiece}, int64_t{8 * kMiB}}) {
    SCOPED_TRACE(step);
    ReadPattern p;
    uint64_t place = 300 * kMiB;
    for (int i = 0; i < 10; ++i) p.note(place += static_cast<uint64_t>(step), kPiece);
    const auto first = p.next(kMiB, kPiece, kGiB);
    ASSERT_TRUE(first);
    const auto second = p.next(kMiB, kPiece, kGiB);
    ASSERT_TRUE(second);
    p.put_back(*first);
    EXPECT_NE(p.next(kMiB, kPiece, kGiB), first) << "what followed has been asked for";
    p.note(place += static_cast<uint64_t>(step), kPiece);
    const auto third = p.next(kMiB, kPiece, kGiB);
    ASSERT_TRUE(third);
    p.put_back({third->offset + 4096, third->size - 4096});
    EXPECT_EQ(p.next(kMiB, kPiece, kGiB), third);
    p.note(5 * kGiB, kPiece);
    p.put_back(*third);
    EXPECT_FALSE(p.next(kMiB, kPiece, kGiB));
  }
}

// For any reads: no range beyond the end or too far ahead, and no endless prediction.
RC_GTEST_PROP(ReadPatternProperty, Ranges_AreWithinBounds, ()) {
  ReadPattern p;
  const uint64_t end = *rc::gen::inRange<uint64_t>(1, 64 * kMiB);
  const uint64_t window = *rc::gen::inRange<uint64_t>(0, 4 * kMiB);
  const uint64_t most = *rc::gen::inRange<uint64_t>(2, 512 * kKiB);
  const uint64_t stride = *rc::gen::inRange<uint64_t>(0, 4 * kMiB) - 2 * kMiB;
  const bool alike = *rc::gen::arbitrary<bool>();
  uint64_t place = 0, run = 0;
  for (unsigned reads = *rc::gen::inRange(1u, 100u); reads-- > 0;) {
    const uint64_t size = alike ? most : *rc::gen::inRange<uint64_t>(1, most);
    const int jump = alike ? reads % 3 : *rc::gen::inRange(0, 5);
    if (jump == 0)
      run = place = alike && run + stride < end ? run + stride : *rc::gen::inRange<uint64_t>(0, end);
    p.note(place, size);
    uint64_t given = 0;
    unsigned ranges = 0;
    while (const auto r = p.next(window, kPiece, end)) {
      RC_ASSERT(r->size > 0u);
      RC_ASSERT(r->size <= kPiece);
      RC_ASSERT(r->offset % ReadPattern::kAlignment == 0u);
      RC_ASSERT(r->offset + r->size <= end);
      given += r->size;
      RC_ASSERT(++ranges < 1000u);
    }
    RC_ASSERT(given <= window + 2 * ReadPattern::kAlignment * (ranges + 1));
    place += size;
  }
}

// Random reads within a gigabyte hardly ever look like a pattern.
RC_GTEST_PROP(ReadPatternProperty, RandomReads_AreNotFollowed, ()) {
  ReadPattern p;
  uint64_t given = 0;
  std::mt19937_64 random(*rc::gen::arbitrary<uint64_t>());
  for (unsigned i = 0; i < 1000; ++i) {
    p.note((1 + random() % (kGiB / 4096 - 1)) * 4096, 4096);
    given += bytes(all_ahead(p, kMiB));
  }
  RC_ASSERT(given <= 64 * kKiB);
}

// --- bytes in flight ---

TEST(ReadHistory, AnApplicationThatKeepsAWindowUnderWay_IsLeftAlone) {
  ReadHistory history;
  {
    ReadHistory::UnderWay first(history, 0, kMiB), second(history, kMiB, kMiB);
    EXPECT_TRUE(history.foretells());
    EXPECT_FALSE(history.next(2 * kMiB, kPiece, kGiB));
    EXPECT_TRUE(history.next(2 * kMiB + 1, kPiece, kGiB));
  }
  ReadHistory::UnderWay next(history, 2 * kMiB, 4096);
  EXPECT_FALSE(history.next(kMiB, kPiece, kGiB)) << "it does so from time to time";
  for (uint64_t i = 0; i < 40; ++i) ReadHistory::UnderWay small(history, 2 * kMiB + 4096 * (i + 1), 4096);
  EXPECT_TRUE(history.next(kMiB, kPiece, kGiB)) << "not any more";
}

// --- number of readers ---

TEST(AheadReaders, AreThoseThatHaveSentLately) {
  AheadReaders readers;
  int a = 0, b = 0;
  const TimePoint now{std::chrono::hours(1)};
  EXPECT_EQ(readers.count_with(&a, now), 1u);
  readers.sent(&a, now);
  readers.sent(&b, now + std::chrono::seconds(1));
  readers.sent(&a, now + ReadPace::kMemory);
  EXPECT_EQ(readers.count_with(&a, now + ReadPace::kMemory), 2u);
  EXPECT_EQ(readers.count_with(&now, now + ReadPace::kMemory), 3u);
  EXPECT_EQ(readers.count_with(&a, now + 2 * ReadPace::kMemory), 1u) << "b has sent nothing since";
  EXPECT_EQ(readers.count_with(&b, now + 2 * ReadPace::kMemory), 2u);
  readers.closed(&b);
  readers.closed(&a);
  EXPECT_EQ(readers.count_with(&b, now + 2 * ReadPace::kMemory), 1u);
}

// --- the window ---

class ReadPaceTest : public testing::Test {
 protected:
  // `count` READs sent together and answered together after `took`.
  void round(unsigned count, uint64_t size, Duration took) {
    std::vector<ReadPace::Sent> sent(count, pace.sending(now));
    now += took;
    for (const auto& s : sent) pace.answered(s, size, now);
  }
  ReadPace pace;
  TimePoint now{std::chrono::hours(1)};
};

TEST_F(ReadPaceTest, NothingKnown_NothingAhead) {
  EXPECT_EQ(pace.window(now), 0u);
}

TEST_F(ReadPaceTest, WhereAnswersComeAtOnce_NothingAhead) {
  round(4, kMiB, std::chrono::microseconds(400));
  EXPECT_EQ(pace.window(now), 0u);
}

// The time is that of the bytes alone, so read-ahead would save no waiting.
TEST_F(ReadPaceTest, WhereTheBytesAreAllThatTakesTime_NothingAhead) {
  round(4, kMiB, std::chrono::microseconds(1400));
  EXPECT_EQ(pace.window(now), 0u);
  round(4, kMiB / 16, std::chrono::microseconds(1400));
  EXPECT_EQ(pace.window(now), 0u) << "the large ones have shown that it need not be";
  round(1, kMiB, 2 * ReadPace::kMemory);
  round(4, kMiB / 16, std::chrono::microseconds(1400));
  EXPECT_GT(pace.window(now), 0u);
}

// 1 Gbit/s and 20 ms: 2.4 MiB fill the path.
TEST_F(ReadPaceTest, Window_DoublesUntilTheWayIsFull) {
  const double rate = 125e6;
  const Duration delay = std::chrono::milliseconds(20);
  uint64_t window = kPiece;
  uint64_t before = 0;
  for (int turn = 0; turn < 12; ++turn) {
    const auto count = static_cast<unsigned>(window / kPiece);
    const double bytes = static_cast<double>(count * kPiece);
    round(count, kPiece,
          std::max(delay, std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bytes / rate))));
    before = std::exchange(window, pace.window(now));
    EXPECT_LE(window, 2 * before + kPiece);
  }
  EXPECT_GE(window, static_cast<uint64_t>(1.9 * rate * 0.02));
  EXPECT_LE(window, static_cast<uint64_t>(2.1 * rate * 0.02));
}

// A path with a queue in front of it, kept full by one stream: READs of one piece each, as many as the window
// allows, answered one after the other. The measurement starts after a quarter of the time.
struct FullWay {
  FullWay(double bytes_per_second, Duration delay, Duration until) {
    const auto serve = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(static_cast<double>(kPiece) / bytes_per_second));
    struct UnderWay {
      ReadPace::Sent sent;
      TimePoint answered;
    };
    ReadPace pace;
    std::deque<UnderWay> under_way;
    const TimePoint begin{std::chrono::hours(1)};
    TimePoint now = begin, idle_from = begin;  // when the queue will be empty
    uint64_t delivered = 0;
    while (now < begin + until) {
      const bool counts = now - begin > until / 4;
      const uint64_t window = std::clamp<uint64_t>(pace.window(now), kPiece, 16 * kMiB);
      if (counts) largest = std::max(largest, window);
      while (under_way.size() * kPiece < window) {
        idle_from = std::max(idle_from, now + delay / 2) + serve;
        under_way.push_back({pace.sending(now), idle_from + delay / 2});
        if (counts) longest = std::max(longest, under_way.back().answered - now);
      }
      now = under_way.front().answered;
      pace.answered(under_way.front().sent, kPiece, now);
      under_way.pop_front();
      delivered += kPiece;
    }
    share = static_cast<double>(delivered) /
            (bytes_per_second * std::chrono::duration<double>(now - begin).count());
  }
  uint64_t largest = 0;  // bytes; the largest window
  Duration longest{};    // of any READ
  double share = 0;      // of what the path could have carried
};

TEST(ReadPaceOfAFullWay, IsNotFilledWithMoreAndMore) {
  using std::chrono::milliseconds;
  for (const auto& [rate, delay] : std::vector<std::pair<double, Duration>>{{125e6, milliseconds(20)},
                                                                            {12.5e6, milliseconds(40)},
                                                                            {1.25e9, milliseconds(2)},
                                                                            {125e6, milliseconds(100)}}) {
    const FullWay way(rate, delay, std::chrono::minutes(2));
    const double piece = static_cast<double>(kPiece) / rate;
    const double alone = std::chrono::duration<double>(delay).count() + piece;  // seconds of a READ
    EXPECT_LE(static_cast<double>(way.largest), 2.2 * rate * alone + kPiece) << rate;
    EXPECT_LE(std::chrono::duration<double>(way.longest).count(), 2.5 * alone + piece) << rate;
    EXPECT_GE(way.share, 0.9) << rate;
  }
}

TEST_F(ReadPaceTest, WhatWasMeasuredLongAgo_IsForgotten) {
  round(4, kMiB, std::chrono::milliseconds(10));
  EXPECT_GT(pace.window(now), 0u);
  EXPECT_GT(pace.window(now + ReadPace::kMemory), 0u);
  EXPECT_EQ(pace.window(now + 2 * ReadPace::kMemory + Duration(1)), 0u);
}

}  // namespace
}  // namespace nfsrdma::client

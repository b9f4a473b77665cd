// SPDX-License-Identifier: Apache-2.0
#include "fuse/caller_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <thread>

namespace nfsrdma::fuse {
namespace {

using namespace std::chrono_literals;

constexpr int kThreads = CallerTable::kThreads;

struct Seen {
  std::vector<CallerStatistics> callers;
  CallerStatistics replaced;

  const CallerStatistics* of(pid_t tid) const {
    const auto found =
        std::find_if(callers.begin(), callers.end(), [&](const auto& c) { return c.tid == tid; });
    return found == callers.end() ? nullptr : &*found;
  }
  uint64_t requests() const {
    uint64_t sum = replaced.requests;
    for (const CallerStatistics& c : callers) sum += c.requests;
    return sum;
  }
};

Seen look(const CallerTable& table, TimePoint now = {}) {
  Seen seen;
  table.add_to(seen.callers, seen.replaced, now);
  return seen;
}

TEST(CallerTable, Callers_AreKeptApart) {
  CallerTable table;
  EXPECT_TRUE(look(table).callers.empty());
  const TimePoint start{1h};
  table.has_read(7, start, 4096);
  table.answered(7, start + 10ms, 5us);
  table.answered(0, start + 20ms, 7us);
  table.has_written(7, start + 20ms, 100);
  table.answered(7, start + 30ms, 5us);
  const Seen seen = look(table, start + 1030ms);
  ASSERT_EQ(seen.callers.size(), 2u);
  const CallerStatistics& seven = *seen.of(7);
  EXPECT_EQ(seven.requests, 2u);
  EXPECT_EQ(seven.read_bytes, 4096u);
  EXPECT_EQ(seven.write_bytes, 100u);
  EXPECT_EQ(seven.total_us, 10u);
  EXPECT_EQ(seven.seen_ms, 1030u);
  EXPECT_EQ(seven.idle_ms, 1000u);
  EXPECT_EQ(seen.of(0)->requests, 1u);
  EXPECT_EQ(seen.replaced.requests, 0u);
}

TEST(CallerTable, LoopsAdd) {
  CallerTable one, other;
  one.answered(7, TimePoint{2s}, 5us);
  other.answered(7, TimePoint{1s}, 5us);
  other.answered(8, TimePoint{1s}, 5us);
  Seen seen;
  one.add_to(seen.callers, seen.replaced, TimePoint{3s});
  other.add_to(seen.callers, seen.replaced, TimePoint{3s});
  ASSERT_EQ(seen.callers.size(), 2u);
  EXPECT_EQ(seen.of(7)->requests, 2u);
  EXPECT_EQ(seen.of(7)->seen_ms, 2000u);
  EXPECT_EQ(seen.of(7)->idle_ms, 1000u);
}

TEST(CallerTable, NewCaller_TakesThePlaceOfTheLongestUnused) {
  CallerTable table;
  // Half of the IDs have the same hash.
  const auto tid = [](int n) { return n % 2 == 0 ? n + 1 : n * kThreads; };
  for (int n = 0; n < kThreads; ++n) table.answered(tid(n), {}, 1us);
  for (int n = 0; n < kThreads; ++n) {
    if (n != 100 && n != 200) table.answered(tid(n), {}, 1us);
  }
  table.answered(1'000'000, {}, 1us);
  Seen seen = look(table);
  EXPECT_EQ(seen.callers.size(), static_cast<size_t>(kThreads));
  EXPECT_EQ(seen.of(tid(100)), nullptr);
  EXPECT_NE(seen.of(tid(200)), nullptr);
  table.answered(1'000'001, {}, 1us);
  seen = look(table);
  EXPECT_EQ(seen.of(tid(200)), nullptr);
  EXPECT_EQ(seen.of(1'000'001)->requests, 1u);
  EXPECT_EQ(seen.replaced.requests, 2u);
  EXPECT_EQ(seen.replaced.total_us, 2u);
  EXPECT_EQ(seen.requests(), 2u * kThreads);
  // A thread that was replaced begins with new numbers.
  table.answered(tid(100), {}, 1us);
  EXPECT_EQ(look(table).of(tid(100))->requests, 1u);
}

// Each caller's bytes equal its ID, so an entry that mixes two callers is visible.
TEST(CallerTable, ReadersSeeNoMixture) {
  CallerTable table;
  std::atomic<int> replaced{0};
  const std::jthread writer([&](const std::stop_token& stop) {
    // No ID comes again: a reader that sleeps in the middle of its look would otherwise find it twice, and
    // add.
    for (int tid = 1; !stop.stop_requested() && tid < INT_MAX; ++tid) {
      table.has_read(tid, {}, static_cast<size_t>(tid));
      table.has_written(tid, {}, static_cast<size_t>(tid));
      replaced = tid;
    }
  });
  uint64_t seen = 0;
  int looks = 0;
  // Counts only reads during which the writer ran; with one processor there are few.
  for (int n = 0; looks < 2000 && n < 200'000; ++n) {
    const int before = replaced;
    for (const CallerStatistics& c : look(table).callers) {
      // Each of the two writes to an entry may be visible or not. The value is never a multiple of the ID and
      // never another thread's.
      ASSERT_TRUE(c.read_bytes == static_cast<uint64_t>(c.tid) || c.read_bytes == 0)
          << c.tid << " " << c.read_bytes;
      ASSERT_TRUE(c.write_bytes == static_cast<uint64_t>(c.tid) || c.write_bytes == 0);
      ++seen;
    }
    looks += replaced != before ? 1 : 0;
  }
  EXPECT_GT(seen, 0u);
}

}  // namespace
}  // namespace nfsrdma::fuse

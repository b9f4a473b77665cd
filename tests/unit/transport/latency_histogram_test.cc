// SPDX-License-Identifier: Apache-2.0
#include "transport/runtime/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace nfsrdma {
namespace {

using namespace std::chrono_literals;

TEST(LatencyBuckets, EdgesJoinAndHoldTheirTimes) {
  EXPECT_EQ(latency::lower_edge(0), 0u);
  for (size_t i = 0; i < latency::kBuckets; ++i) {
    const uint64_t low = latency::lower_edge(i), high = latency::upper_edge(i);
    ASSERT_LT(low, high);
    EXPECT_EQ(latency::bucket_of(low), i);
    EXPECT_EQ(latency::bucket_of(high - 1), i);
    EXPECT_EQ(latency::bucket_of(high), std::min(i + 1, latency::kBuckets - 1));
  }
  EXPECT_EQ(latency::upper_edge(latency::kBuckets - 1), uint64_t{1} << 32);  // 71 minutes
  EXPECT_EQ(latency::bucket_of(UINT64_MAX), latency::kBuckets - 1);
}

TEST(LatencyBuckets, TheMiddleIsWrongByAnEighthAtMost) {
  for (size_t i = latency::kSubBuckets; i < latency::kBuckets; ++i) {
    const auto low = static_cast<double>(latency::lower_edge(i));
    const double middle = (low + static_cast<double>(latency::upper_edge(i))) / 2;
    EXPECT_LE((middle - low) / low, 0.125) << i;
  }
}

TEST(LatencyHistogram, QuantilesAreThoseOfTheTimes) {
  LatencyHistogram histogram;
  LatencyCounts counts;
  EXPECT_EQ(counts.quantile(0.5), 0);
  EXPECT_EQ(counts.upper_bound(), 0u);
  for (int i = 1; i <= 10'000; ++i) histogram.record(i * 1us);
  EXPECT_EQ(histogram.add_to(counts), 10'000u);
  EXPECT_EQ(counts.total(), 10'000u);
  for (const double share : {0.01, 0.5, 0.9, 0.99, 1.0})
    EXPECT_NEAR(counts.quantile(share), share * 10'000, share * 1250) << share;
  EXPECT_EQ(counts.upper_bound(), 10'240u);
  EXPECT_EQ(counts.below(640), 639u);
  EXPECT_EQ(counts.below(latency::upper_edge(latency::kBuckets - 1)), 10'000u);
}

TEST(LatencyHistogram, OneTime_IsItsOwnMedian) {
  LatencyHistogram histogram;
  histogram.record(2h);  // beyond the last edge
  LatencyCounts counts;
  histogram.add_to(counts);
  EXPECT_EQ(counts[latency::kBuckets - 1], 1u);
  EXPECT_GT(counts.quantile(0.5), 3.5e9);
}

TEST(LatencyCounts, Difference_IsWhatCameBetween) {
  LatencyHistogram histogram;
  LatencyCounts before, now;
  histogram.record(5us);
  histogram.record(70ms);
  histogram.add_to(before);
  histogram.record(5us);
  histogram.add_to(now);
  now.subtract(before);
  EXPECT_EQ(now.total(), 1u);
  EXPECT_EQ(now.quantile(1), 5.5);
  EXPECT_EQ(now.upper_bound(), 6u);
}

TEST(LatencyHistogram, SharedByThreads_LosesNothing) {
  constexpr int kEach = 5000;
  LatencyHistogram histogram;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) histogram.record_shared(n * 1us);
    });
  }
  for (std::thread& t : threads) t.join();
  LatencyCounts counts;
  EXPECT_EQ(histogram.add_to(counts), 4u * kEach);
}

}  // namespace
}  // namespace nfsrdma

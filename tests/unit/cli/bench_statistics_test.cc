// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace nfsrdma::cli::bench {
namespace {

Rounds rounds(const std::vector<double>& values) {
  Rounds out;
  for (const double value : values) out[static_cast<unsigned>(out.size())] = value;
  return out;
}

TEST(BenchSpread, MedianLowestAndHighest_OfAnyNumber) {
  EXPECT_FALSE(spread_of(Rounds{}));
  const auto odd = spread_of(rounds({3, 1, 2}));
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->median, 2);
  EXPECT_EQ(odd->low, 1);
  EXPECT_EQ(odd->high, 3);
  EXPECT_EQ(odd->count, 3u);
  EXPECT_EQ(spread_of(rounds({4, 1, 2, 3}))->median, 2.5);
  EXPECT_EQ(spread_of(rounds({7}))->median, 7);
}

TEST(BenchRatio, RoundsAreComparedWithTheirOwn) {
  // The machine becomes ten times slower. The contenders' medians are useless, but each round's ratio is 2.
  const auto ratio = ratio_of(rounds({200, 100, 50, 30, 20}), rounds({100, 50, 25, 15, 10}));
  ASSERT_TRUE(ratio);
  EXPECT_EQ(ratio->median, 2);
  EXPECT_EQ(ratio->low, 2);
  EXPECT_EQ(ratio->high, 2);
  EXPECT_EQ(ratio->pairs, 5u);
  EXPECT_EQ(standing(*ratio, 1), Standing::kAbove);
  EXPECT_EQ(standing(*ratio, 3), Standing::kBelow);
}

TEST(BenchRatio, RoundsThatOneOfThemLacks_DoNotCount) {
  const auto ratio = ratio_of({{0, 10}, {2, 30}, {5, 50}}, {{0, 10}, {1, 10}, {2, 10}, {5, 0}});
  ASSERT_TRUE(ratio);
  EXPECT_EQ(ratio->pairs, 2u);
  EXPECT_EQ(ratio->median, 2);
  EXPECT_FALSE(ratio_of({{0, 10}}, {{1, 10}}));
  EXPECT_FALSE(ratio_of({}, {}));
}

TEST(BenchRatio, FewerThanFivePairs_DecideNothing) {
  const auto four = ratio_of(rounds({9, 9, 9, 9}), rounds({1, 1, 1, 1}));
  EXPECT_EQ(standing(*four, 1), Standing::kTooFew);
  const auto five = ratio_of(rounds({9, 9, 9, 9, 9}), rounds({1, 1, 1, 1, 1}));
  EXPECT_EQ(standing(*five, 1), Standing::kAbove);
}

TEST(BenchRatio, ASpreadThatHoldsOne_SwallowsTheDifference) {
  const Rounds ones = rounds({1, 1, 1, 1, 1});
  EXPECT_EQ(standing(*ratio_of(rounds({1.3, 1.2, 1.1, 1.4, 0.9}), ones), 1), Standing::kSpread);
  EXPECT_EQ(standing(*ratio_of(rounds({1.3, 1.2, 1.1, 1.4, 1.0}), ones), 1), Standing::kSpread);
  EXPECT_EQ(standing(*ratio_of(rounds({0.7, 0.8, 0.5, 0.9, 0.99}), ones), 1), Standing::kBelow);
}

TEST(BenchRatio, WithNineRounds_OneOutlierOnEachSideIsLeftOut) {
  // The true median lies outside of the second lowest to second highest of nine with probability 2 * (1 + 9)
  // / 512 = 0.04, outside of the third ones with 0.18.
  const auto ratio =
      ratio_of(rounds({0.1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 9}), rounds(std::vector<double>(9, 1)));
  EXPECT_EQ(ratio->low, 1.1);
  EXPECT_EQ(ratio->high, 1.7);
  EXPECT_EQ(ratio->median, 1.4);
  EXPECT_EQ(standing(*ratio, 1), Standing::kAbove);
}

// Ranges drawn from a known distribution contain its median as often as the header says.
TEST(BenchRatio, TheRange_HoldsTheTrueMedianAsOftenAsItSays) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> values(0, 0.5);  // median 1
  for (const size_t count : {5, 6, 9, 15}) {
    int held = 0;
    constexpr int kTrials = 4000;
    for (int i = 0; i < kTrials; ++i) {
      std::vector<double> drawn(count);
      std::generate(drawn.begin(), drawn.end(), [&] { return values(random); });
      const auto ratio = ratio_of(rounds(drawn), rounds(std::vector<double>(count, 1)));
      held += ratio->low <= 1 && 1 <= ratio->high;
    }
    EXPECT_GT(held, kTrials * 88 / 100) << count;
  }
}

TEST(BenchRatio, CountsAreComparedByTheirMedians_AndDecideAlone) {
  const auto ratio = ratio_of({{0, 10}}, {{3, 20}}, true);
  ASSERT_TRUE(ratio);
  EXPECT_EQ(ratio->median, 0.5);
  EXPECT_EQ(standing(*ratio, 1), Standing::kBelow);
  EXPECT_FALSE(ratio_of({{0, 10}}, {{3, 0}}, true));
}

}  // namespace
}  // namespace nfsrdma::cli::bench

// SPDX-License-Identifier: Apache-2.0
// OwnChanges: spans of our operations in any order, with and without another client's change among them.
#include "client/core/attributes/own_changes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace nfsrdma::test {
namespace {

using client::OwnChanges;
using Spans = std::vector<std::pair<uint64_t, uint64_t>>;

uint64_t follow(OwnChanges& own, uint64_t known, const Spans& spans) {
  for (const auto& [before, after] : spans) known = own.follow(known, before, after);
  return known;
}

// Overlapping operations: each starts after its predecessor's start, and not later than the end of all so
// far.
Spans executed(uint64_t from, const std::vector<std::pair<uint8_t, uint8_t>>& steps) {
  Spans spans;
  uint64_t first = from, last = from;
  for (const auto& [back, forward] : steps) {
    first = std::max(first, last - std::min<uint64_t>(back, last - from));
    const uint64_t end = last + forward;
    spans.emplace_back(first, end);
    last = end;
  }
  return spans;
}

RC_GTEST_PROP(OwnChanges, OursAlone_FollowInAnyOrder, (std::vector<std::pair<uint8_t, uint8_t>> steps)) {
  const uint64_t from = 1000;
  Spans spans = executed(from, steps);
  const uint64_t end = spans.empty() ? from : spans.back().second;
  for (size_t i = spans.size(); i > 1; --i) std::swap(spans[i - 1], spans[*rc::gen::inRange<size_t>(0, i)]);
  OwnChanges own;
  RC_ASSERT(follow(own, from, spans) == end);
  RC_ASSERT(!own.gaps());
}

RC_GTEST_PROP(OwnChanges, AnothersChangeBetweenTwoOfOurs_IsAGap,
              (std::vector<std::pair<uint8_t, uint8_t>> steps)) {
  const uint64_t from = 1000;
  Spans spans = executed(from, steps);
  const uint64_t end = spans.empty() ? from : spans.back().second;
  for (auto& [before, after] : executed(end + 1, steps)) spans.emplace_back(before, after);
  spans.emplace_back(end + 1, end + 2);
  for (size_t i = spans.size(); i > 1; --i) std::swap(spans[i - 1], spans[*rc::gen::inRange<size_t>(0, i)]);
  OwnChanges own;
  RC_ASSERT(follow(own, from, spans) == end);
  RC_ASSERT(own.gaps());
}

// RFC 8881 section 5.8.1.4: "A value created by the server that the client can use to determine if file data,
// directory contents, or attributes of the object have been modified." It may move either way.
TEST(OwnChanges, AttributeThatFalls_IsFollowedOneByOne) {
  OwnChanges own;
  EXPECT_EQ(follow(own, 50, {{50, 20}, {20, 70}, {70, 10}}), 10u);
  EXPECT_FALSE(own.gaps());
  own.follow(10, 9, 8);
  EXPECT_TRUE(own.gaps());
}

TEST(OwnChanges, WhatIsSeenOfTheTimeBefore_IsNoGap) {
  OwnChanges own;
  EXPECT_EQ(follow(own, 5, {{5, 8}, {6, 6}, {8, 8}}), 8u);
  EXPECT_FALSE(own.gaps());
}

TEST(OwnChanges, WhatIsSeenBeforeItsOwnAnswer_WaitsForIt) {
  OwnChanges own;
  EXPECT_EQ(own.follow(5, 7, 7), 5u);
  EXPECT_TRUE(own.gaps());
  EXPECT_EQ(own.follow(5, 5, 7), 7u);
  EXPECT_FALSE(own.gaps());
}

TEST(OwnChanges, TooManyGaps_AreOneForGood) {
  OwnChanges own;
  for (uint64_t i = 1; i <= OwnChanges::kMostApart + 1; ++i) own.follow(0, 10 * i, 10 * i + 1);
  own.follow(0, 0, 1'000'000);
  EXPECT_TRUE(own.gaps());
  own.clear();
  EXPECT_FALSE(own.gaps());
}

}  // namespace
}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// Suspension: reported once, whether it was one long suspension or many short ones.
#include "transport/runtime/suspension.h"

#include <gtest/gtest.h>

namespace nfsrdma::test {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1h};

TEST(Suspension, WhileTheMachineRuns_NothingIsNoticed) {
  Suspension suspension(3h, kStart);  // it was suspended for two hours before
  EXPECT_FALSE(suspension.noticed(3h, kStart));
  EXPECT_FALSE(suspension.noticed(3h + 10h, kStart + 10h));
}

TEST(Suspension, IsNoticedOnce) {
  Suspension suspension(1h, kStart);
  EXPECT_TRUE(suspension.noticed(1h + 61s, kStart + 1s));
  EXPECT_FALSE(suspension.noticed(1h + 62s, kStart + 2s));
  EXPECT_TRUE(suspension.noticed(1h + 64s, kStart + 3s));
}

TEST(Suspension, ShortOnesCountTogether) {
  Suspension suspension(1h, kStart);
  EXPECT_FALSE(suspension.noticed(1h + 1s + 600ms, kStart + 1s));
  EXPECT_TRUE(suspension.noticed(1h + 2s + 1200ms, kStart + 2s));
}

TEST(Suspension, HeldUpBetweenTheTwoClocks_HasNotSlept) {
  Suspension suspension(1h, kStart);
  EXPECT_FALSE(suspension.noticed(1h + 1s, kStart + 1s + 5s));
  EXPECT_FALSE(suspension.noticed(1h + 7s, kStart + 7s));
}

TEST(Suspension, SinceBoot_GoesOn) {
  const Duration before = since_boot();
  EXPECT_GT(before, Duration::zero());
  EXPECT_GE(since_boot(), before);
}

}  // namespace
}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// Deadlocks of waiting lock-owners (fcntl(2): EDEADLK).
#include "client/nfs4/state/lock_waits.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace nfsrdma::client::nfs4 {
namespace {

struct LockWaitsTest : testing::Test {
  LockWaits waits;
  LockWaits::Wait a{waits, "a"}, b{waits, "b"}, c{waits, "c"};

  static bool asks(LockWaits::Wait& wait, const char* holder) {
    wait.ask();
    return wait.denied(holder);
  }
};

TEST_F(LockWaitsTest, TwoThatWaitForEachOther_AreACircle) {
  EXPECT_FALSE(asks(a, "b"));
  EXPECT_TRUE(asks(b, "a"));
}

TEST_F(LockWaitsTest, Three_AreACircleOnceTheLastOneWaits) {
  EXPECT_FALSE(asks(a, "b"));
  EXPECT_FALSE(asks(b, "c"));
  EXPECT_TRUE(asks(c, "a"));
}

TEST_F(LockWaitsTest, ACircleThatOneIsNotIn_DoesNotConcernIt) {
  EXPECT_FALSE(asks(a, "b"));
  EXPECT_FALSE(asks(c, "a"));
  EXPECT_TRUE(asks(b, "a"));
  EXPECT_FALSE(asks(c, "a"));
}

TEST_F(LockWaitsTest, WhoWasRefused_IsNoLongerInTheWay) {
  EXPECT_FALSE(asks(a, "b"));
  EXPECT_TRUE(asks(b, "a"));
  EXPECT_FALSE(asks(a, "b")) << "b has not got what it asked for, and does not wait";
}

TEST_F(LockWaitsTest, WhatTheHolderGaveUp_IsNotWaitedForAnyMore) {
  EXPECT_FALSE(asks(a, "b"));
  waits.changed("b");
  EXPECT_FALSE(asks(b, "a")) << "a may have what it waited for";
  EXPECT_TRUE(asks(a, "b")) << "but has not";
}

TEST_F(LockWaitsTest, AnAnswerFromBeforeTheChange_SaysNothing) {
  a.ask();
  waits.changed("b");
  EXPECT_FALSE(a.denied("b"));
  EXPECT_FALSE(asks(b, "a"));
}

TEST_F(LockWaitsTest, WhoStopsWaiting_IsForgotten) {
  {
    LockWaits::Wait d(waits, "d");
    EXPECT_FALSE(asks(d, "a"));
  }
  EXPECT_FALSE(asks(a, "d"));
}

TEST_F(LockWaitsTest, OneselfAndOtherClients_AreNoCircle) {
  EXPECT_FALSE(asks(a, "a"));
  EXPECT_FALSE(asks(b, ""));
  EXPECT_FALSE(asks(a, "b"));
}

TEST_F(LockWaitsTest, ChangesOfManyOwners_AreNotAllKept) {
  a.ask();
  for (int n = 0; n < 3000; ++n) {
    b.ask();
    c.ask();
    waits.changed(std::to_string(n));
  }
  EXPECT_FALSE(a.denied("0")) << "kept: a asked before";
  EXPECT_FALSE(asks(a, "b"));
  for (int n = 0; n < 3000; ++n) {
    a.ask();
    b.ask();
    c.ask();
    waits.changed("another " + std::to_string(n));
  }
  EXPECT_LT(waits.remembered(), 2500u);
  EXPECT_FALSE(asks(a, "b"));
  EXPECT_TRUE(asks(b, "a"));
}

// Two threads of one process wait as the same owner, each for itself.
TEST_F(LockWaitsTest, OwnerThatWaitsTwice_CountsWithEachWait) {
  LockWaits::Wait also_a(waits, "a");
  EXPECT_FALSE(asks(a, "c"));
  EXPECT_FALSE(asks(also_a, "b"));
  EXPECT_TRUE(asks(b, "a"));
  EXPECT_TRUE(asks(c, "a"));
}

// Two paths lead from each owner to the next one, so there are 2^layers paths from the first to the last.
TEST_F(LockWaitsTest, EachOwnerIsLookedAtOnce) {
  constexpr int kLayers = 64;
  std::deque<LockWaits::Wait> all;
  for (int layer = kLayers; layer > 0; --layer) {
    for (int way = 0; way < 2; ++way) {
      EXPECT_FALSE(asks(all.emplace_back(waits, std::to_string(layer)), std::to_string(layer + 1).c_str()));
    }
  }
  LockWaits::Wait first(waits, "0"), last(waits, std::to_string(kLayers + 1));
  EXPECT_FALSE(asks(first, "1"));
  EXPECT_TRUE(asks(last, "0"));
}

TEST_F(LockWaitsTest, ALongChain_IsFollowedToItsEnd) {
  constexpr int kOwners = 100'000;
  std::deque<LockWaits::Wait> all;
  // Starts at the end of the chain: each search ends at the previous owner, which waits for one that does not
  // wait yet.
  for (int n = 0; n < kOwners; ++n)
    EXPECT_FALSE(asks(all.emplace_back(waits, std::to_string(n)), std::to_string(n + 1).c_str()));
  EXPECT_TRUE(asks(all.emplace_back(waits, std::to_string(kOwners)), "0"));
}

}  // namespace
}  // namespace nfsrdma::client::nfs4

// Circles of waiting lock-owners (fcntl(2): EDEADLK).
#include "client/nfs4/lock_waits.h"

#include <gtest/gtest.h>

namespace nfsrdma::client {
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

}  // namespace
}  // namespace nfsrdma::client

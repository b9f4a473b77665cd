// SPDX-License-Identifier: Apache-2.0
// How often a session is created again.
#include "client/nfs4/session/recovery_pace.h"

#include <gtest/gtest.h>

namespace nfsrdma::client::nfs4 {
namespace {

using namespace std::chrono_literals;

class RecoveryPaceTest : public testing::Test {
 protected:
  RecoveryPace pace;
  TimePoint now{1h};
};

TEST_F(RecoveryPaceTest, AfterASessionThatWorked_DoesNotWait) {
  for (int n = 0; n < 5; ++n) {
    EXPECT_EQ(pace.begin(now), 0ms);
    EXPECT_FALSE(pace.worked(now));
  }
}

TEST_F(RecoveryPaceTest, SessionsThatAnswerNothing_AreMadeMoreAndMoreSlowly) {
  EXPECT_EQ(pace.begin(now), 0ms);
  for (const auto wait : {100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 6400ms, 12800ms, 15000ms, 15000ms}) {
    EXPECT_EQ(pace.begin(now), wait);
    now += wait;
  }
  EXPECT_EQ(pace.take_count(), 11u);
}

TEST_F(RecoveryPaceTest, ASessionThatWorks_EndsTheWaiting) {
  for (int n = 0; n < 5; ++n) now += pace.begin(now);
  pace.worked(now);
  EXPECT_EQ(pace.begin(now), 0ms);
  EXPECT_EQ(pace.begin(now), 100ms);
}

TEST_F(RecoveryPaceTest, SessionsThatWorkForAMoment_AreOneASecond) {
  for (unsigned n = 0; n < RecoveryPace::kTokens; ++n) {
    EXPECT_EQ(pace.begin(now), 0ms);
    pace.worked(now);
  }
  const TimePoint begin = now;
  for (int n = 0; n < 30; ++n) {
    now += pace.begin(now) + 1ms;
    pace.worked(now);
  }
  EXPECT_GE(now - begin, 29s);
}

TEST_F(RecoveryPaceTest, WhatLasts_IsToldOnce) {
  pace.begin(now);
  EXPECT_FALSE(pace.worked(now + RecoveryPace::kSteady - 1ms));
  EXPECT_TRUE(pace.worked(now + RecoveryPace::kSteady));
}

}  // namespace
}  // namespace nfsrdma::client::nfs4

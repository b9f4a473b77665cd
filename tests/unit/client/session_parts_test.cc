// SPDX-License-Identifier: Apache-2.0
// What a session is made of: its readiness, the server's status flags, the granted channel, and the declared
// states of its client ID.
#include <gtest/gtest.h>

#include <future>
#include <optional>

#include "client/nfs4/session/fore_channel.h"
#include "client/nfs4/session/readiness.h"
#include "client/nfs4/session/registration.h"
#include "client/nfs4/session/status_flags.h"
#include "tests/unit/transport/support/run_on.h"

namespace nfsrdma::client::nfs4 {
namespace {

using namespace std::chrono_literals;

// --- Readiness ---

struct ReadinessTest : testing::Test {
  StopFlag stopping;
  Readiness readiness{stopping};
  test::LoopThread thread;

  // A coroutine that has waited, or has found the session ready.
  std::future<std::optional<uint64_t>> start_waiting() {
    auto waiting = test::start_on(*thread, readiness.wait());
    test::call_on(*thread, [] {});
    return waiting;
  }
  static bool over(const std::future<std::optional<uint64_t>>& waiting) {
    return waiting.wait_for(0s) == std::future_status::ready;
  }
};

// The loop that found generation 1 broken may say so after loop 0 has made generation 2.
TEST_F(ReadinessTest, BrokenOfAnEarlierGeneration_DoesNotMakeTheNextWait) {
  readiness.ready(1);
  readiness.ready(2);
  readiness.broken(1);
  auto waiting = start_waiting();
  ASSERT_TRUE(over(waiting));
  EXPECT_EQ(waiting.get(), 2u);
}

TEST_F(ReadinessTest, Broken_WaitsForTheNext) {
  readiness.ready(1);
  readiness.broken(1);
  auto waiting = start_waiting();
  EXPECT_FALSE(over(waiting));
  readiness.ready(2);
  EXPECT_EQ(waiting.get(), 2u);
}

TEST_F(ReadinessTest, Stopping_EndsTheWait) {
  auto waiting = start_waiting();
  EXPECT_FALSE(over(waiting));
  stopping.raise();
  readiness.wake();
  EXPECT_EQ(waiting.get(), std::nullopt);
}

// --- Registration's states ---

// destroy_all() is the end: no client ID is established after it.
TEST(RegistrationStates, Destroyed_IsTheEnd) {
  using Machine = StateMachine<RegistrationStates>;
  using State = RegistrationStates::State;
  constexpr std::array all{State::kNone,    State::kNew,       State::kConfirmed, State::kSession,
                           State::kDoubted, State::kDestroyed, State::kAbandoned};
  for (const State state : all) {
    EXPECT_FALSE(Machine::may(State::kDestroyed, state));
    EXPECT_FALSE(Machine::may(State::kAbandoned, state));
    // RFC 8881 section 18.50.3: DESTROY_CLIENTID fails while the client ID has a session.
    EXPECT_EQ(Machine::may(state, State::kDestroyed), state == State::kNew || state == State::kConfirmed);
    // Section 18.36.3: CREATE_SESSION needs a client ID.
    EXPECT_EQ(Machine::may(state, State::kSession), state == State::kNew || state == State::kConfirmed);
  }
}

// --- StatusFlags ---

constexpr uint32_t kDown = nfs4::SEQ4_STATUS_CB_PATH_DOWN;
constexpr uint32_t kFault = nfs4::SEQ4_STATUS_BACKCHANNEL_FAULT;

TEST(StatusFlags, OneHandlesThemAtATime) {
  StatusFlags flags;
  EXPECT_TRUE(flags.begin_handling());
  EXPECT_FALSE(flags.begin_handling());
  flags.end_handling();
  EXPECT_TRUE(flags.begin_handling());
}

TEST(StatusFlags, TheSameInARow_AreCounted) {
  StatusFlags flags;
  EXPECT_EQ(flags.count(kDown), 0u);
  EXPECT_FALSE(flags.repeated());
  EXPECT_EQ(flags.count(kDown), 1u);
  EXPECT_EQ(flags.count(kDown), 2u);
  EXPECT_TRUE(flags.repeated());
  EXPECT_EQ(flags.count(kFault), 0u) << "others";
  flags.note(kFault);
  EXPECT_EQ(flags.count(kFault), 1u);
  flags.note(0);
  EXPECT_EQ(flags.count(kFault), 0u) << "they were gone in between";
}

TEST(StatusFlags, BackChannelThatWorks_IsMendedFromTheBeginningNextTime) {
  StatusFlags flags;
  EXPECT_EQ(flags.begin_back_channel_mending(), 0u);
  flags.note(kDown);
  EXPECT_EQ(flags.begin_back_channel_mending(), 1u);
  flags.note(kFault);
  EXPECT_EQ(flags.begin_back_channel_mending(), 0u);
}

TEST(StatusFlags, ReclaimThatWasJustDone_IsNotHeeded) {
  StatusFlags flags;
  const TimePoint now{1h};
  EXPECT_TRUE(flags.heeds_reclaim(now));
  flags.ignore_reclaim_until(now + 1s);
  EXPECT_FALSE(flags.heeds_reclaim(now));
  EXPECT_TRUE(flags.heeds_reclaim(now + 1s));
  flags.ignore_reclaim_until(now + 1s);
  flags.heed_reclaim();
  EXPECT_TRUE(flags.heeds_reclaim(now)) << "a new connection may mean another restart";
}

TEST(StatusFlags, Reclaims_AreCountedUntilTheFlagIsGone) {
  StatusFlags flags;
  EXPECT_EQ(flags.begin_reclaim(), 0u);
  flags.note(nfs4::SEQ4_STATUS_RESTART_RECLAIM_NEEDED);
  EXPECT_EQ(flags.begin_reclaim(), 1u);
  EXPECT_EQ(flags.reclaims(), 2u);
  flags.note(kDown);
  EXPECT_EQ(flags.reclaims(), 0u);
}

// --- ForeChannel ---

// RFC 8881 section 18.36.3, ca_maxrequests: "For the fore channel, the server MAY change the requested
// value."
TEST(ForeChannel, WhatTheServerGrants_IsNeverMoreThanAskedFor) {
  ForeChannel channel;
  nfs4::channel_attrs4 granted = ForeChannel::offered();
  granted.ca_maxrequests = UINT32_MAX;
  granted.ca_maxrequestsize = granted.ca_maxresponsesize = UINT32_MAX;
  ASSERT_TRUE(channel.open(granted));
  EXPECT_EQ(channel.slots(), ForeChannel::offered().ca_maxrequests);
  EXPECT_EQ(channel.request_bytes(), ForeChannel::offered().ca_maxrequestsize);
  EXPECT_EQ(channel.response_bytes(), ForeChannel::offered().ca_maxresponsesize);
}

TEST(ForeChannel, TooLittle_IsRefusedAndTheOldValuesStay) {
  ForeChannel channel;
  ASSERT_TRUE(channel.open(ForeChannel::offered()));
  const auto refused = [&](auto member) {
    nfs4::channel_attrs4 granted = ForeChannel::offered();
    granted.*member = 0;
    const Result<> opened = channel.open(granted);
    return !opened && opened.error().recovery == Recovery::kPermanent;
  };
  EXPECT_TRUE(refused(&nfs4::channel_attrs4::ca_maxrequests));
  EXPECT_TRUE(refused(&nfs4::channel_attrs4::ca_maxrequestsize));
  EXPECT_TRUE(refused(&nfs4::channel_attrs4::ca_maxresponsesize));
  EXPECT_TRUE(refused(&nfs4::channel_attrs4::ca_maxoperations));
  EXPECT_EQ(channel.operations(), ForeChannel::offered().ca_maxoperations);
}

}  // namespace
}  // namespace nfsrdma::client::nfs4

// SPDX-License-Identifier: Apache-2.0
// Health and Backoff, with times given by the test.
#include "transport/rpc/health.h"

#include <gtest/gtest.h>

namespace nfsrdma::test {
namespace {

using rpc::Backoff;
using rpc::Health;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint at(int s) {
  return TimePoint(seconds(s));
}

Health::Outstanding calls_since(int issued, int queued) {
  return {at(issued), at(queued)};
}

TEST(Health, NothingOutstanding_NeverStallsNorChecksAgain) {
  Health h(seconds(60), 2);
  const auto v = h.check(at(100000), {});
  EXPECT_FALSE(v.stalled_now);
  EXPECT_FALSE(v.give_up);
  EXPECT_FALSE(v.next_check);
  EXPECT_TRUE(h.responding());
}

// nfs(5): "The time [...] the NFS client waits for a response before it retries an NFS request." A user gets
// a message after kSoon at the latest.
TEST(Health, CallOlderThanTimeo_StallsOnceUntilAReply) {
  Health h(seconds(10), 2);
  h.connected(at(1000));
  auto v = h.check(at(1009), calls_since(1000, 1000));
  EXPECT_FALSE(v.stalled_now);
  EXPECT_EQ(v.next_check, at(1010));
  v = h.check(at(1010), calls_since(1000, 1000));
  EXPECT_TRUE(v.stalled_now);
  EXPECT_EQ(v.quiet_since, at(1000));
  EXPECT_FALSE(h.responding());
  EXPECT_FALSE(h.check(at(1012), calls_since(1000, 1000)).stalled_now) << "once";
  EXPECT_FALSE(h.reply(at(1013))) << "nothing was said, so nothing is taken back";
  EXPECT_TRUE(h.responding());
}

TEST(Health, FifteenSecondsOfSilence_AreSaidWhateverTimeo) {
  Health h(seconds(60), 2);
  h.connected(at(1000));
  EXPECT_EQ(h.first_look(), seconds(15));
  auto v = h.check(at(1014), calls_since(1000, 1000));
  EXPECT_FALSE(v.stalled_now || v.say_soon || v.say_now);
  EXPECT_EQ(v.next_check, at(1015));
  v = h.check(at(1015), calls_since(1000, 1000));
  EXPECT_TRUE(v.stalled_now) << "status has it";
  EXPECT_TRUE(v.say_soon) << "and the log";
  EXPECT_FALSE(v.say_now) << "the kernel's client has its line at its time";
  EXPECT_FALSE(h.check(at(1075), calls_since(1000, 1000)).say_soon) << "said once";
  v = h.check(at(1180), calls_since(1000, 1000));
  EXPECT_TRUE(v.say_now);
  EXPECT_FALSE(v.say_soon);
  EXPECT_TRUE(h.reply(at(1190))) << "OK is due";
  EXPECT_FALSE(h.reply(at(1191))) << "and said once";
}

TEST(Health, FifteenSecondsOfSilence_AreTakenBackByTheNextReply) {
  Health h(seconds(60), 2);
  h.check(at(1015), calls_since(1000, 1000));
  EXPECT_TRUE(h.reply(at(1020)));
  EXPECT_TRUE(h.responding());
}

// If timeo * (retrans + 1) is below kSoon, there is only one line.
TEST(Health, ShortTimeo_IsSaidAtItsTimeOnly) {
  Health h(seconds(1), 1);
  EXPECT_TRUE(h.check(at(1002), calls_since(1000, 1000)).say_now);
  EXPECT_FALSE(h.check(at(1015), calls_since(1000, 1000)).say_soon);
}

// A large WRITE over a slow link: a server that accepts data is there.
TEST(Health, CallThatIsStillLeaving_IsNoSilence) {
  Health h(seconds(60), 2);
  h.connected(at(1000));
  for (int now = 1005; now <= 1300; now += 5) {
    h.bytes(at(now));
    const auto v = h.check(at(now), calls_since(1000, 1000));
    EXPECT_FALSE(v.stalled_now || v.say_soon || v.say_now) << now;
    EXPECT_TRUE(h.responding());
  }
  const auto v = h.check(at(1315), calls_since(1000, 1000));
  EXPECT_TRUE(v.stalled_now);
  EXPECT_EQ(v.quiet_since, at(1300)) << "a soft mount waits from then on";
}

// Otherwise every server whose port accepts connections would count as responding.
TEST(Health, NewConnections_DoNotBreakASilence) {
  Health h(seconds(60), 2);
  for (int now = 1000; now < 1015; now += 5) h.connected(at(now));
  EXPECT_TRUE(h.check(at(1015), calls_since(1000, 1000)).say_soon);
}

// nfs(5), retrans: 'The NFS client generates a "server not responding" message after retrans retries'.
TEST(Health, CallOlderThanTimeoTimesRetransPlusOne_IsSaidOnceUntilAReply) {
  Health h(seconds(60), 2);
  h.connected(at(1000));
  auto v = h.check(at(1170), calls_since(1000, 1000));
  EXPECT_TRUE(v.stalled_now);
  EXPECT_FALSE(v.say_now);
  EXPECT_EQ(v.next_check, at(1180));
  EXPECT_TRUE(h.check(at(1180), calls_since(1000, 1000)).say_now);
  EXPECT_FALSE(h.check(at(1240), calls_since(1000, 1000)).say_now) << "said once";
  EXPECT_TRUE(h.reply(at(1250))) << "OK is due";
  EXPECT_FALSE(h.reply(at(1251))) << "and said once";
}

TEST(Health, OneSlowCallAmongAnsweredOnes_DoesNotStall) {
  Health h(seconds(60), 2);
  h.reply(at(1990));
  const auto v = h.check(at(2000), calls_since(1000, 1000));
  EXPECT_FALSE(v.stalled_now);
  EXPECT_EQ(v.next_check, at(2005));
}

// One reply never came, while others did. The server must not leave a request unanswered on a connection that
// stays up (RFC 8881 section 2.9.2); but a damaged request or reply is possible.
TEST(Health, CallsMadeMuchLaterAreAnswered_GivesUp) {
  Health h(seconds(60), 2);
  h.connected(at(1000));
  const auto check = [&h](int now) {
    h.bytes(at(now));
    h.reply(at(now));
    Health::Outstanding o = calls_since(1000, 1000);
    o.oldest_sent = 7;
    return h.check(at(now), o).give_up != nullptr;
  };
  EXPECT_FALSE(check(1060)) << "sent by now";
  h.answered(at(1239));
  EXPECT_FALSE(check(1240));
  h.answered(at(1240));
  EXPECT_TRUE(check(1241));
  h.connected(at(1242));
  EXPECT_FALSE(check(1243)) << "sent again: counted anew";
  h.answered(at(1242));
  EXPECT_FALSE(check(1500)) << "slow as the others";
}

TEST(Health, SilenceForTimeoTimesRetransPlusOne_GivesUp) {
  Health h(seconds(60), 2);
  h.connected(at(1000));
  EXPECT_FALSE(h.check(at(1179), calls_since(1000, 1000)).give_up);
  EXPECT_EQ(h.check(at(1179), calls_since(1000, 1000)).next_check, at(1180));
  EXPECT_TRUE(h.check(at(1180), calls_since(1000, 1000)).give_up);
}

TEST(Health, BytesOfAnyKind_PutOffGivingUp) {
  Health h(seconds(60), 2);
  h.connected(at(1000));
  h.bytes(at(1179));
  EXPECT_FALSE(h.check(at(1358), calls_since(1000, 1000)).give_up);
  EXPECT_TRUE(h.check(at(1359), calls_since(1000, 1000)).give_up);
}

TEST(Health, CallGivenToALongIdleConnection_StartsTheSilenceThen) {
  Health h(seconds(60), 2);
  h.connected(at(0));
  EXPECT_FALSE(h.check(at(100'100), calls_since(100'000, 100'000)).give_up);
}

TEST(Health, StrayReplyAndACallWithoutAnswer_GivesUpAfterTimeoThoughOthersAreAnswered) {
  Health h(seconds(60), 2);
  h.connected(at(0));
  h.stray_reply(at(10));
  for (int t = 20; t < 60; t += 10) {
    h.bytes(at(t));
    h.reply(at(t));
  }
  const auto before = h.check(at(59), calls_since(5, 5));
  EXPECT_FALSE(before.give_up);
  EXPECT_EQ(before.next_check, at(65));
  EXPECT_TRUE(h.check(at(65), calls_since(5, 5)).give_up);
  EXPECT_FALSE(h.check(at(80), calls_since(11, 11)).give_up)
      << "calls made after it are none of its business";
  h.connected(at(70));
  EXPECT_FALSE(h.check(at(80), calls_since(5, 5)).give_up) << "nor is another connection";
}

TEST(Health, NoConnection_StallsButThereIsNothingToGiveUp) {
  Health h(seconds(60), 0);
  const auto v = h.check(at(5000), {at(1000), std::nullopt});
  EXPECT_TRUE(v.stalled_now);
  EXPECT_FALSE(v.give_up);
}

TEST(Health, AbsurdOptions_NeverOverflow) {
  Health h(std::chrono::hours(1'000'000), 4'000'000'000u);
  h.connected(at(1000));
  const auto v = h.check(at(2000), calls_since(1000, 1000));
  EXPECT_FALSE(v.give_up);
  EXPECT_GT(v.next_check, at(2000));
  Health many(seconds(60), 4'000'000'000u);
  EXPECT_FALSE(many.check(at(100'000), calls_since(1000, 1000)).give_up);
}

TEST(Backoff, FailedAttempts_DoubleUpToTheMaximum) {
  Backoff b(milliseconds(100), milliseconds(1000));
  std::vector<Duration> delays;
  for (int i = 0; i < 6; ++i) delays.push_back(b.failed());
  EXPECT_EQ(delays, (std::vector<Duration>{milliseconds(100), milliseconds(200), milliseconds(400),
                                           milliseconds(800), milliseconds(1000), milliseconds(1000)}));
}

TEST(Backoff, ConnectionHeldForAGoodPeriod_AtOnceAndFromTheStart) {
  Backoff b(milliseconds(100), milliseconds(1000));
  b.failed();
  b.failed();
  EXPECT_EQ(b.lost(Backoff::kGoodPeriod, false), Duration::zero());
  EXPECT_EQ(b.failed(), milliseconds(100));
}

TEST(Backoff, ShortConnectionThatAnswered_FromTheStartButNotAtOnce) {
  Backoff b(milliseconds(100), milliseconds(1000));
  for (int i = 0; i < 5; ++i) b.failed();
  EXPECT_EQ(b.lost(milliseconds(10), true), milliseconds(100));
  EXPECT_EQ(b.lost(milliseconds(10), true), milliseconds(100)) << "progress: no doubling";
}

TEST(Backoff, ShortConnectionsWithoutAnswers_DoubleAsFailuresDo) {
  Backoff b(milliseconds(100), milliseconds(1000));
  EXPECT_EQ(b.lost(milliseconds(10), false), milliseconds(100));
  EXPECT_EQ(b.lost(milliseconds(10), false), milliseconds(200));
  EXPECT_EQ(b.failed(), milliseconds(400));
}

}  // namespace
}  // namespace nfsrdma::test

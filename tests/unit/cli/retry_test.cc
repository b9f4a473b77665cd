// SPDX-License-Identifier: Apache-2.0
#include "cli/server/retry.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;
using Time = RetryPolicy::Clock::time_point;

MountOptions with_retry(std::optional<std::chrono::minutes> retry, bool background = false) {
  MountOptions options;
  options.retry = retry;
  options.background = background;
  return options;
}

Error error(Recovery recovery, const char* op = "connect") {
  return {.layer = Layer::kTransport, .recovery = recovery, .errnum = ECONNREFUSED, .op = op, .cause = ""};
}

// nfs(5): "The number of minutes that the mount(8) command retries ... default value for foreground mounts is
// 2 minutes, and the default value for background mounts is 10000 minutes".
TEST(RetryPolicy, Deadline_IsThatOfNfs5) {
  EXPECT_EQ(RetryPolicy(with_retry({}), Time()).deadline() - Time(), 2min);
  EXPECT_EQ(RetryPolicy(with_retry({}, true), Time()).deadline() - Time(), 10'000min);
  EXPECT_EQ(RetryPolicy(with_retry(7min), Time()).deadline() - Time(), 7min);
}

TEST(RetryPolicy, PassingFailure_IsTriedAgainWithGrowingPauses) {
  RetryPolicy policy(with_retry({}), Time());
  Time now{};
  std::vector<std::chrono::milliseconds> pauses;
  while (const auto wait = policy.after_failure(error(Recovery::kReconnect), now)) {
    pauses.push_back(*wait);
    now += *wait;
    ASSERT_LT(pauses.size(), 100u);
  }
  EXPECT_EQ(pauses, (std::vector<std::chrono::milliseconds>{1s, 2s, 4s, 8s, 16s, 30s, 30s, 29s}));
  EXPECT_EQ(now - Time(), 2min);
}

// nfs(5): "If a value of zero is specified, the mount(8) command exits immediately after the first failure."
TEST(RetryPolicy, RetryZero_IsOneAttempt) {
  RetryPolicy policy(with_retry(0min), Time());
  EXPECT_FALSE(policy.after_failure(error(Recovery::kReconnect), Time()));
  EXPECT_EQ(policy.deadline() - Time(), 180s);
  MountOptions quick = with_retry(0min);
  quick.timeo = 100ms;
  quick.retrans = 0;
  EXPECT_EQ(RetryPolicy(quick, Time()).deadline() - Time(), 30s);
}

TEST(RetryPolicy, PortMapperThatDoesNotKnowOfNfsYet_IsAskedAgainForVersion3) {
  const Error not_yet = error(Recovery::kPermanent, "portmap");
  MountOptions options = with_retry({});
  EXPECT_FALSE(RetryPolicy(options, Time()).is_passing(not_yet)) << "version 4 has answered before it";
  options.major_version = 3;
  EXPECT_TRUE(RetryPolicy(options, Time()).is_passing(not_yet));
  EXPECT_FALSE(RetryPolicy(options, Time()).is_passing(error(Recovery::kPermanent, "MNT")));
}

TEST(RetryPolicy, Answer_IsFinal) {
  RetryPolicy policy(with_retry({}), Time());
  EXPECT_FALSE(policy.after_failure(error(Recovery::kPermanent, "EXCHANGE_ID"), Time()));
  EXPECT_FALSE(policy.after_failure(error(Recovery::kInterrupted), Time()));
  for (const Recovery passing : {Recovery::kRetry, Recovery::kWait, Recovery::kReconnect,
                                 Recovery::kNewSession, Recovery::kRecoverState}) {
    EXPECT_TRUE(policy.is_passing(error(passing)));
  }
}

TEST(RetryPolicy, UnknownHost_PassesInTheBackgroundOnly) {
  const Error unknown = error(Recovery::kPermanent, "resolve");
  EXPECT_FALSE(RetryPolicy(with_retry({}), Time()).is_passing(unknown));
  EXPECT_TRUE(RetryPolicy(with_retry({}, true), Time()).is_passing(unknown));
  EXPECT_FALSE(RetryPolicy(with_retry({}, true), Time()).is_passing(error(Recovery::kPermanent, "LOOKUP")));
}

TEST(RetryPolicy, LargestValues_DoNotOverflow) {
  MountOptions options = with_retry(std::chrono::minutes(100ll * 365 * 24 * 60));
  EXPECT_GT(RetryPolicy(options, RetryPolicy::Clock::now()).deadline(), RetryPolicy::Clock::now());
  options = with_retry(0min);
  options.timeo = 600s;
  options.retrans = 10'000;
  EXPECT_GT(RetryPolicy(options, RetryPolicy::Clock::now()).deadline(), RetryPolicy::Clock::now());
}

TEST(LongestWait, IsMoreThanTheChildNeeds) {
  EXPECT_GT(longest_wait(with_retry({})), 2min);
  EXPECT_LT(longest_wait(with_retry({})), 3min);
  EXPECT_GT(longest_wait(with_retry(0min)), 180s);
  // bg: only the first attempt.
  EXPECT_LT(longest_wait(with_retry({}, true)), 5min);
}

}  // namespace
}  // namespace nfsrdma::cli

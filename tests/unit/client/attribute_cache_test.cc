// SPDX-License-Identifier: Apache-2.0
// nfs(5): "acregmin=n: The minimum time (in seconds) that the NFS client caches attributes of a regular file
// before it requests fresh attribute information from a server." The timeout doubles up to acregmax while
// nothing changes.
#include "client/core/attributes/attribute_cache.h"

#include <gtest/gtest.h>

#include "tests/unit/client/support/constants.h"

namespace nfsrdma::test {
namespace {

using namespace std::chrono_literals;
using client::AttributeCache;
using client::Attributes;
using Update = AttributeCache::Update;

constexpr AttributeCache::Limits kRegular{3s, 60s};

Attributes version(uint64_t change, uint64_t size = 0) {
  Attributes a;
  a.change = change;
  a.size = size;
  return a;
}

// The reply to a request that overlapped no other.
Update answer(AttributeCache& cache, const Attributes& a, uint64_t request, TimePoint now,
              AttributeCache::Limits limits) {
  return cache.update(a, request, request, now, limits);
}

TEST(AttributeCache, Empty_KnowsNothing) {
  AttributeCache cache;
  EXPECT_FALSE(cache.known());
  EXPECT_FALSE(cache.fresh(kStart));
  EXPECT_EQ(cache.remaining(kStart), 0s);
}

TEST(AttributeCache, FirstAnswer_LastsTheMinimum) {
  AttributeCache cache;
  EXPECT_EQ(answer(cache, version(1, 77), 1, kStart, kRegular), Update::kFirst);
  EXPECT_TRUE(cache.fresh(kStart));
  EXPECT_EQ(cache.remaining(kStart), 3s);
  EXPECT_TRUE(cache.fresh(kStart + 3s - 1ns));
  EXPECT_FALSE(cache.fresh(kStart + 3s));
  EXPECT_TRUE(cache.known());
  EXPECT_EQ(cache.get().size, 77u);
}

TEST(AttributeCache, ConfirmedEachTimeItExpires_DoublesUpToTheMaximum) {
  AttributeCache cache;
  TimePoint now = kStart;
  uint64_t request = 1;
  answer(cache, version(1), request++, now, kRegular);
  for (const auto expected : {6s, 12s, 24s, 48s, 60s, 60s}) {
    now += cache.remaining(now);
    EXPECT_EQ(answer(cache, version(1), request++, now, kRegular), Update::kUnchanged);
    EXPECT_EQ(cache.remaining(now), expected);
  }
}

TEST(AttributeCache, ConfirmedBeforeItExpires_LastsAsLongAgainAndNoLonger) {
  AttributeCache cache;
  answer(cache, version(1), 1, kStart, kRegular);
  EXPECT_EQ(answer(cache, version(1), 2, kStart + 1s, kRegular), Update::kUnchanged);
  EXPECT_EQ(cache.remaining(kStart + 1s), 3s);
}

TEST(AttributeCache, Change_FallsBackToTheMinimum) {
  AttributeCache cache;
  TimePoint now = kStart;
  answer(cache, version(1), 1, now, kRegular);
  now += 10s;
  answer(cache, version(1), 2, now, kRegular);
  ASSERT_EQ(cache.remaining(now), 6s);
  EXPECT_EQ(answer(cache, version(2), 3, now + 1s, kRegular), Update::kChanged);
  EXPECT_EQ(cache.remaining(now + 1s), 3s);
}

// RFC 8881 section 5.8.1.4: a client may not rely on an order of change attributes between unordered replies.
// In the reply to a younger request, a smaller value is simply another value.
TEST(AttributeCache, SmallerChangeOfAYoungerRequest_IsAChange) {
  AttributeCache cache;
  answer(cache, version(100), 1, kStart, kRegular);
  EXPECT_EQ(answer(cache, version(5), 2, kStart, kRegular), Update::kChanged);
  EXPECT_EQ(cache.get().change, 5u);
}

TEST(AttributeCache, AnswerFromThePast_IsIgnored) {
  AttributeCache cache;
  answer(cache, version(7, 700), 10, kStart, kRegular);
  EXPECT_EQ(answer(cache, version(7, 700), 9, kStart + 1s, kRegular), Update::kIgnored);
  EXPECT_EQ(cache.remaining(kStart + 1s), 2s);
  EXPECT_EQ(answer(cache, version(6, 600), 9, kStart + 1s, kRegular), Update::kIgnored);
  EXPECT_EQ(cache.get().size, 700u);
  EXPECT_FALSE(cache.fresh(kStart + 1s)) << "where change attributes do not grow it is the newer one";
}

TEST(AttributeCache, AnswerToAnOlderRequestThatIsAhead_IsTaken) {
  AttributeCache cache;
  answer(cache, version(7, 700), 10, kStart, kRegular);
  EXPECT_EQ(answer(cache, version(8, 800), 9, kStart, kRegular), Update::kChanged);
  EXPECT_EQ(cache.get().size, 800u);
  EXPECT_FALSE(cache.fresh(kStart)) << "where change attributes do not grow it is the older one";
  // Request 9 is older than request 10, so its reply is still ignored.
  EXPECT_EQ(answer(cache, version(8, 1), 9, kStart, kRegular), Update::kIgnored);
}

// Two WRITEs: the server executed the second one first, and its reply came last. That reply lacks what the
// first WRITE wrote.
TEST(AttributeCache, YoungerRequestExecutedFirst_DoesNotBringItsOlderAttributesBack) {
  AttributeCache cache;
  cache.update(version(5, 0), 1, 2, kStart, kRegular);
  EXPECT_EQ(cache.update(version(7, 200), 3, 5, kStart, kRegular), Update::kChanged);
  EXPECT_EQ(cache.update(version(6, 100), 4, 6, kStart, kRegular), Update::kIgnored);
  EXPECT_EQ(cache.get().size, 200u);
  EXPECT_FALSE(cache.fresh(kStart)) << "if change attributes do not grow there, it was the other way round";
  EXPECT_EQ(cache.update(version(6, 100), 7, 8, kStart, kRegular), Update::kChanged);
  EXPECT_EQ(cache.get().size, 100u);
}

// nfs-ganesha's change attribute is a ctime, and the kernel updates ctimes in ticks of 4 ms.
TEST(AttributeCache, OneChangeForTwoWrites_KeepsTheLargerSizeAndAsksAgain) {
  AttributeCache cache;
  cache.update(version(5, 0), 1, 2, kStart, kRegular);
  EXPECT_EQ(cache.update(version(7, 100), 3, 5, kStart, kRegular), Update::kChanged);
  EXPECT_EQ(cache.update(version(7, 200), 4, 6, kStart, kRegular), Update::kIgnored);
  EXPECT_EQ(cache.get().size, 200u);
  EXPECT_FALSE(cache.fresh(kStart));
}

// Within one tick: either a truncation whose reply came last, or a reply from before the file grew.
TEST(AttributeCache, OneChangeAndASmallerSize_IsDoubtful) {
  AttributeCache cache;
  cache.update(version(7, 100), 1, 2, kStart, kRegular);
  cache.update(version(7, 100), 4, 5, kStart, kRegular);
  EXPECT_FALSE(cache.doubtful());
  EXPECT_EQ(cache.update(version(7, 10), 3, 6, kStart, kRegular), Update::kIgnored);
  EXPECT_TRUE(cache.doubtful());
  EXPECT_EQ(cache.update(version(7, 10), 7, 8, kStart, kRegular), Update::kUnchanged);
  EXPECT_EQ(cache.get().size, 10u);
  EXPECT_FALSE(cache.doubtful());
}

// A WRITE made the file longer. A GETATTR that the server executed before it, and that is answered after it,
// is not used. This also holds if the WRITE's reply brought only a new size, or was itself ignored.
TEST(AttributeCache, AnsweredBehindAWriteThatItDidNotSee_IsNotBelieved) {
  for (const uint64_t change_of_write : {7u, 6u}) {
    AttributeCache cache;
    cache.update(version(7, 100), 1, 2, kStart, kRegular);
    const uint64_t write = 3;
    cache.update(version(7, 100), 4, 5, kStart, kRegular);
    const uint64_t question = 6;
    EXPECT_EQ(cache.update(version(change_of_write, 200), write, 7, kStart, kRegular), Update::kIgnored);
    cache.update(version(7, 100), question, 8, kStart, kRegular);
    EXPECT_TRUE(cache.doubtful()) << change_of_write;
    EXPECT_FALSE(cache.fresh(kStart));
  }
}

TEST(AttributeCache, Expire_KeepsTheValuesButTrustsThemNoMore) {
  AttributeCache cache;
  answer(cache, version(1, 77), 1, kStart, kRegular);
  cache.expire(2);
  EXPECT_TRUE(cache.known());
  EXPECT_FALSE(cache.fresh(kStart));
  EXPECT_EQ(cache.get().size, 77u);
}

// The server executed a WRITE before the REMOVE of the file's other name, and its reply came later: it says 2
// links.
TEST(AttributeCache, AskedForBeforeItExpired_IsNotBelievedWhenItIsAnswered) {
  AttributeCache cache;
  cache.update(version(5), 1, 2, kStart, kRegular);
  cache.expire(4);
  EXPECT_EQ(cache.update(version(6), 3, 5, kStart, kRegular), Update::kChanged);
  EXPECT_FALSE(cache.fresh(kStart));
  EXPECT_EQ(cache.update(version(7), 6, 7, kStart, kRegular), Update::kChanged);
  EXPECT_TRUE(cache.fresh(kStart));
}

// noac, actimeo=0.
TEST(AttributeCache, NoLifetime_IsNeverFresh) {
  AttributeCache cache;
  for (uint64_t request = 1; request < 5; ++request) {
    answer(cache, version(1), request, kStart, {});
    EXPECT_FALSE(cache.fresh(kStart));
    EXPECT_FALSE(cache.doubtful());
  }
}

// actimeo=n sets minimum and maximum to one value.
TEST(AttributeCache, EqualLimits_NeverDouble) {
  AttributeCache cache;
  TimePoint now = kStart;
  for (uint64_t request = 1; request < 5; ++request, now += 5s) {
    answer(cache, version(1), request, now, {5s, 5s});
    EXPECT_EQ(cache.remaining(now), 5s);
  }
}

TEST(AttributeCache, MaximumBelowTheMinimum_DoesNotExceedTheMaximumWhenDoubled) {
  AttributeCache cache;
  answer(cache, version(1), 1, kStart, {10s, 4s});
  answer(cache, version(1), 2, kStart + 10s, {10s, 4s});
  EXPECT_EQ(cache.remaining(kStart + 10s), 4s);
}

// RFC 8881 section 10.4: under a delegation the attributes do not "change without its knowledge, so long as
// the delegation is held".
TEST(AttributeCache, Promised_OutlivesTheClock) {
  AttributeCache cache;
  cache.promise(60s);
  EXPECT_FALSE(cache.fresh(kStart)) << "nothing is known yet";
  answer(cache, version(1), 1, kStart, kRegular);
  EXPECT_TRUE(cache.fresh(kStart + 10h));
  EXPECT_EQ(cache.remaining(kStart + 10h), 60s);
  cache.promise({});
  EXPECT_FALSE(cache.fresh(kStart + 10h));
  EXPECT_EQ(cache.remaining(kStart + 10h), 0s);
}

// Our own change makes the client fetch the attributes, also under a promise.
TEST(AttributeCache, ExpiredUnderAPromise_IsAskedForAgain) {
  AttributeCache cache;
  cache.promise(60s);
  answer(cache, version(1), 1, kStart, kRegular);
  cache.expire(5);
  EXPECT_FALSE(cache.fresh(kStart));
  answer(cache, version(2), 4, kStart, kRegular);
  EXPECT_FALSE(cache.fresh(kStart)) << "asked for before that change";
  answer(cache, version(2), 6, kStart, kRegular);
  EXPECT_TRUE(cache.fresh(kStart + 10h));
}

}  // namespace
}  // namespace nfsrdma::test

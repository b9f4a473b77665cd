// SPDX-License-Identifier: Apache-2.0
// The cache of ACCESS answers, by user (RFC 8881 section 18.1).
#include "client/core/access/access_cache.h"

#include <gtest/gtest.h>

#include "tests/unit/client/support/constants.h"

namespace nfsrdma::test {
namespace {

using namespace std::chrono_literals;
using client::AccessCache;

rpc::CredentialPtr user(uint32_t uid) {
  return std::make_shared<const rpc::Credential>("host", uid, uid, std::vector<uint32_t>{});
}

TEST(AccessCache, Empty_KnowsNobody) {
  EXPECT_FALSE(AccessCache().find(*user(1), 7, true, kStart));
}

TEST(AccessCache, AnAnswer_HoldsForItsUserChangeAndTime) {
  AccessCache cache;
  cache.note(user(1), 0x3f, {7, kStart + 3s});
  EXPECT_EQ(cache.find(*user(1), 7, false, kStart), 0x3fu);
  EXPECT_FALSE(cache.find(*user(2), 7, false, kStart));
  EXPECT_FALSE(cache.find(*user(1), 8, false, kStart));
  EXPECT_FALSE(cache.find(*user(1), 7, false, kStart + 3s));
  EXPECT_EQ(cache.find(*user(1), 7, true, kStart + 1h), 0x3fu) << "a promise outlives the clock";
  EXPECT_FALSE(cache.find(*user(1), 8, true, kStart)) << "not a change";
}

TEST(AccessCache, UsersWhoTakeTurns_AreBothRemembered) {
  AccessCache cache;
  cache.note(user(1), 1, {7, kStart + 3s});
  cache.note(user(2), 2, {7, kStart + 3s});
  EXPECT_EQ(cache.find(*user(1), 7, false, kStart), 1u);
  EXPECT_EQ(cache.find(*user(2), 7, false, kStart), 2u);
  cache.note(user(1), 0, {7, kStart + 3s});
  EXPECT_EQ(cache.find(*user(1), 7, false, kStart), 0u) << "the latest answer is the one";
}

TEST(AccessCache, TheLatestUsers_AreRemembered) {
  AccessCache cache;
  for (uint32_t uid = 0; uid <= AccessCache::kMost; ++uid) cache.note(user(uid), uid, {7, kStart + 3s});
  EXPECT_FALSE(cache.find(*user(0), 7, false, kStart));
  for (uint32_t uid = 1; uid <= AccessCache::kMost; ++uid)
    EXPECT_EQ(cache.find(*user(uid), 7, false, kStart), uid);
}

TEST(AccessCache, Moved_TakesAlongWhatWasOfThatChange) {
  AccessCache cache;
  cache.note(user(1), 1, {6, kStart + 3s});
  cache.note(user(2), 2, {7, kStart + 3s});
  cache.moved(7, 8);
  EXPECT_FALSE(cache.find(*user(1), 8, false, kStart));
  EXPECT_EQ(cache.find(*user(2), 8, false, kStart), 2u);
}

TEST(AccessCache, Everybody_IsNoUser) {
  AccessCache cache;
  EXPECT_EQ(cache.everybody_searches(7, kStart), std::nullopt);
  cache.note_everybody(true, {7, kStart + 3s});
  for (uint32_t uid = 0; uid <= AccessCache::kMost; ++uid) cache.note(user(uid), 0, {7, kStart + 3s});
  EXPECT_EQ(cache.everybody_searches(7, kStart), true) << "users do not take its place";
  EXPECT_EQ(cache.everybody_searches(8, kStart), std::nullopt);
  EXPECT_EQ(cache.everybody_searches(7, kStart + 3s), std::nullopt);
  EXPECT_FALSE(cache.find(*user(AccessCache::kMost + 1), 7, false, kStart));
  cache.moved(7, 8);
  EXPECT_EQ(cache.everybody_searches(8, kStart), true);
  cache.note_everybody(false, {8, kStart + 3s});
  EXPECT_EQ(cache.everybody_searches(8, kStart), false);
}

}  // namespace
}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// name_decision.h and keep_decision.h: each row of their tables.
#include "client/core/names/name_decision.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "client/core/read/keep_decision.h"
#include "tests/unit/client/support/constants.h"

namespace nfsrdma::test {
namespace {

using client::ContentState;
using client::DirectoryKnowledge;
using client::Keep;
using client::LookupCache;
using client::NameBelief;
using client::NamesState;
using client::ReadForKeeping;

constexpr Duration kAcdirmax = std::chrono::seconds(60), kRemaining = std::chrono::seconds(30);
const TimePoint kDecided = TimePoint{} + std::chrono::hours(1);

// RFC 8881 section 10.8.1: "If the comparison indicates that the directory was updated by another client, the
// name cache associated with the modified directory is purged from the client."
TEST(NameDecision, ChangeAttributeBeforeOurs_OfAnotherClient_EndsTheEpoch) {
  for (const bool known : kBooleans)
    for (const bool atomic : kBooleans)
      for (const bool uncertain : kBooleans) {
        ContentState contents;
        contents.known = known;
        contents.change = known ? 5 : 6;
        NamesState names;
        names.uncertain = uncertain;
        const uint64_t epoch = names.epoch;
        EXPECT_FALSE(client::follow_own_change(contents, names, 6, 7, atomic));
        EXPECT_FALSE(contents.known);
        EXPECT_FALSE(names.uncertain);
        EXPECT_NE(names.epoch, epoch);
      }
}

// "When these are equal, the client is assured that no other client is modifying the directory in question."
// And: "When the information is not atomically reported, the client should not assume that other clients have
// not changed the directory."
TEST(NameDecision, ChangeAttributeBeforeOurs_ThatIsKnown_IsFollowed) {
  for (const bool atomic : kBooleans)
    for (const bool uncertain : kBooleans) {
      ContentState contents;
      contents.set(6);
      NamesState names;
      names.uncertain = uncertain;
      const uint64_t epoch = names.epoch;
      EXPECT_TRUE(client::follow_own_change(contents, names, 6, 7, atomic));
      EXPECT_TRUE(contents.are_of(7));
      EXPECT_EQ(names.uncertain, uncertain || !atomic);
      EXPECT_EQ(names.epoch, epoch);
    }
}

// Section 10.8.1: "an upper time boundary is maintained for how long a client name cache entry can be kept
// without verifying that the entry has not been made invalid by a directory change operation performed by
// another client."
TEST(NameDecision, Names_AreBelievedAsLongAsTheirDirectory) {
  NameBelief young, old;
  young.since = kDecided - kAcdirmax / 3;
  old.since = kDecided - kAcdirmax;
  for (const bool holds : kBooleans)
    for (const bool uncertain : kBooleans)
      for (const Duration remaining : {Duration::zero(), kRemaining}) {
        const DirectoryKnowledge d{.holds = holds, .uncertain = uncertain, .remaining = remaining};
        const bool directory = holds && remaining != Duration::zero();
        EXPECT_EQ(client::believes(d, young, kDecided, kAcdirmax), directory);
        EXPECT_EQ(client::believes(d, old, kDecided, kAcdirmax), directory && !uncertain);
        for (const bool free : kBooleans)
          for (const LookupCache cache : {LookupCache::kNone, LookupCache::kPositive, LookupCache::kAll}) {
            const bool cached = holds && free && cache != LookupCache::kNone;
            EXPECT_EQ(client::name_ttl(d, young, kDecided, kAcdirmax, cache, free),
                      cached ? remaining : Duration::zero());
            EXPECT_EQ(client::name_ttl(d, old, kDecided, kAcdirmax, cache, free),
                      cached && !uncertain ? remaining : Duration::zero());
          }
      }
}

TEST(NameDecision, UncertainNames_AreGivenToTheKernelForTheRestOfAcdirmax) {
  NameBelief belief;
  belief.since = kDecided - kAcdirmax + std::chrono::seconds(10);
  const DirectoryKnowledge d{.holds = true, .uncertain = true, .remaining = kRemaining};
  EXPECT_EQ(client::name_ttl(d, belief, kDecided, kAcdirmax, LookupCache::kAll, true),
            std::chrono::seconds(10));
}

TEST(NameDecision, ErrorsThatContradictTheNames_LeaveDoubt) {
  for (const int e : {EEXIST, ENOENT, ENOTEMPTY})
    EXPECT_TRUE(client::leaves_doubt(system_error(e, "REMOVE"), false));
  for (const int e : {EACCES, EROFS, ENOSPC, EIO}) {
    EXPECT_FALSE(client::leaves_doubt(system_error(e, "REMOVE"), false));
    EXPECT_TRUE(client::leaves_doubt(system_error(e, "REMOVE"), true));
  }
}

TEST(KeepDecision, EveryCombination_IsTheFirstRowThatFits) {
  for (unsigned bits = 0; bits < 32; ++bits) {
    const ReadForKeeping r{.answered = (bits & 1) != 0,
                           .pages_are_of = (bits & 2) != 0,
                           .same_change = (bits & 4) != 0,
                           .same_epoch = (bits & 8) != 0,
                           .writing = (bits & 16) != 0};
    const bool first = r.answered && r.pages_are_of && r.same_change && r.same_epoch;
    const bool second = r.answered && r.pages_are_of && !r.same_change && !r.writing;
    EXPECT_EQ(client::keep(r), first ? Keep::kKeep : second ? Keep::kFileChanged : Keep::kForget) << bits;
  }
}

}  // namespace
}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// When a READDIR is worthwhile for a directory whose files are accessed one after the other.
#include "client/core/names/sweeps.h"

#include <gtest/gtest.h>

#include "client/nfs4/state/node.h"

namespace nfsrdma::test {
namespace {

using namespace std::chrono_literals;
using client::NodeRef;
using client::Sweep;
using client::SweepRef;

class SweepsTest : public testing::Test {
 protected:
  NodeRef node(unsigned n) {
    return table.get(nfs4::nfs_fh4(as_const_bytes("node " + std::to_string(n))), 0);
  }
  SweepRef asked(const NodeRef& of, unsigned times = 1, TimePoint now = TimePoint(1h)) {
    SweepRef last;
    for (unsigned i = 0; i < times; ++i) last = sweeps.asked(*of.get(), now, 3s);
    return last;
  }
  static std::vector<client::ListedEntry> entries(unsigned n, const std::string& prefix = "f") {
    std::vector<client::ListedEntry> all(n);
    for (unsigned i = 0; i < n; ++i) {
      all[i].name = prefix + std::to_string(i);
      all[i].fh.assign(as_const_bytes(all[i].name));
    }
    return all;
  }

  client::nfs4::NodeTable table;
  client::Sweeps& sweeps = table.sweeps();
  const NodeRef directory = node(0);
};

TEST_F(SweepsTest, ThirdQuestion_IsWorthAReaddir) {
  EXPECT_FALSE(asked(directory)->worth_reading());
  EXPECT_FALSE(asked(directory)->worth_reading());
  const SweepRef sweep = asked(directory);
  EXPECT_TRUE(sweep->worth_reading());
  EXPECT_EQ(sweep->next(), 0u);
  EXPECT_EQ(sweep->reply_bytes(), Sweep::kFirstBytes);
}

TEST_F(SweepsTest, WhoWasRefused_ReadsNoMoreOfThem_AndTheOthersDo) {
  const SweepRef sweep = asked(directory, 3);
  sweep->refuse(1000);
  EXPECT_FALSE(sweep->worth_reading(1000));
  EXPECT_TRUE(sweep->worth_reading(1001));
  EXPECT_TRUE(sweep->worth_reading());
  for (uint32_t uid = 2000; uid < 2000 + Sweep::kMostRefused; ++uid) sweep->refuse(uid);
  EXPECT_FALSE(sweep->worth_reading(1001)) << "hardly anybody may read it";
}

TEST_F(SweepsTest, SoManyEntries_AreWorthAQuestion) {
  const SweepRef sweep = asked(directory, 3);
  sweep->read_on(77, {}, false, 5 * Sweep::kEach);
  EXPECT_FALSE(asked(directory, 6)->worth_reading());
  EXPECT_TRUE(asked(directory)->worth_reading());
  EXPECT_EQ(sweep->next(), 77u);
}

TEST_F(SweepsTest, Answers_GrowToTheLongest) {
  const SweepRef sweep = asked(directory, 3);
  std::vector<uint32_t> kilobytes;
  for (uint64_t i = 1; i <= 6; ++i) {
    kilobytes.push_back(sweep->reply_bytes() >> 10);
    sweep->read_on(i, {}, i == 6, 10);
  }
  EXPECT_EQ(kilobytes, (std::vector<uint32_t>{8, 16, 32, 64, 128, 128}));
  EXPECT_EQ(sweep->next(), 0u) << "behind the end is the beginning";
  EXPECT_EQ(sweep->reply_bytes(), Sweep::kFirstBytes);
}

TEST_F(SweepsTest, WhatWasOfUse_DoesNotPayForWhatIsNotWithoutEnd) {
  const SweepRef sweep = asked(directory, 1000);
  sweep->read_on(1, {}, false, 100);
  EXPECT_TRUE(sweep->worth_reading());
  sweep->read_on(2, {}, false, 200);
  EXPECT_FALSE(sweep->worth_reading());
}

TEST_F(SweepsTest, LaterQuestions_BeginAnew) {
  const SweepRef sweep = asked(directory, 3);
  sweeps.keep(*directory.get(), entries(5), {});
  EXPECT_EQ(sweeps.find(*directory.get(), TimePoint(1h + 3s), 3s), sweep);
  EXPECT_FALSE(sweeps.find(*directory.get(), TimePoint(1h + 4s), 3s));
  const SweepRef next = asked(directory, 1, TimePoint(1h + 4s));
  EXPECT_NE(next, sweep);
  EXPECT_FALSE(next->worth_reading());
  EXPECT_EQ(sweeps.waiting(), 0u);
}

TEST_F(SweepsTest, QuestionsThatGoOn_AreOneSweep) {
  const SweepRef sweep = asked(directory, 3);
  for (int s = 2; s <= 20; s += 2) EXPECT_EQ(asked(directory, 1, TimePoint(1h + s * 1s)), sweep);
}

TEST_F(SweepsTest, TheLatestDirectories_AreKept) {
  const SweepRef first = asked(directory);
  std::vector<NodeRef> others;
  for (unsigned i = 1; i < client::Sweeps::kMost; ++i) asked(others.emplace_back(node(i)));
  EXPECT_EQ(asked(directory), first) << "none was one too many";
  sweeps.keep(*others[0].get(), entries(7), {});
  asked(others.emplace_back(node(1000)));
  EXPECT_FALSE(sweeps.find(*others[0].get(), TimePoint(1h), 3s)) << "not asked for longest";
  EXPECT_EQ(sweeps.waiting(), 0u);
  EXPECT_EQ(asked(directory), first);
}

TEST_F(SweepsTest, ADirectoryThatDies_IsForgotten) {
  NodeRef dying = node(1);
  const client::Node* place = dying.get();
  asked(dying, 3);
  sweeps.keep(*place, entries(5), {});
  dying = {};
  EXPECT_FALSE(sweeps.find(*place, TimePoint(1h), 3s));
  EXPECT_EQ(sweeps.waiting(), 0u);
}

// --- entries that wait for their LOOKUP ---

TEST_F(SweepsTest, AWaitingEntry_IsTakenOnce) {
  asked(directory);
  sweeps.keep(*directory.get(), entries(3), {.epoch = 5});
  EXPECT_EQ(sweeps.waiting(), 3u);
  EXPECT_FALSE(sweeps.take(*directory.get(), "f3"));
  EXPECT_FALSE(sweeps.take(*node(1).get(), "f1"));
  const auto taken = sweeps.take(*directory.get(), "f1");
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->entry.handle(), "f1");
  EXPECT_EQ(taken->belief.epoch, 5u);
  EXPECT_FALSE(sweeps.take(*directory.get(), "f1"));
  EXPECT_EQ(sweeps.waiting(), 2u);
}

TEST_F(SweepsTest, TheLatestAnswer_Counts) {
  asked(directory);
  sweeps.keep(*directory.get(), entries(3), {.epoch = 5});
  sweeps.keep(*directory.get(), entries(2), {.epoch = 6});
  EXPECT_EQ(sweeps.waiting(), 3u);
  EXPECT_EQ(sweeps.take(*directory.get(), "f0")->belief.epoch, 6u);
  EXPECT_EQ(sweeps.take(*directory.get(), "f2")->belief.epoch, 5u);
}

TEST_F(SweepsTest, OldDirectories_MakeRoom) {
  const NodeRef second = node(1);
  asked(directory);
  asked(second);
  sweeps.keep(*directory.get(), entries(10), {});
  sweeps.keep(*second.get(), entries(client::Sweeps::kMostWaiting - 5), {});
  EXPECT_EQ(sweeps.waiting(), client::Sweeps::kMostWaiting - 5);
  EXPECT_FALSE(sweeps.take(*directory.get(), "f0"));
  EXPECT_TRUE(sweeps.take(*second.get(), "f0"));
}

TEST_F(SweepsTest, WhereNobodyAsksAnyMore_NothingWaits) {
  const NodeRef second = node(1);
  asked(directory);
  sweeps.keep(*directory.get(), entries(10), {});
  asked(second, 1, TimePoint(1h + 2s));
  sweeps.keep(*second.get(), entries(4), {});
  sweeps.drop_old(TimePoint(1h + 4s), 3s);
  EXPECT_EQ(sweeps.waiting(), 4u);
}

}  // namespace
}  // namespace nfsrdma::test

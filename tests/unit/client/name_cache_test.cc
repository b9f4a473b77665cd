// SPDX-License-Identifier: Apache-2.0
// The name cache; no entry outlives the Nodes that it points to.
#include "client/core/names/name_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <thread>

#include "client/nfs4/state/file_state.h"

namespace nfsrdma::test {
namespace {

using namespace std::chrono_literals;
using client::NameBelief;
using client::NameCache;
using client::NodeRef;
using Learnt = NameCache::Learnt;

constexpr NameBelief kNow{TimePoint(1h), 1, 1};

class NameCacheTest : public testing::Test {
 protected:
  NodeRef node(unsigned n) {
    return table.get(nfs4::nfs_fh4(as_const_bytes("node " + std::to_string(n))), 0);
  }

  client::nfs4::NodeTable table;
  NameCache& cache = table.names();
};

TEST_F(NameCacheTest, Unknown_IsNotFound) {
  const NodeRef directory = node(0);
  EXPECT_FALSE(cache.find(*directory.get(), "a"));
}

TEST_F(NameCacheTest, Name_LeadsToItsNode) {
  const NodeRef directory = node(0), file = node(1), other = node(2);
  cache.put(*directory.get(), "a", file.get(), kNow);
  const auto found = cache.find(*directory.get(), "a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->child, file);
  EXPECT_EQ(found->belief.since, kNow.since);
  EXPECT_EQ(found->belief.epoch, kNow.epoch);
  EXPECT_FALSE(cache.find(*directory.get(), "b"));
  EXPECT_FALSE(cache.find(*other.get(), "a"));
  EXPECT_FALSE(cache.find(*directory.get(), "a "));
}

TEST_F(NameCacheTest, AnyBytes_AreAName) {
  const NodeRef directory = node(0), file = node(1);
  const std::string with_nul("a\0b", 3);
  cache.put(*directory.get(), with_nul, file.get(), kNow);
  cache.put(*directory.get(), std::string(255, '\xff'), file.get(), kNow);
  EXPECT_FALSE(cache.find(*directory.get(), "a"));
  EXPECT_TRUE(cache.find(*directory.get(), with_nul));
  EXPECT_TRUE(cache.find(*directory.get(), std::string(255, '\xff')));
}

TEST_F(NameCacheTest, NoSuchName_IsKnownToo) {
  const NodeRef directory = node(0);
  cache.put(*directory.get(), "a", nullptr, kNow);
  const auto found = cache.find(*directory.get(), "a");
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->child);
}

TEST_F(NameCacheTest, NewAnswer_ReplacesTheOldOne) {
  const NodeRef directory = node(0), first = node(1), second = node(2);
  client::Node* const answers[] = {first.get(), nullptr, second.get(), second.get(),
                                   nullptr,     nullptr, first.get()};
  NameBelief now = kNow;
  for (client::Node* answer : answers) {
    ++now.since;
    ++now.order;
    cache.put(*directory.get(), "a", answer, now);
    EXPECT_EQ(cache.find(*directory.get(), "a")->child.get(), answer);
    EXPECT_EQ(cache.find(*directory.get(), "a")->belief.since, now.since);
    EXPECT_EQ(cache.size(), 1u);
  }
  EXPECT_FALSE(cache.name_of(*second.get()));
  EXPECT_EQ(cache.name_of(*first.get())->name, "a");
}

TEST_F(NameCacheTest, Removed_IsUnknown) {
  const NodeRef directory = node(0), file = node(1);
  cache.put(*directory.get(), "a", file.get(), kNow);
  cache.put(*directory.get(), "b", nullptr, kNow);
  cache.remove(*directory.get(), "a", 0);
  cache.remove(*directory.get(), "b", 0);
  cache.remove(*directory.get(), "never there", 0);
  EXPECT_FALSE(cache.find(*directory.get(), "a"));
  EXPECT_EQ(cache.size(), 0u);
}

TEST_F(NameCacheTest, WhatWasAskedBeforeADoubt_IsNoAnswer) {
  const NodeRef directory = node(0), file = node(1);
  cache.remove(*directory.get(), "a", 5);
  const NameBelief before{TimePoint(1h), 1, 4}, after{TimePoint(1h), 1, 6};
  EXPECT_EQ(cache.learn(*directory.get(), "a", file.get(), before), Learnt::kOther);
  EXPECT_EQ(cache.learn(*directory.get(), "a", file.get(), after), Learnt::kStored);
}

TEST_F(NameCacheTest, AnEntryInDoubt_LeadsWhereItLedAndIsNotBelieved) {
  const NodeRef directory = node(0), file = node(1);
  cache.put(*directory.get(), "a", file.get(), kNow);
  cache.doubt(*directory.get(), "a", 5);
  EXPECT_EQ(cache.find(*directory.get(), "a")->child, file);
  EXPECT_EQ(cache.find(*directory.get(), "a")->belief.epoch, 0u);
  const NameBelief before{TimePoint(1h), 1, 4}, after{TimePoint(1h), 1, 6};
  EXPECT_EQ(cache.learn(*directory.get(), "a", file.get(), before), Learnt::kOther);
  EXPECT_EQ(cache.learn(*directory.get(), "a", file.get(), after), Learnt::kStored);
  EXPECT_EQ(cache.find(*directory.get(), "a")->belief.epoch, 1u);
  cache.doubt(*directory.get(), "b", 5);
  EXPECT_EQ(cache.learn(*directory.get(), "b", file.get(), before), Learnt::kOther);
}

TEST_F(NameCacheTest, AnAnswerThatLayHere_DoesNotReplaceALaterOne) {
  const NodeRef directory = node(0), file = node(1), other = node(2);
  const NameBelief old{TimePoint(1h), 1, 4}, young{TimePoint(1h), 1, 6}, of_next_epoch{TimePoint(1h), 2, 5};
  EXPECT_EQ(cache.learn(*directory.get(), "a", file.get(), young), Learnt::kStored);
  EXPECT_EQ(cache.learn(*directory.get(), "a", other.get(), old), Learnt::kOther);
  EXPECT_EQ(cache.learn(*directory.get(), "a", file.get(), old), Learnt::kStored) << "it says the same";
  EXPECT_EQ(cache.find(*directory.get(), "a")->child, file);
  EXPECT_EQ(cache.find(*directory.get(), "a")->belief.asked, 6u);
  EXPECT_EQ(cache.learn(*directory.get(), "a", other.get(), of_next_epoch), Learnt::kStored);
}

TEST_F(NameCacheTest, ForgottenDirectory_LosesItsNamesAndNoOthers) {
  const NodeRef one = node(0), two = node(1), file = node(2);
  for (int i = 0; i < 100; ++i)
    cache.put(*one.get(), std::to_string(i), i % 3 == 0 ? nullptr : file.get(), kNow);
  cache.put(*two.get(), "here", file.get(), kNow);
  cache.forget(*one.get());
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_TRUE(cache.find(*two.get(), "here"));
}

TEST_F(NameCacheTest, DeadFile_TakesItsNamesAlong) {
  const NodeRef directory = node(0);
  {
    const NodeRef file = node(1);
    cache.put(*directory.get(), "a", file.get(), kNow);
    cache.put(*directory.get(), "hard link", file.get(), kNow);
  }
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_FALSE(cache.find(*directory.get(), "a"));
}

TEST_F(NameCacheTest, DeadDirectory_TakesItsEntriesAlong) {
  const NodeRef file = node(1);
  {
    const NodeRef directory = node(0);
    cache.put(*directory.get(), "a", file.get(), kNow);
    cache.put(*directory.get(), "b", nullptr, kNow);
  }
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_FALSE(cache.name_of(*file.get()));
}

TEST_F(NameCacheTest, DirectoryInItself_DiesInPeace) {
  const NodeRef directory = node(0);
  cache.put(*directory.get(), "loop", directory.get(), kNow);  // only a hostile server says this
  EXPECT_EQ(cache.find(*directory.get(), "loop")->child, directory);
}

TEST_F(NameCacheTest, NameOf_IsOneOfTheNames) {
  const NodeRef directory = node(0), file = node(1);
  EXPECT_FALSE(cache.name_of(*file.get()));
  cache.put(*directory.get(), "a", file.get(), kNow);
  cache.put(*directory.get(), "b", file.get(), kNow);
  cache.remove(*directory.get(), "b", 0);
  const auto name = cache.name_of(*file.get());
  ASSERT_TRUE(name);
  EXPECT_EQ(name->name, "a");
  EXPECT_EQ(name->directory, directory);
}

TEST_F(NameCacheTest, NamesIn_AreTheDirectorysOfAbsentFilesToo) {
  const NodeRef directory = node(0), other = node(1), file = node(2);
  EXPECT_TRUE(cache.names_in(*directory.get()).empty());
  cache.put(*directory.get(), "a", file.get(), kNow);
  cache.put(*directory.get(), "absent", nullptr, kNow);
  cache.put(*other.get(), "elsewhere", file.get(), kNow);
  auto names = cache.names_in(*directory.get());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "absent"}));
}

TEST_F(NameCacheTest, TooManyAbsentNames_DropTheOldest) {
  const NodeRef directory = node(0), file = node(1);
  cache.put(*directory.get(), "file", file.get(), kNow);
  constexpr size_t kMore = 10;
  for (size_t i = 0; i < NameCache::kMaxNegative + kMore; ++i) {
    cache.put(*directory.get(), "absent " + std::to_string(i), nullptr, kNow);
  }
  EXPECT_EQ(cache.size(), NameCache::kMaxNegative + 1);
  EXPECT_TRUE(cache.find(*directory.get(), "file"));
  for (size_t i = 0; i < kMore; ++i)
    EXPECT_FALSE(cache.find(*directory.get(), "absent " + std::to_string(i)));
  EXPECT_TRUE(cache.find(*directory.get(), "absent " + std::to_string(kMore)));
  EXPECT_TRUE(cache.find(*directory.get(), "absent " + std::to_string(NameCache::kMaxNegative + kMore - 1)));
}

// All directories share the limit.
TEST_F(NameCacheTest, TooManyAbsentNamesElsewhere_DropTheOldestHere) {
  NodeRef first = node(0);
  const NodeRef second = node(1);
  cache.put(*first.get(), "absent", nullptr, kNow);
  cache.put(*first.get(), "absent, too", nullptr, kNow);
  for (size_t i = 0; i + 1 < NameCache::kMaxNegative; ++i) {
    cache.put(*second.get(), std::to_string(i), nullptr, kNow);
  }
  EXPECT_FALSE(cache.find(*first.get(), "absent"));
  EXPECT_TRUE(cache.find(*first.get(), "absent, too"));
  cache.forget(*first.get());
  EXPECT_EQ(cache.size(), NameCache::kMaxNegative - 1);
  cache.put(*second.get(), "one more", nullptr, kNow);
  EXPECT_TRUE(cache.find(*second.get(), "0")) << "there is room again";
}

// --- late replies (RFC 8881 section 10.8) ---

NameBelief begun(uint64_t order) {
  return {TimePoint(2h), 7, order};
}

TEST_F(NameCacheTest, TooManyNamesOfOneFile_DropTheOldest) {
  const NodeRef directory = node(0), file = node(1);
  for (unsigned n = 0; n < 10 * NameCache::kMaxOfOne; ++n) {
    EXPECT_EQ(cache.learn(*directory.get(), std::to_string(n), file.get(), {TimePoint(1h), n + 1, n + 1}),
              Learnt::kStored);
  }
  EXPECT_EQ(cache.size(), NameCache::kMaxOfOne);
  EXPECT_TRUE(cache.find(*directory.get(), std::to_string(10 * NameCache::kMaxOfOne - 1)));
  EXPECT_FALSE(cache.find(*directory.get(), "0"));
}

TEST_F(NameCacheTest, AnswerFromBeforeAChangeOfOurs_IsOverruled) {
  const NodeRef directory = node(0), file = node(1), other = node(2);
  client::Node& d = *directory.get();
  cache.put(d, "made", file.get(), {TimePoint(1h), 1, 10});
  cache.put(d, "removed", nullptr, {TimePoint(1h), 1, 10});
  EXPECT_EQ(cache.learn(d, "made", nullptr, begun(9)), Learnt::kOther);
  EXPECT_EQ(cache.learn(d, "made", other.get(), begun(9)), Learnt::kOther);
  EXPECT_EQ(cache.learn(d, "removed", other.get(), begun(9)), Learnt::kAbsent);
  EXPECT_EQ(cache.find(d, "made")->child, file);
  EXPECT_FALSE(cache.find(d, "removed")->child);
  EXPECT_EQ(cache.learn(d, "made", file.get(), begun(9)), Learnt::kStored) << "it says the same";
  EXPECT_EQ(cache.find(d, "made")->belief.epoch, 1u);
  EXPECT_EQ(cache.learn(d, "untouched", other.get(), begun(9)), Learnt::kStored);
}

TEST_F(NameCacheTest, AnswerFromAfterAChangeOfOurs_Counts) {
  const NodeRef directory = node(0), file = node(1), other = node(2);
  client::Node& d = *directory.get();
  cache.put(d, "a", file.get(), {TimePoint(1h), 1, 10});
  EXPECT_EQ(cache.learn(d, "a", other.get(), begun(11)), Learnt::kStored);
  EXPECT_EQ(cache.find(d, "a")->child, other);
  EXPECT_EQ(cache.find(d, "a")->belief.epoch, 7u);
  EXPECT_EQ(cache.learn(d, "a", nullptr, begun(9)), Learnt::kOther) << "the change is not forgotten";
  EXPECT_EQ(cache.learn(d, "a", nullptr, begun(12)), Learnt::kStored);
}

// The entry of a change may be dropped, with its file or for lack of room. The change itself stays on record.
TEST_F(NameCacheTest, ForgottenChange_StillOverrulesWhatIsOlder) {
  const NodeRef directory = node(0), other = node(2), elsewhere = node(3);
  client::Node& d = *directory.get();
  {
    const NodeRef file = node(1);
    cache.put(d, "a", file.get(), {TimePoint(1h), 1, 10});
  }
  EXPECT_FALSE(cache.find(d, "a"));
  EXPECT_EQ(cache.learn(d, "a", nullptr, begun(9)), Learnt::kOther);
  EXPECT_FALSE(cache.find(d, "a"));
  EXPECT_EQ(cache.learn(d, "a", other.get(), begun(11)), Learnt::kStored);
  EXPECT_EQ(cache.learn(*elsewhere.get(), "a", other.get(), begun(9)), Learnt::kStored);
}

// Random operations, compared with a map after every step.
TEST_F(NameCacheTest, AnySequence_EqualsAMap) {
  struct Step {
    int kind, directory, child, name;
  };
  const auto steps = rc::gen::container<std::vector<Step>>(rc::gen::construct<Step>(
      rc::gen::inRange(0, 5), rc::gen::inRange(0, 4), rc::gen::inRange(-1, 8), rc::gen::inRange(0, 6)));
  EXPECT_TRUE(rc::check([&] {
    client::nfs4::NodeTable nodes;
    NameCache& names = nodes.names();
    std::vector<NodeRef> held(8);
    const auto revive = [&](int n) {
      NodeRef& ref = held[static_cast<size_t>(n)];
      if (!ref) ref = nodes.get(nfs4::nfs_fh4(as_const_bytes(std::to_string(n))), 0);
      return ref.get();
    };
    std::map<std::pair<int, std::string>, int> model;
    for (const Step& s : *steps) {
      const std::string name = std::to_string(s.name);
      switch (s.kind) {
        case 0:
        case 1:
        case 2:
          names.put(*revive(s.directory), name, s.child < 0 ? nullptr : revive(s.child), kNow);
          model[{s.directory, name}] = s.child;
          break;
        case 3:
          names.remove(*revive(s.directory), name, 0);
          model.erase({s.directory, name});
          break;
        default: {
          const int dead = std::max(s.child, 0);
          held[static_cast<size_t>(dead)].reset();
          std::erase_if(model, [&](const auto& e) { return e.first.first == dead || e.second == dead; });
          break;
        }
      }
      RC_ASSERT(names.size() == model.size());
      for (const auto& [key, child] : model) {
        const auto found = names.find(*held[static_cast<size_t>(key.first)].get(), key.second);
        RC_ASSERT(found.has_value());
        RC_ASSERT(found->child.get() == (child < 0 ? nullptr : held[static_cast<size_t>(child)].get()));
      }
    }
  }));
}

// Four threads find, store and drop Nodes concurrently.
TEST_F(NameCacheTest, FromFourThreads_StaysWhole) {
  const NodeRef directory = node(1000);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned n = 0; n < 3000; ++n) {
        const unsigned which = (n * 7 + t) % 16;
        const std::string name = std::to_string(which);
        if (n % 3 == 0) {
          const NodeRef file = node(which);
          cache.put(*directory.get(), name, file.get(), kNow);
        } else if (n % 17 == 0) {
          cache.put(*directory.get(), name, nullptr, kNow);
        } else if (n % 23 == 0) {
          cache.remove(*directory.get(), name, 0);
        } else if (const auto found = cache.find(*directory.get(), name); found && found->child) {
          const auto named = cache.name_of(*found->child.get());
          if (named && named->directory != directory) ADD_FAILURE() << "a name of another directory";
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  cache.forget(*directory.get());
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(table.size(), 1u);
}

}  // namespace
}  // namespace nfsrdma::test

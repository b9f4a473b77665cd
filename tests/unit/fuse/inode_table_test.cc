// SPDX-License-Identifier: Apache-2.0
// InodeTable: counts, references, and the race of a lookup with a FORGET.
#include "fuse/inode_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <new>
#include <thread>
#include <vector>

namespace nfsrdma::fuse::test {
namespace {

using client::Node;
using client::NodeRef;

class CountedNode final : public Node {
 public:
  explicit CountedNode(std::atomic<int>& live) : live_(live) { ++live_; }

 private:
  void last_reference() noexcept override {
    --live_;
    delete this;
  }
  std::atomic<int>& live_;
};

// A Node at an address that the test chooses.
class PlacedNode final : public Node {
 public:
  explicit PlacedNode(std::atomic<int>& live) : live_(live) { ++live_; }

 private:
  void last_reference() noexcept override {
    --live_;
    this->~PlacedNode();
  }
  std::atomic<int>& live_;
};

TEST(InodeTable, Root_IsNumberOne) {
  std::atomic<int> live{0};
  {
    InodeTable table;
    table.set_root(NodeRef(new CountedNode(live)));
    EXPECT_EQ(table.id(table.node(1)), 1u);
    EXPECT_TRUE(table.known(table.node(1)));
  }
  EXPECT_EQ(live, 0);
}

TEST(InodeTable, KnownNode_LivesUntilItsLastForget) {
  std::atomic<int> live{0};
  InodeTable table;
  NodeRef node(new CountedNode(live));
  const uint64_t id = table.id(node);
  EXPECT_FALSE(table.known(node));
  table.add_lookup(node);
  table.add_lookup(node);
  table.add_lookup(node);
  EXPECT_EQ(table.size(), 1u);
  node.reset();
  EXPECT_EQ(live, 1);
  table.forget(id, 2);
  EXPECT_EQ(live, 1);
  EXPECT_EQ(table.node(id)->front_end_lookups, 1u);
  table.forget(id, 1);
  EXPECT_EQ(live, 0);
  EXPECT_EQ(table.size(), 0u);
}

// A file handle of open_by_handle_at(2) contains both the id and the generation.
TEST(InodeTable, NodesOfOneAddress_AreToldApartByTheirGeneration) {
  std::atomic<int> live{0};
  InodeTable table;
  alignas(PlacedNode) std::array<std::byte, sizeof(PlacedNode)> place{};
  std::vector<std::pair<uint64_t, uint32_t>> handles;
  for (int i = 0; i < 3; ++i) {
    NodeRef node(new (place.data()) PlacedNode(live));
    handles.emplace_back(table.id(node), table.generation(node));
    table.add_lookup(node);
    table.forget(table.id(node), 1);
    EXPECT_EQ(table.generation(node), handles.back().second);  // the same as long as the Node lives
    node.reset();
    EXPECT_EQ(live, 0);
  }
  EXPECT_EQ(handles[0].first, handles[1].first);
  EXPECT_NE(handles[0].second, handles[1].second);
  EXPECT_NE(handles[1].second, handles[2].second);
}

TEST(InodeTable, RootsGeneration_IsWhatTheKernelTakesItFor) {
  std::atomic<int> live{0};
  InodeTable table;
  table.set_root(NodeRef(new CountedNode(live)));
  EXPECT_EQ(table.generation(table.node(1)), 0u);
}

TEST(InodeTable, Ids_TellNoAddress) {
  std::atomic<int> live{0};
  InodeTable table, other;
  NodeRef node(new CountedNode(live));
  EXPECT_NE(table.id(node), reinterpret_cast<uint64_t>(node.get()));
  EXPECT_NE(table.id(node), other.id(node));
  for (int i = 0; i < 1000; ++i) {
    NodeRef another(new CountedNode(live));
    EXPECT_GT(table.id(another), InodeTable::kRootId);
    EXPECT_EQ(table.node(table.id(another)), another);
  }
}

TEST(InodeTable, ForgottenTooOften_IsNotDroppedTwice) {
  std::atomic<int> live{0};
  InodeTable table;
  NodeRef node(new CountedNode(live));
  table.add_lookup(node);
  table.forget(table.id(node), 5);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(node->front_end_lookups, 0u);
  table.forget(table.id(node), 1);
  EXPECT_EQ(live, 1);
  table.add_lookup(node);
  EXPECT_EQ(table.size(), 1u);
}

TEST(InodeTable, Clear_DropsEverything) {
  std::atomic<int> live{0};
  InodeTable table;
  for (int i = 0; i < 1000; ++i) {
    NodeRef node(new CountedNode(live));
    for (int j = 0; j <= i % 3; ++j) table.add_lookup(node);
  }
  EXPECT_EQ(live, 1000);
  EXPECT_EQ(table.snapshot().size(), 1000u);
  EXPECT_EQ(table.clear(), 1000u);
  EXPECT_EQ(live, 0);
}

TEST(InodeTable, LookupsAndForgetsOnManyThreads_Balance) {
  std::atomic<int> live{0};
  InodeTable table;
  constexpr int kThreads = 4;
  constexpr int kRounds = 20000;
  std::vector<NodeRef> nodes;
  for (int i = 0; i < 3; ++i) nodes.emplace_back(new CountedNode(live));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&table, &nodes, t] {
      for (int i = 0; i < kRounds; ++i) {
        const NodeRef& node = nodes[static_cast<size_t>(i + t) % nodes.size()];
        table.add_lookup(node);
        if (i % 7 == 0) table.add_lookup(node);
        table.forget(table.id(node), i % 7 == 0 ? 2 : 1);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(table.size(), 0u);
  for (const NodeRef& node : nodes) {
    EXPECT_EQ(node->front_end_lookups, 0u);
    EXPECT_EQ(client::NodeTableAccess::references(*node.get()), 1u);
  }
}

RC_GTEST_PROP(InodeTable, AnySequence_MatchesACount, (const std::vector<std::pair<uint8_t, bool>>& steps)) {
  std::atomic<int> live{0};
  InodeTable table;
  std::vector<NodeRef> nodes;
  std::vector<uint64_t> counts(4);
  for (int i = 0; i < 4; ++i) nodes.emplace_back(new CountedNode(live));
  for (const auto& [which, add] : steps) {
    const size_t i = which % nodes.size();
    if (add) {
      table.add_lookup(nodes[i]);
      ++counts[i];
    } else {
      const uint64_t n = std::min<uint64_t>(counts[i], which / 4);
      table.forget(table.id(nodes[i]), n);
      counts[i] -= n;
    }
    RC_ASSERT(nodes[i]->front_end_lookups.load() == counts[i]);
    RC_ASSERT(table.known(nodes[i]) == (counts[i] != 0));
  }
  RC_ASSERT(table.size() == static_cast<size_t>(std::count_if(counts.begin(), counts.end(),
                                                              [](uint64_t n) { return n != 0; })));
}

}  // namespace
}  // namespace nfsrdma::fuse::test

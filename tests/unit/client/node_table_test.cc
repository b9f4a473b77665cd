// SPDX-License-Identifier: Apache-2.0
// One Node per file handle while anything refers to it.
#include "client/nfs4/state/node.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "client/nfs4/state/file_state.h"

namespace nfsrdma::test {
namespace {

using client::NodeRef;
using client::nfs4::NodeTable;

nfs4::nfs_fh4 handle(unsigned n) {
  return nfs4::nfs_fh4(as_const_bytes("handle " + std::to_string(n)));
}

TEST(NodeTable, SameHandle_IsTheSameNode) {
  NodeTable table;
  const NodeRef a = table.get(handle(1), 0), b = table.get(handle(1), 0), c = table.get(handle(2), 3);
  EXPECT_EQ(a, b);
  EXPECT_NE(a.get(), c.get());
  EXPECT_EQ(table.find(handle(2)), c);
  EXPECT_EQ(client::nfs4::nfs4_node(c).fh(), handle(2));
  EXPECT_EQ(client::nfs4::nfs4_node(c).export_index(), 3u);
  EXPECT_EQ(table.size(), 2u);
}

TEST(NodeTable, HandlesOfAnyLength_AreTold) {
  NodeTable table;
  const NodeRef empty = table.get(nfs4::nfs_fh4(), 0);
  const std::string longest(nfs4::NFS4_FHSIZE, 'x');
  const NodeRef full = table.get(nfs4::nfs_fh4(as_const_bytes(longest)), 0);
  const NodeRef shorter = table.get(nfs4::nfs_fh4(as_const_bytes(longest).first(longest.size() - 1)), 0);
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.find(nfs4::nfs_fh4()), empty);
  EXPECT_NE(full.get(), shorter.get());
}

TEST(NodeTable, LastReferenceGone_ForgetsTheNode) {
  NodeTable table;
  NodeRef a = table.get(handle(1), 0);
  NodeRef b = a;
  a.reset();
  EXPECT_EQ(table.size(), 1u);
  b.reset();
  EXPECT_EQ(table.size(), 0u);
  EXPECT_FALSE(table.find(handle(1)));
}

TEST(NodeTable, DroppedSince_IsKnownOfTheFile) {
  NodeTable table;
  const uint64_t before = table.next_start();
  NodeRef a = table.get(handle(1), 0);
  EXPECT_FALSE(table.dropped_since("handle 1", before));
  a.reset();
  EXPECT_TRUE(table.dropped_since("handle 1", before));
  EXPECT_FALSE(table.dropped_since("handle 2", before));
  EXPECT_FALSE(table.dropped_since("handle 1", table.next_start()));
}

// Four threads drop and create one file's Node. The owner of a new Node sees that earlier ones were dropped.
TEST(NodeTable, DroppedUnderOthersHands_IsKnownToTheNext) {
  NodeTable table;
  std::atomic<uint64_t> changed{0};  // by dropped Nodes
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        const uint64_t asked = table.next_start();
        const NodeRef node = table.get(handle(1), 0);
        client::CachedNode& n = client::cached_node(node);
        MutexLock lock(n.mutex);
        const bool something_died = !n.attributes.known() && changed.load() > asked;
        EXPECT_TRUE(!something_died || table.dropped_since("handle 1", asked));
        n.attributes.update({}, asked, table.next_start(), {}, {});
        changed = table.next_start();
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(NodeTable, DetachedReference_KeepsTheNodeUntilAdopted) {
  NodeTable table;
  client::Node* raw = table.get(handle(1), 0).detach();
  EXPECT_EQ(table.size(), 1u);
  NodeRef::adopt(raw).reset();
  EXPECT_EQ(table.size(), 0u);
}

TEST(NodeTable, RequestsStarted_AreNumberedUpwards) {
  NodeTable table;
  const uint64_t first = table.next_start();
  EXPECT_GT(first, 0u);
  EXPECT_EQ(table.next_start(), first + 1);
}

// Nodes are dropped and looked up at the same moment.
TEST(NodeTable, FromFourThreads_NeverHasTwoNodesForOneHandle) {
  NodeTable table;
  std::vector<std::thread> threads;
  std::atomic<unsigned> twins{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (unsigned n = 0; n < 20000; ++n) {
        const NodeRef a = table.get(handle(n % 3), 0);
        const NodeRef b = table.find(handle(n % 3));
        if (a != b) ++twins;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(twins.load(), 0u);
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace nfsrdma::test

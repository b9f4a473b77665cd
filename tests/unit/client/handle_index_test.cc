// SPDX-License-Identifier: Apache-2.0
// HandleIndex compared with a map, with hashes that collide.
#include "client/core/nodes/handle_index.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

#include "client/nfs4/state/node.h"

namespace nfsrdma::client {
namespace {

class HandleIndexTest : public testing::Test {
 protected:
  CachedNode& node(unsigned n) {
    const NodeRef& made = nodes.emplace_back(table.get(nfs4::nfs_fh4(as_const_bytes(std::to_string(n))), 0));
    return cached_node(made);
  }
  nfs4::NodeTable table;
  std::vector<NodeRef> nodes;
};

TEST_F(HandleIndexTest, OfTheSameHash_TheHandleDecides) {
  HandleIndex index;
  CachedNode &one = node(1), &two = node(2);
  index.insert(7, one);
  EXPECT_EQ(index.find(7, "2"), nullptr);
  index.insert(7, two);
  EXPECT_EQ(index.find(7, "1"), &one);
  EXPECT_EQ(index.find(7, "2"), &two);
  EXPECT_EQ(index.find(8, "2"), nullptr) << "where it would be, but of another hash";
  EXPECT_TRUE(index.erase(7, one));
  EXPECT_FALSE(index.erase(7, one));
  EXPECT_EQ(index.find(7, "2"), &two) << "behind the place that is free now";
}

TEST_F(HandleIndexTest, AMillionThatWent_LeaveNoMemory) {
  HandleIndex index;
  CachedNode& some = node(0);
  std::mt19937_64 hashes(1);
  for (int i = 0; i < 1'000'000; ++i) index.insert(hashes(), some);
  EXPECT_LE(index.places(), 4'000'000u);
  hashes.seed(1);
  for (int i = 0; i < 1'000'000; ++i) ASSERT_TRUE(index.erase(hashes(), some));
  EXPECT_EQ(index.size(), 0u);
  EXPECT_LE(index.places(), 64u);
}

// Few hashes, near the end of the places, so that searches wrap around, and a removal leaves displaced
// entries behind it.
RC_GTEST_PROP(HandleIndexProperty, WhatIsFound_IsWhatWasPutIn, ()) {
  nfs4::NodeTable table;
  std::vector<NodeRef> nodes;
  for (unsigned n = 0; n < 40; ++n)
    nodes.push_back(table.get(nfs4::nfs_fh4(as_const_bytes(std::to_string(n))), 0));
  HandleIndex index;
  std::map<unsigned, uint64_t> model;  // the hash, by number of the node
  const auto steps = *rc::gen::container<std::vector<std::pair<unsigned, unsigned>>>(
      rc::gen::pair(rc::gen::inRange(0u, 40u), rc::gen::inRange(0u, 9u)));
  for (const auto& [n, spread] : steps) {
    CachedNode& it = cached_node(nodes[n]);
    if (const auto known = model.find(n); known != model.end()) {
      RC_ASSERT(index.erase(known->second, it));
      model.erase(known);
    } else {
      const uint64_t hash = uint64_t{0} - 4 + spread;
      index.insert(hash, it);
      model.emplace(n, hash);
    }
    RC_ASSERT(index.size() == model.size());
    for (unsigned m = 0; m < nodes.size(); ++m) {
      const auto expected = model.find(m);
      for (uint64_t hash = 0; hash < 9; ++hash) {
        const bool here = expected != model.end() && expected->second == hash - 4;
        RC_ASSERT(index.find(hash - 4, std::to_string(m)) == (here ? &cached_node(nodes[m]) : nullptr));
      }
    }
  }
  std::set<CachedNode*> seen;
  index.each([&](CachedNode& n) { seen.insert(&n); });
  RC_ASSERT(seen.size() == model.size());
}

}  // namespace
}  // namespace nfsrdma::client

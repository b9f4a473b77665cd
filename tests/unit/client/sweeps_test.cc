// When a directory whose files are asked for one after the other is worth a READDIR.
#include "client/cache/sweeps.h"

#include <gtest/gtest.h>

#include "client/nfs4/node.h"

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
  SweepRef missed(const NodeRef& of, unsigned times = 1, TimePoint now = TimePoint(1h)) {
    SweepRef last;
    for (unsigned i = 0; i < times; ++i) last = table.sweeps().missed(*of.get(), now, 3s);
    return last;
  }

  client::NodeTable table;
  const NodeRef directory = node(0);
};

TEST_F(SweepsTest, ThirdMiss_IsWorthAReaddir) {
  EXPECT_FALSE(missed(directory));
  EXPECT_FALSE(missed(directory));
  const SweepRef sweep = missed(directory);
  ASSERT_TRUE(sweep);
  EXPECT_TRUE(sweep->worth_reading());
  EXPECT_EQ(sweep->next, 0u);
}

TEST_F(SweepsTest, EveryEighthMore_IsWorthAnother) {
  const SweepRef sweep = missed(directory, 3);
  sweep->read_on(77, {}, false, 500, 400);
  EXPECT_FALSE(sweep->worth_reading());
  EXPECT_EQ(missed(directory, 7), sweep);
  EXPECT_FALSE(sweep->worth_reading());
  missed(directory);
  EXPECT_TRUE(sweep->worth_reading());
  EXPECT_EQ(sweep->next, 77u);
}

TEST_F(SweepsTest, BehindTheEnd_IsTheBeginning) {
  const SweepRef sweep = missed(directory, 3);
  sweep->read_on(77, {}, true, 500, 500);
  EXPECT_FALSE(sweep->worth_reading());
  missed(directory, 8);
  EXPECT_TRUE(sweep->worth_reading());
  EXPECT_EQ(sweep->next, 0u);
}

TEST_F(SweepsTest, Strangers_EndIt) {
  const SweepRef few = missed(directory, 3);
  few->read_on(77, {}, false, 500, 500 / Sweep::kLeastShare - 1);
  missed(directory, 100);
  EXPECT_FALSE(few->worth_reading());
}

TEST_F(SweepsTest, LaterMisses_BeginAnew) {
  const SweepRef sweep = missed(directory, 3);
  sweep->read_on(77, {}, false, 500, 0);
  EXPECT_FALSE(missed(directory, 2, TimePoint(1h + 4s)));
  const SweepRef next = missed(directory, 1, TimePoint(1h + 4s));
  ASSERT_TRUE(next);
  EXPECT_NE(next, sweep);
  EXPECT_TRUE(next->worth_reading());
}

TEST_F(SweepsTest, TheLatestDirectories_AreKept) {
  missed(directory, 2);
  std::vector<NodeRef> others;
  for (unsigned i = 1; i < client::Sweeps::kMost; ++i) missed(others.emplace_back(node(i)), 2);
  EXPECT_TRUE(missed(directory)) << "none was one too many";
  missed(others.emplace_back(node(1000)));
  EXPECT_FALSE(missed(others[0])) << "the one not missed for longest is forgotten";
  EXPECT_TRUE(missed(directory));
}

TEST_F(SweepsTest, ADirectoryThatDies_IsForgotten) {
  NodeRef dying = node(1);
  const client::Node* place = dying.get();
  EXPECT_FALSE(missed(dying, 2));
  dying = {};
  EXPECT_FALSE(table.sweeps().missed(*place, TimePoint(1h), 3s));
}

}  // namespace
}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// The order in which the kernel is told about nodes, without a kernel.
#include "fuse/notice_queue.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/fuse/some_node.h"

namespace nfsrdma::fuse::test {
namespace {

using client::NodeRef;

class Notices : public ::testing::Test {
 protected:
  static NodeRef node() { return NodeRef(new SomeNode); }
  static NoticeQueue::Done waiter() { return std::make_shared<Completion<bool>>(); }
  // The node whose notice comes next; null: none.
  const client::Node* next() {
    const auto notice = queue_.take();
    return notice ? notice->node.get() : nullptr;
  }

  const NodeRef a_ = node(), b_ = node(), c_ = node();
  NoticeQueue queue_{2};
};

TEST_F(Notices, ComeInTheOrderOfAsking) {
  queue_.ask(b_, false, nullptr);
  queue_.ask(a_, false, nullptr);
  EXPECT_EQ(next(), b_.get());
  EXPECT_EQ(next(), a_.get());
  EXPECT_FALSE(queue_.ready());
}

TEST_F(Notices, AskedForTwice_AreOne) {
  queue_.ask(a_, false, nullptr);
  queue_.ask(a_, true, waiter());
  const auto notice = queue_.take();
  ASSERT_TRUE(notice);
  EXPECT_TRUE(notice->data);
  EXPECT_EQ(notice->waiting.size(), 1u);
  EXPECT_FALSE(queue_.ready());
  EXPECT_EQ(queue_.numbers().merged, 1u);
}

TEST_F(Notices, OfANodeBeingTold_WaitForItsEndAndNobodyElse) {
  queue_.ask(a_, true, nullptr);
  EXPECT_EQ(next(), a_.get());
  queue_.ask(a_, true, waiter());
  EXPECT_FALSE(queue_.ready());
  queue_.ask(b_, true, nullptr);
  EXPECT_EQ(next(), b_.get());
  EXPECT_FALSE(queue_.ready());
  queue_.told(a_.get());
  EXPECT_EQ(next(), a_.get());
}

TEST_F(Notices, BeyondTheMost_BecomeEverythingButWhatIsWaitedFor) {
  queue_.ask(a_, false, waiter());
  queue_.ask(b_, false, nullptr);
  queue_.ask(c_, true, nullptr);
  EXPECT_FALSE(queue_.take_flood());
  EXPECT_EQ(queue_.ask(node(), false, nullptr).size(), 3u);
  EXPECT_EQ(queue_.numbers().floods, 1u);
  queue_.ask(b_, false, nullptr);  // becomes part of the flood
  EXPECT_TRUE(queue_.take_flood());
  EXPECT_FALSE(queue_.take_flood());
  queue_.set_rest({c_, b_});
  EXPECT_EQ(next(), a_.get());
  auto notice = queue_.take();
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->node, b_);
  EXPECT_TRUE(notice->data);
  EXPECT_EQ(next(), c_.get());
  EXPECT_FALSE(queue_.ready());
}

TEST_F(Notices, OfEverything_TheOneBeingToldComesLater) {
  queue_.ask(a_, true, nullptr);
  EXPECT_EQ(next(), a_.get());
  for (const NodeRef& node : {a_, b_, c_}) queue_.ask(node, true, nullptr);
  EXPECT_TRUE(queue_.take_flood());
  queue_.set_rest({c_, b_, a_});
  EXPECT_EQ(next(), b_.get());
  EXPECT_EQ(next(), c_.get());
  EXPECT_FALSE(queue_.ready());
  queue_.told(a_.get());
  EXPECT_EQ(next(), a_.get());
}

// A notice of a flood that is being gathered or sent may be too early for a new request, so the node gets
// another one.
TEST_F(Notices, AskedForWhileEverythingIsGathered_AreNotLost) {
  const auto flood = [this] {
    for (const NodeRef& node : {a_, b_, c_}) queue_.ask(node, true, nullptr);
  };
  flood();
  EXPECT_TRUE(queue_.take_flood());
  flood();
  EXPECT_FALSE(queue_.take_flood());
  EXPECT_FALSE(queue_.ready());
  queue_.set_rest({a_});
  EXPECT_FALSE(queue_.take_flood());
  EXPECT_EQ(next(), a_.get());
  EXPECT_TRUE(queue_.take_flood());
}

TEST_F(Notices, Cleared_AreHandedOut) {
  queue_.ask(a_, true, waiter());
  for (const NodeRef& node : {a_, b_, c_}) queue_.ask(node, true, nullptr);
  queue_.ask(node(), true, nullptr);
  EXPECT_TRUE(queue_.take_flood());
  queue_.set_rest({a_, b_});
  const auto left = queue_.clear();
  EXPECT_EQ(left.size(), 3u);
  EXPECT_EQ(std::count_if(left.begin(), left.end(), [](const auto& n) { return !n.waiting.empty(); }), 1);
  EXPECT_FALSE(queue_.ready());
}

}  // namespace
}  // namespace nfsrdma::fuse::test

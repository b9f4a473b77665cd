// SPDX-License-Identifier: Apache-2.0
#include "fuse/root_question.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

#include "tests/unit/transport/support/eventually.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::fuse {
namespace {

using namespace std::chrono_literals;

class RootQuestionTest : public testing::Test {
 protected:
  RootQuestionTest() { loops_.start(); }
  ~RootQuestionTest() override { loops_.stop_and_join(); }

  static Task<Result<int>> server(std::shared_ptr<Completion<int>> answer) {
    const int value = co_await answer->wait();
    co_return value;
  }

  static Task<> run(RootQuestion<int>& question, std::shared_ptr<Completion<int>> answer,
                    RootQuestion<int>::Heard heard, std::shared_ptr<std::promise<int>> out) {
    auto asking = server(std::move(answer));
    auto call = question.ask(std::move(asking), std::move(heard), [&question] { return question.known(); });
    const Result<int> result = co_await std::move(call);
    out->set_value(*result);
  }

  std::future<int> ask(const std::shared_ptr<Completion<int>>& answer) {
    auto out = std::make_shared<std::promise<int>>();
    loops_[0].spawn(run(
        question_, answer,
        [this] {
          ++listened_;
          if (talking_) ++heard_;
          return heard_.load();
        },
        out));
    return out->get_future();
  }

  static std::shared_ptr<Completion<int>> nobody() { return std::make_shared<Completion<int>>(); }
  static std::shared_ptr<Completion<int>> at_once(int value) {
    auto answer = nobody();
    answer->set(value);
    return answer;
  }

  // True when a question has asked often enough whether the server is silent to know, and went on.
  bool goes_on() {
    const unsigned before = listened_;
    return nfsrdma::test::eventually([&] { return listened_ >= before + 3; });
  }

  LoopPool loops_{1};
  RootQuestion<int> question_;
  std::atomic<bool> talking_{false};
  std::atomic<uint64_t> heard_{0};
  std::atomic<unsigned> listened_{0};
};

TEST_F(RootQuestionTest, AnAnswer_IsHandedOn) {
  EXPECT_EQ(ask(at_once(1)).get(), 1);
  EXPECT_EQ(ask(at_once(2)).get(), 2);
}

TEST_F(RootQuestionTest, OfASilentServer_WhatIsKnownIsTheAnswer) {
  EXPECT_EQ(ask(at_once(1)).get(), 1);
  const auto late = nobody();
  EXPECT_EQ(ask(late).get(), 1);
  // While that question is in progress others neither wait nor ask the server.
  EXPECT_EQ(ask(nobody()).get(), 1);
  late->set(7);
  EXPECT_TRUE(nfsrdma::test::eventually([this] { return question_.known() == 7; }));
  EXPECT_EQ(ask(at_once(8)).get(), 8);
}

TEST_F(RootQuestionTest, WhereNothingIsKnown_ItIsWaitedFor) {
  const auto late = nobody();
  auto answer = ask(late);
  EXPECT_TRUE(goes_on());
  EXPECT_EQ(answer.wait_for(0s), std::future_status::timeout);
  late->set(5);
  EXPECT_EQ(answer.get(), 5);
}

TEST_F(RootQuestionTest, AServerThatAnswersOthers_IsWaitedFor) {
  EXPECT_EQ(ask(at_once(1)).get(), 1);
  talking_ = true;
  const auto slow = nobody();
  auto answer = ask(slow);
  EXPECT_TRUE(goes_on());
  EXPECT_EQ(answer.wait_for(0s), std::future_status::timeout);
  slow->set(2);
  EXPECT_EQ(answer.get(), 2);
}

}  // namespace
}  // namespace nfsrdma::fuse

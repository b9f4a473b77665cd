// SPDX-License-Identifier: Apache-2.0
// Loop, LoopPool, Timer and Gate.
#include "transport/runtime/loop.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/transport/support/eventually.h"
#include "tests/unit/transport/support/run_on.h"
#include "transport/runtime/gate.h"

namespace nfsrdma::test {
namespace {

TEST(Loop, PostFromManyThreads_EveryOneRunsOnTheLoop) {
  LoopThread loop;
  std::atomic<int> on_loop{0};
  constexpr int kThreads = 4;
  constexpr int kPosts = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPosts; ++i) loop->post([&] { on_loop += loop->on_loop() ? 1 : 0; });
    });
  }
  for (std::thread& t : threads) t.join();
  call_on(*loop, [] {});  // queued behind all of them
  EXPECT_EQ(on_loop, kThreads * kPosts);
}

TEST(Loop, AtEndOfTurn_RunsWhenTheOutermostTurnIsOver_InOrder) {
  LoopThread loop;
  std::vector<std::string> order;
  call_on(*loop, [&] {
    {
      const Loop::Turn turn(*loop);
      loop->at_end_of_turn([&] {
        order.emplace_back("first");
        loop->at_end_of_turn([&] { order.emplace_back("put off by the first"); });
      });
      {
        const Loop::Turn inner(*loop);
        loop->at_end_of_turn([&] { order.emplace_back("second"); });
      }
      order.emplace_back("turn");
    }
    order.emplace_back("after it");
  });
  EXPECT_EQ(order, (std::vector<std::string>{"turn", "first", "second", "put off by the first", "after it"}));
}

TEST(Loop, AtEndOfTurn_OutsideOfATurn_RunsLater) {
  LoopThread loop;
  std::vector<std::string> order;
  call_on(*loop, [&] {
    loop->at_end_of_turn([&] { order.emplace_back("later"); });
    order.emplace_back("now");
  });
  EXPECT_TRUE(eventually([&] { return call_on(*loop, [&] { return order.size(); }) == 2; }));
  EXPECT_EQ(order, (std::vector<std::string>{"now", "later"}));
}

TEST(Loop, CurrentOutsideOfLoops_IsNull) {
  LoopThread loop;
  EXPECT_EQ(Loop::current(), nullptr);
  EXPECT_EQ(call_on(*loop, [] { return Loop::current(); }), &*loop);
}

Task<> hold(std::shared_ptr<int> held, Loop* loop) {
  co_await loop->sleep(std::chrono::milliseconds(1));
  *held = 1;
}

TEST(Loop, LiveTasks_ZeroOnlyAfterTheTaskLetGoOfEverything) {
  LoopThread loop;
  for (int i = 0; i < 20; ++i) {
    const auto held = std::make_shared<int>(0);
    loop->spawn(hold(held, &*loop));
    ASSERT_TRUE(eventually([&] { return loop->live_tasks() == 0; }, std::chrono::microseconds(0)));
    EXPECT_EQ(*held, 1);
    EXPECT_EQ(held.use_count(), 1);
  }
}

Task<> escape() {
  throw std::runtime_error("on the loose");
  co_return;
}

TEST(LoopDeathTest, ExceptionEscapesASpawnedTask_ProcessEndsWithItsText) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Loop loop;
        loop.spawn(escape());
        loop.run();
      },
      "exception escaped a coroutine: on the loose");
}

TEST(LoopPool, EachLoop_HasItsThreadAndIndex) {
  LoopPool pool(4);
  pool.start();
  std::set<std::thread::id> threads;
  for (unsigned i = 0; i < pool.size(); ++i) {
    EXPECT_EQ(call_on(pool[i], [] { return Loop::current()->index(); }), i);
    threads.insert(call_on(pool[i], [] { return std::this_thread::get_id(); }));
  }
  EXPECT_EQ(threads.size(), pool.size());
  pool.stop_and_join();
}

struct TimerFixture {
  explicit TimerFixture(Loop& loop) : timer(loop) {}
  Timer timer;
};

Task<bool> wait_on(TimerFixture* f, Duration d) {
  co_return co_await f->timer.wait_for(d);
}

TEST(Timer, Expires_True) {
  LoopThread loop;
  TimerFixture f(*loop);
  EXPECT_TRUE(run_on(*loop, wait_on(&f, std::chrono::milliseconds(1))));
}

TEST(Timer, Cancelled_FalseLongBeforeItsTime) {
  LoopThread loop;
  TimerFixture f(*loop);
  auto waiting = start_on(*loop, wait_on(&f, std::chrono::hours(24)));
  call_on(*loop, [&] { f.timer.cancel(); });
  EXPECT_FALSE(waiting.get());
  EXPECT_TRUE(run_on(*loop, wait_on(&f, Duration::zero()))) << "usable again after a cancel";
}

Task<> pass_through(Gate* gate, Loop* loop, int turns) {
  const Gate::Pass pass = gate->enter();
  for (int i = 0; i < turns; ++i) co_await loop->sleep(Duration::zero());
}

Task<size_t> drain(Gate* gate) {
  co_await gate->drained();
  co_return gate->inside();
}

TEST(Gate, Drained_WaitsForEveryPass) {
  LoopThread loop;
  Gate gate(*loop);
  for (int turns = 1; turns <= 10; ++turns) loop->spawn(pass_through(&gate, &*loop, turns));
  EXPECT_EQ(run_on(*loop, drain(&gate)), 0u);
}

// A coroutine that waited for the gate may destroy what the gate guards, so none of that may be on the stack.
Task<bool> drained_inside_a_call(Gate* gate) {
  bool resumed = false;
  struct Starter {
    static Task<> run(Gate* g, bool* done) {
      co_await g->drained();
      *done = true;
    }
  };
  Loop::current()->spawn(Starter::run(gate, &resumed));  // the gate is empty already
  const bool inline_when_empty = resumed;
  { const Gate::Pass pass = gate->enter(); }
  const bool inline_at_last_pass = resumed;
  co_await Loop::current()->sleep(std::chrono::milliseconds(1));
  co_return !inline_when_empty && !inline_at_last_pass && resumed;
}

TEST(Gate, Drained_NeverResumesInline) {
  LoopThread loop;
  Gate gate(*loop);
  EXPECT_TRUE(run_on(*loop, drained_inside_a_call(&gate)));
}

}  // namespace
}  // namespace nfsrdma::test

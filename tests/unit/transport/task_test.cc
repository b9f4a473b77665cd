// SPDX-License-Identifier: Apache-2.0
// Task: values, exceptions, lifetimes, and a stack that does not grow.
#include "transport/runtime/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "tests/unit/transport/support/run_on.h"
#include "transport/runtime/value_task.h"

namespace nfsrdma::test {
namespace {

Task<int> give(int value) {
  co_return value;
}

Task<> mark(bool* ran) {
  *ran = true;
  co_return;
}

TEST(Task, NeverAwaited_DoesNotRunAndDropsItsParameters) {
  bool ran = false;
  const Task<> task = mark(&ran);
  EXPECT_FALSE(ran);

  const auto held = std::make_shared<int>(1);
  {
    const auto hold = [](std::shared_ptr<int>) -> Task<> { co_return; };
    const Task<> holds = hold(held);
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

Task<std::unique_ptr<std::string>> make_string() {
  co_return std::make_unique<std::string>("x");
}

Task<std::string> use_string() {
  const std::unique_ptr<std::string> s = co_await make_string();
  co_return *s + "y";
}

TEST(Task, MoveOnlyValue_ReachesTheAwaiter) {
  LoopThread loop;
  EXPECT_EQ(run_on(*loop, use_string()), "xy");
}

Task<int> throws() {
  throw std::runtime_error("from below");
  co_return 1;
}

Task<std::string> catches() {
  try {
    co_await throws();
  } catch (const std::runtime_error& e) {
    co_return e.what();
  }
  co_return "nothing";
}

TEST(Task, Exception_IsRethrownToTheAwaiter) {
  LoopThread loop;
  EXPECT_EQ(run_on(*loop, catches()), "from below");
}

Task<int64_t> sum_ready(int n) {
  int64_t sum = 0;
  for (int i = 0; i < n; ++i) sum += co_await give(1);
  co_return sum;
}

// If each Task were a nested call, it would take some hundred bytes of stack, far more than there is in all.
TEST(Task, LoopOverReadyTasks_StackStaysFlat) {
  LoopThread loop;
  EXPECT_EQ(run_on(*loop, sum_ready(1'000'000)), 1'000'000);
}

Task<int> after_a_turn(Loop* loop, int value) {
  co_await loop->sleep(Duration::zero());
  co_return value;
}

Task<int64_t> sum_mixed(Loop* loop, int n) {
  int64_t sum = 0;
  for (int i = 0; i < n; ++i) {
    if (i % 100 == 0) sum += co_await after_a_turn(loop, 1);
    sum += co_await give(1);
  }
  co_return sum;
}

TEST(Task, LoopOverReadyAndSuspendingTasks_Continues) {
  LoopThread loop;
  EXPECT_EQ(run_on(*loop, sum_mixed(&*loop, 100'000)), 101'000);
}

Task<int> depth(Loop* loop, int n) {
  if (n == 0) co_return co_await after_a_turn(loop, 0);
  co_return 1 + co_await depth(loop, n - 1);
}

TEST(Task, ChainOfAwaiters_UnwindsToTheTop) {
  LoopThread loop;
  EXPECT_EQ(run_on(*loop, depth(&*loop, 200)), 200);
}

Task<unsigned> hop_to(Loop* there) {
  co_await there->resume_here();
  co_return Loop::current()->index();
}

Task<unsigned> follow(Loop* a, Loop* b, int rounds) {
  unsigned on_b = 0;
  for (int i = 0; i < rounds; ++i) {
    on_b += co_await hop_to(b) == b->index() && b->on_loop() ? 1 : 0;
    co_await a->resume_here();
  }
  co_return on_b;
}

// A Task that moves to another loop may end there before its awaiter has returned from starting it.
TEST(Task, EndsOnAnotherLoop_AwaiterGoesOnThere) {
  LoopPool pool(2);
  pool.start();
  constexpr int kRounds = 20'000;
  EXPECT_EQ(run_on(pool[0], follow(&pool[0], &pool[1], kRounds)), static_cast<unsigned>(kRounds));
}

ValueTask<std::unique_ptr<std::string>> string_at_once(bool at_once) {
  if (at_once) return std::make_unique<std::string>("at once");
  return make_string();
}

Task<std::string> use_either(bool at_once) {
  const std::unique_ptr<std::string> s = co_await string_at_once(at_once);
  co_return *s;
}

TEST(ValueTask, GivesItsValueOrThatOfItsTask) {
  LoopThread loop;
  EXPECT_EQ(run_on(*loop, use_either(true)), "at once");
  EXPECT_EQ(run_on(*loop, use_either(false)), "x");
}

TEST(ValueTask, NeverAwaited_DropsWhatItHolds) {
  bool ran = false;
  const auto held = std::make_shared<int>(1);
  {
    const ValueTask<std::shared_ptr<int>> value(held);
    const auto hold = [](std::shared_ptr<int> h, bool* r) -> Task<std::shared_ptr<int>> {
      *r = true;
      co_return h;
    };
    const ValueTask<std::shared_ptr<int>> task(hold(held, &ran));
    EXPECT_EQ(held.use_count(), 3);
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace nfsrdma::test

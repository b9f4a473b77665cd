// SPDX-License-Identifier: Apache-2.0
// Runs coroutines on a loop from a test's thread.
#pragma once

#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "transport/runtime/loop.h"

namespace nfsrdma::test {

namespace detail {
template <class T>
Task<> fulfil(Task<T> task, std::shared_ptr<std::promise<T>> promise) {
  if constexpr (std::is_void_v<T>) {
    co_await std::move(task);
    promise->set_value();
  } else {
    promise->set_value(co_await std::move(task));
  }
}
}  // namespace detail

// Starts `task` on `loop`; the future has its value.
template <class T>
std::future<T> start_on(Loop& loop, Task<T> task) {
  auto promise = std::make_shared<std::promise<T>>();
  std::future<T> future = promise->get_future();
  loop.spawn(detail::fulfil(std::move(task), promise));
  return future;
}

template <class T>
T run_on(Loop& loop, Task<T> task) {
  return start_on(loop, std::move(task)).get();
}

namespace detail {
template <class F>
Task<std::invoke_result_t<F>> invoke(F f) {
  co_return f();
}
}  // namespace detail

// Calls a plain function on `loop` and waits for it.
template <class F>
auto call_on(Loop& loop, F f) {
  return run_on(loop, detail::invoke(std::move(f)));
}

namespace detail {
inline Task<> sleep(Loop* loop, Duration time) {
  co_await loop->sleep(time);
}
}  // namespace detail

// Returns when a timer of `loop` that is armed now for `time` has expired. By then every timer of the loop
// that was armed before for less has expired, however slow the machine is.
inline void let_pass(Loop& loop, Duration time) {
  run_on(loop, detail::sleep(&loop, time));
}
// The same on all loops.
inline void let_pass(LoopPool& loops, Duration time) {
  std::vector<std::future<void>> passing;
  for (unsigned i = 0; i < loops.size(); ++i)
    passing.push_back(start_on(loops[i], detail::sleep(&loops[i], time)));
  for (auto& p : passing) p.get();
}

// Lets the loops run as far as they can without a reply from elsewhere.
inline void turn_every_loop(LoopPool& loops) {
  constexpr int kTurns = 4;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (unsigned i = 0; i < loops.size(); ++i) call_on(loops[i], [] {});
  }
}

// A loop with its thread.
class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.run(); }) {}
  ~LoopThread() {
    loop_.stop();
    thread_.join();
  }
  Loop& operator*() { return loop_; }
  Loop* operator->() { return &loop_; }

 private:
  Loop loop_;
  std::thread thread_;
};

}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// Runs coroutines on a loop from a test's thread.
#pragma once

#include <future>
#include <memory>
#include <thread>
#include <utility>

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

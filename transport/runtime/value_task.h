// SPDX-License-Identifier: Apache-2.0
// ValueTask<T>: a value that is there already, or the Task that makes it. For functions that seldom wait:
// awaiting a value that is there needs no coroutine frame.
//
// Owner: the caller, which awaits it once, on its own loop.
#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include "transport/runtime/task.h"

namespace nfsrdma {

template <class T>
class [[nodiscard]] ValueTask {
 public:
  ValueTask(T value) : value_(std::move(value)) {}              // NOLINT: a function returns either
  ValueTask(Task<T> task) noexcept : task_(std::move(task)) {}  // NOLINT

  auto operator co_await() && noexcept {
    using Waiting = decltype(std::declval<Task<T>>().operator co_await());
    struct Awaiter {
      std::optional<T>& value;
      Waiting waiting;
      bool await_ready() const noexcept { return value.has_value(); }
      bool await_suspend(std::coroutine_handle<> continuation) const noexcept {
        return waiting.await_suspend(continuation);
      }
      T await_resume() const { return value ? std::move(*value) : waiting.await_resume(); }
    };
    return Awaiter{value_, std::move(task_).operator co_await()};
  }

 private:
  std::optional<T> value_;
  Task<T> task_;
};

}  // namespace nfsrdma

// SPDX-License-Identifier: Apache-2.0
// Gate: counts the coroutines, connections and handlers that must end before an object may be destroyed.
//
// Each of them holds a Pass. `co_await gate.drained()` resumes when no Pass is left, always from the loop's
// queue and never inline. The waiter may therefore destroy the object even if functions of the object were on
// the stack when the last Pass went. One loop only.
#pragma once

#include <coroutine>
#include <utility>
#include <vector>

#include "transport/runtime/loop.h"

namespace nfsrdma {

class Gate {
 public:
  explicit Gate(Loop& loop) : loop_(loop) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  class [[nodiscard]] Pass {
   public:
    Pass() = default;
    explicit Pass(Gate& gate) : gate_(&gate) { ++gate.inside_; }
    Pass(Pass&& o) noexcept : gate_(std::exchange(o.gate_, nullptr)) {}
    Pass& operator=(Pass&& o) noexcept {
      std::swap(gate_, o.gate_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr) gate_->leave();
    }

   private:
    Gate* gate_ = nullptr;
  };

  Pass enter() { return Pass(*this); }
  size_t inside() const { return inside_; }

  auto drained() {
    struct Awaiter {
      Gate& gate;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> h) {
        if (gate.inside_ == 0) {
          gate.loop_.post(h);
        } else {
          gate.waiters_.push_back(h);
        }
      }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }

 private:
  void leave() {
    if (--inside_ != 0) return;
    for (std::coroutine_handle<> h : std::exchange(waiters_, {})) loop_.post(h);
  }

  Loop& loop_;
  size_t inside_ = 0;
  std::vector<std::coroutine_handle<>> waiters_;
};

}  // namespace nfsrdma

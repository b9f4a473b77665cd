// SPDX-License-Identifier: Apache-2.0
// Loop: one thread, one Asio io_context(1), everything that is pinned to it (DESIGN.md section 3).
//
// Owner: main (or a test) creates loops before anything that runs on them and destroys them last. run() is
// called by exactly one thread, which becomes the loop's thread until it returns. Everything but post(),
// spawn() and stop() is for that thread only; functions named *_ol ("on loop") assert it.
//
// A request never blocks a loop: waiting is co_await on a timer, a descriptor or one of sync.h's queues.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "transport/runtime/task.h"

namespace nfsrdma {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

class Loop {
 public:
  explicit Loop(unsigned index = 0);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  unsigned index() const { return index_; }
  asio::io_context& context() { return context_; }

  // Runs until stop(); the calling thread becomes the loop's.
  void run();
  // Any thread. Work that is still queued when the loop stops is dropped.
  void stop();

  // Any thread: run `fn` (or resume `h`) on this loop, later.
  void post(std::function<void()> fn);
  void post(std::coroutine_handle<> h);

  // A turn: what one event brings about. Whoever takes events from a descriptor makes one, so that what is
  // put off to its end needs no round through the event queue, which is a system call. Turns within a turn
  // are part of it.
  class [[nodiscard]] Turn {
   public:
    explicit Turn(Loop& loop) : loop_(loop), outermost_(!std::exchange(loop.in_turn_, true)) {}
    ~Turn() {
      if (outermost_) loop_.end_turn();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Loop& loop_;
    const bool outermost_;
  };
  // Any thread: runs `fn` at the end of the present turn; outside of one, and from elsewhere, as post().
  void at_end_of_turn(std::function<void()> fn);

  // Any thread: start a detached coroutine on this loop. It owns itself; an exception that escapes it aborts.
  void spawn(Task<> task);
  // Detached coroutines that have not finished; for drains and for leak checks in tests.
  size_t live_tasks() const { return live_tasks_.load(std::memory_order_acquire); }

  // The loop of the calling thread, or null.
  static Loop* current();
  bool on_loop() const { return current() == this; }

  // co_await loop.sleep(d): resumes on this loop. Not cancellable; for cancellable waits use Timer.
  auto sleep(Duration d);
  // co_await loop.resume_here(): continue on this loop (no-op when already there).
  auto resume_here();

 private:
  void end_turn();

  unsigned index_;
  asio::io_context context_;
  std::atomic<size_t> live_tasks_{0};
  bool in_turn_ = false;
  std::vector<std::function<void()>> ending_;  // to be run at the turn's end
};

// A re-armable timer on one loop. wait_until/wait_for end with true at expiry, false when cancelled or
// re-armed. At most one waiter. Loop thread only.
class Timer {
 public:
  explicit Timer(Loop& loop) : timer_(loop.context()) {}

  auto wait_until(TimePoint t) { return Awaiter{timer_, t}; }
  auto wait_for(Duration d) { return Awaiter{timer_, Clock::now() + d}; }
  void cancel() { timer_.cancel(); }

 private:
  struct Awaiter {
    asio::steady_timer& timer;
    TimePoint when;
    bool expired = false;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) {
      timer.expires_at(when);
      timer.async_wait([this, h](const asio::error_code& ec) {
        expired = !ec;
        h.resume();
      });
    }
    bool await_resume() const noexcept { return expired; }
  };
  asio::steady_timer timer_;
};

inline auto Loop::sleep(Duration d) {
  struct Awaiter {
    asio::steady_timer timer;
    Duration duration;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) {
      timer.expires_after(duration);
      timer.async_wait([h](const asio::error_code&) { h.resume(); });
    }
    void await_resume() const noexcept {}
  };
  return Awaiter{asio::steady_timer(context_), d};
}

inline auto Loop::resume_here() {
  struct Awaiter {
    Loop& loop;
    bool await_ready() const noexcept { return loop.on_loop(); }
    void await_suspend(std::coroutine_handle<> h) { loop.post(h); }
    void await_resume() const noexcept {}
  };
  return Awaiter{*this};
}

// Starts and joins the threads of loops 0..n-1. Loop 0 may instead be run by the caller (run_first).
class LoopPool {
 public:
  explicit LoopPool(unsigned n);
  ~LoopPool();  // stops and joins
  unsigned size() const { return static_cast<unsigned>(loops_.size()); }
  Loop& operator[](unsigned i) { return *loops_[i]; }
  // Starts a thread for every loop.
  void start();
  void stop_and_join();

 private:
  std::vector<std::unique_ptr<Loop>> loops_;
  std::vector<std::thread> threads_;
};

}  // namespace nfsrdma

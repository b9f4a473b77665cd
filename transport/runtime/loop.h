// SPDX-License-Identifier: Apache-2.0
// Loop: one thread, one Asio io_context, and all objects that belong to that thread
// (docs/dev/threads-and-locks.md).
//
// Owner: main (or a test) creates loops before anything that runs on them, and destroys them last. run() is
// called by exactly one thread, which is the loop's thread until run() returns. post(), at_end_of_turn(),
// spawn() and stop() may be called by any thread; everything else belongs to the loop's thread. Functions
// named *_ol ("on loop") must be called on that thread.
//
// A request never blocks a loop: it waits by co_await on a timer, a descriptor or a queue of sync.h.
#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "transport/runtime/task.h"

// Asio's headers take a second to compile, and nearly every file includes this one: only files that use a
// descriptor include them.
namespace asio {
class io_context;
}

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
  // Whoever uses it includes <asio/io_context.hpp>.
  asio::io_context& context() { return *context_; }

  // Runs until stop(); the calling thread becomes the loop's.
  void run();
  // Any thread. Drops work that is still queued.
  void stop();

  // Any thread: run `fn` (or resume `h`) on this loop, later.
  void post(std::function<void()> fn);
  void post(std::coroutine_handle<> h);

  // A turn is the handling of one event. Code that takes events from a descriptor makes a Turn, so that work
  // put off to the end of the turn needs no round through the event queue, which costs a system call. A Turn
  // made inside another Turn is part of the outer one.
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
  // Any thread. Runs `fn` at the end of the current turn. Outside a turn, or when called from another thread,
  // it does the same as post().
  void at_end_of_turn(std::function<void()> fn);
  // The same for `owner->*Work`, without allocating: at_end_of_turn<&Connection::flush>(self).
  template <auto Work, class Owner>
  void at_end_of_turn(std::shared_ptr<Owner> owner) {
    put_off({std::move(owner), [](void* o) { (static_cast<Owner*>(o)->*Work)(); }});
  }

  // Any thread. Starts a detached coroutine on this loop. It owns itself; an exception that escapes it aborts
  // the process.
  void spawn(Task<> task);
  // The number of detached coroutines that have not finished; for draining, and for leak checks in tests.
  size_t live_tasks() const { return live_tasks_.load(std::memory_order_acquire); }

  // The loop of the calling thread, or null.
  static Loop* current();
  bool on_loop() const { return current() == this; }

  // co_await loop.sleep(d): resumes on this loop. Cannot be cancelled; use Timer for a wait that can.
  auto sleep(Duration d);
  // co_await loop.resume_here(): continues on this loop (does nothing when already there).
  auto resume_here();

 private:
  struct PutOff {
    std::shared_ptr<void> owner;
    void (*work)(void* owner);
  };
  void put_off(PutOff work);
  void end_turn();

  unsigned index_;
  const std::unique_ptr<asio::io_context> context_;
  std::atomic<size_t> live_tasks_{0};
  bool in_turn_ = false;
  std::vector<PutOff> ending_;  // run at the end of the turn
};

// A timer on one loop that can be armed again. wait_until() and wait_for() return true at expiry, false when
// the timer is cancelled or armed again. At most one waiter. Loop thread only.
class Timer {
 public:
  explicit Timer(Loop& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  auto wait_until(TimePoint t) { return Awaiter{*this, t}; }
  auto wait_for(Duration d) { return Awaiter{*this, Clock::now() + d}; }
  void cancel();

 private:
  struct Awaiter {
    Timer& timer;
    TimePoint when;
    bool expired = false;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) { timer.arm(*this, h); }
    bool await_resume() const noexcept { return expired; }
  };
  struct Asio;

  // Sets `waiter.expired` and resumes `h`, later.
  void arm(Awaiter& waiter, std::coroutine_handle<> h);

  const std::unique_ptr<Asio> asio_;
};

inline auto Loop::sleep(Duration d) {
  struct Awaiter {
    Timer timer;
    Duration duration;
    std::optional<decltype(timer.wait_for(duration))> wait;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) { wait.emplace(timer.wait_for(duration)).await_suspend(h); }
    void await_resume() const noexcept {}
  };
  return Awaiter{Timer(*this), d, std::nullopt};
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

// Starts and joins the threads of loops 0 to n-1.
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

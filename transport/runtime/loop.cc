// SPDX-License-Identifier: Apache-2.0
#include "transport/runtime/loop.h"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace nfsrdma {
namespace {

thread_local Loop* current_loop = nullptr;

// Root of a detached coroutine: destroys its own frame at the end.
struct Detached {
  struct promise_type : detail::InFrameStore {
    Detached get_return_object() noexcept {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept {
      try {
        throw;
      } catch (const std::exception& e) {
        std::fprintf(stderr, "nfsrdma: exception escaped a coroutine: %s\n", e.what());
      } catch (...) {
        std::fprintf(stderr, "nfsrdma: unknown exception escaped a coroutine\n");
      }
      std::abort();
    }
  };
  std::coroutine_handle<promise_type> handle;
};

Detached run_detached(Task<> task, std::atomic<size_t>& live) {
  {
    Task<> mine = std::move(task);
    co_await std::move(mine);
  }  // destroys all that the coroutine holds before it stops counting
  live.fetch_sub(1, std::memory_order_release);
}

}  // namespace

// Descriptors are used on the loop's thread only, so the reactor need not lock them (55 instructions each
// time, six times for a small READ; 2026-11-30).
Loop::Loop(unsigned index)
    : index_(index), context_(std::make_unique<asio::io_context>(ASIO_CONCURRENCY_HINT_UNSAFE_IO)) {}
Loop::~Loop() = default;

void Loop::run() {
  current_loop = this;
  auto guard = asio::make_work_guard(*context_);
  context_->run();
  current_loop = nullptr;
}

void Loop::stop() {
  context_->stop();
}

void Loop::post(std::function<void()> fn) {
  asio::post(*context_, std::move(fn));
}

void Loop::post(std::coroutine_handle<> h) {
  asio::post(*context_, [h] { h.resume(); });
}

void Loop::at_end_of_turn(std::function<void()> fn) {
  put_off({std::make_shared<std::function<void()>>(std::move(fn)),
           [](void* f) { (*static_cast<std::function<void()>*>(f))(); }});
}

void Loop::put_off(PutOff work) {
  if (!on_loop() || !in_turn_) return post([work = std::move(work)] { work.work(work.owner.get()); });
  ending_.push_back(std::move(work));
}

// A function that puts off more work extends this turn.
void Loop::end_turn() {
  for (size_t i = 0; i < ending_.size(); ++i) {
    const PutOff put_off = std::move(ending_[i]);
    put_off.work(put_off.owner.get());
  }
  ending_.clear();
  in_turn_ = false;
}

void Loop::spawn(Task<> task) {
  live_tasks_.fetch_add(1, std::memory_order_relaxed);
  Detached root = run_detached(std::move(task), live_tasks_);
  if (on_loop()) {
    root.handle.resume();
  } else {
    post(std::coroutine_handle<>(root.handle));
  }
}

Loop* Loop::current() {
  return current_loop;
}

struct Timer::Asio {
  explicit Asio(asio::io_context& context) : timer(context) {}
  asio::steady_timer timer;
};

Timer::Timer(Loop& loop) : asio_(std::make_unique<Asio>(loop.context())) {}
Timer::~Timer() = default;

void Timer::cancel() {
  asio_->timer.cancel();
}

void Timer::arm(Awaiter& waiter, std::coroutine_handle<> h) {
  asio_->timer.expires_at(waiter.when);
  asio_->timer.async_wait([&waiter, h](const asio::error_code& ec) {
    waiter.expired = !ec;
    h.resume();
  });
}

LoopPool::LoopPool(unsigned n) {
  for (unsigned i = 0; i < n; ++i) loops_.push_back(std::make_unique<Loop>(i));
}

LoopPool::~LoopPool() {
  stop_and_join();
}

void LoopPool::start() {
  for (auto& loop : loops_) threads_.emplace_back([&l = *loop] { l.run(); });
}

void LoopPool::stop_and_join() {
  for (auto& loop : loops_) loop->stop();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace nfsrdma

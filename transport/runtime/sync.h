// SPDX-License-Identifier: Apache-2.0
// Waiting across loops: WaitQueue, AsyncMutex, Completion.
//
// A coroutine waits on its own loop and is resumed on that loop, whichever loop wakes it. Each object has one
// short Mutex inside, never held across a resumption. No object allocates: waiters live in the frames of
// the waiting coroutines.
#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include "transport/runtime/check.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma {

// A FIFO of suspended coroutines, guarded by a mutex of its owner: an asynchronous condition variable.
//
//     MutexLock lock(mutex);
//     while (!condition) co_await queue.wait(lock);     // unlocks while suspended, NOT re-locked: see wait()
class WaitQueue {
 public:
  struct Waiter {
    Loop* loop = nullptr;
    std::coroutine_handle<> handle;
    Waiter* next = nullptr;
    Waiter* prev = nullptr;
    bool queued = false;
    bool cancelled = false;
  };

  WaitQueue() = default;
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;
  ~WaitQueue() { NFSRDMA_CHECK(head_ == nullptr); }

  // Enqueues the coroutine, suspends it and unlocks `lock`. After resumption the lock is NOT held. Returns
  // false when cancel() ended the wait.
  auto wait(MutexLock& lock) { return Awaiter(*this, lock, nullptr); }
  // As wait(). *out is set to a handle for cancel(), valid while waiting.
  auto wait(MutexLock& lock, Waiter** out) { return Awaiter(*this, lock, out); }

  // Call these three with the owner's mutex held.
  bool notify_one();
  void notify_all();
  void cancel(Waiter* waiter);
  bool empty() const { return head_ == nullptr; }

 private:
  class Awaiter {
   public:
    Awaiter(WaitQueue& queue, MutexLock& lock, Waiter** out) : queue_(queue), lock_(lock), out_(out) {}
    bool await_ready() const noexcept { return false; }
    // Unlocks what its caller locked.
    void await_suspend(std::coroutine_handle<> h) NFSRDMA_UNCHECKED_LOCKS {
      waiter_.loop = Loop::current();
      NFSRDMA_CHECK(waiter_.loop != nullptr);
      waiter_.handle = h;
      queue_.push(&waiter_);
      if (out_ != nullptr) *out_ = &waiter_;
      // After unlock() another loop may resume this coroutine and destroy this frame: do not touch it any
      // more.
      lock_.hand_over().unlock();
    }
    bool await_resume() const noexcept { return !waiter_.cancelled; }

   private:
    WaitQueue& queue_;
    MutexLock& lock_;
    Waiter** out_;
    Waiter waiter_;
  };

  void push(Waiter* w);
  void remove(Waiter* w);

  Waiter* head_ = nullptr;
  Waiter* tail_ = nullptr;
};

// A fair mutex that may be held across co_await. `auto guard = co_await mutex.lock();`
class AsyncMutex {
 public:
  class [[nodiscard]] Guard {
   public:
    Guard() = default;
    explicit Guard(AsyncMutex* m) : mutex_(m) {}
    Guard(Guard&& o) noexcept : mutex_(std::exchange(o.mutex_, nullptr)) {}
    Guard& operator=(Guard&& o) noexcept {
      if (this != &o) {
        unlock();
        mutex_ = std::exchange(o.mutex_, nullptr);
      }
      return *this;
    }
    ~Guard() { unlock(); }
    void unlock() {
      if (AsyncMutex* m = std::exchange(mutex_, nullptr)) m->unlock();
    }
    explicit operator bool() const { return mutex_ != nullptr; }

   private:
    AsyncMutex* mutex_ = nullptr;
  };

  Task<Guard> lock();
  bool try_lock();
  bool locked() const;

 private:
  void unlock();
  mutable Mutex mutex_;
  bool locked_ NFSRDMA_GUARDED_BY(mutex_) = false;
  WaitQueue queue_ NFSRDMA_GUARDED_BY(mutex_);
};

// Hands one value to one waiter: from the reader of replies to the coroutine that made the call. If both are
// on the same loop, set() resumes the waiter inline: call set() last.
template <class T>
class Completion {
 public:
  // Any loop, once.
  void set(T value) {
    std::coroutine_handle<> h;
    Loop* loop = nullptr;
    {
      MutexLock lock(mutex_);
      value_.emplace(std::move(value));
      h = std::exchange(handle_, {});
      loop = loop_;
    }
    if (!h) return;
    if (loop->on_loop()) {
      h.resume();
    } else {
      loop->post(h);
    }
  }
  auto wait() {
    struct Awaiter {
      Completion& c;
      bool await_ready() const noexcept { return false; }  // await_suspend() looks, under one lock
      bool await_suspend(std::coroutine_handle<> h) {
        MutexLock lock(c.mutex_);
        if (c.value_) return false;
        c.loop_ = Loop::current();
        c.handle_ = h;
        return true;
      }
      // The value is there, and nobody else uses it any more.
      T await_resume() NFSRDMA_UNCHECKED_LOCKS { return std::move(*c.value_); }
    };
    return Awaiter{*this};
  }

 private:
  Mutex mutex_;
  std::optional<T> value_ NFSRDMA_GUARDED_BY(mutex_);
  std::coroutine_handle<> handle_ NFSRDMA_GUARDED_BY(mutex_);
  Loop* loop_ NFSRDMA_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace nfsrdma

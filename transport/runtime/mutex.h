// SPDX-License-Identifier: Apache-2.0
// Mutex, MutexLock and ConditionVariable, with the attributes of clang's thread-safety analysis. A member
// that a mutex guards has NFSRDMA_GUARDED_BY. A function that must be called with a mutex held has
// NFSRDMA_REQUIRES. scripts/test lets clang check both (docs/dev/threads-and-locks.md). A mutex that is not
// a leaf names its rank where it is declared (lock_rank.h).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "transport/runtime/lock_rank.h"

#ifdef __clang__
#define NFSRDMA_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define NFSRDMA_THREAD_SAFETY(attribute)
#endif
#define NFSRDMA_GUARDED_BY(mutex) NFSRDMA_THREAD_SAFETY(guarded_by(mutex))
#define NFSRDMA_REQUIRES(mutex) NFSRDMA_THREAD_SAFETY(exclusive_locks_required(mutex))
#define NFSRDMA_ACQUIRE(...) NFSRDMA_THREAD_SAFETY(exclusive_lock_function(__VA_ARGS__))
#define NFSRDMA_TRY_ACQUIRE(...) NFSRDMA_THREAD_SAFETY(exclusive_trylock_function(__VA_ARGS__))
#define NFSRDMA_RELEASE(...) NFSRDMA_THREAD_SAFETY(unlock_function(__VA_ARGS__))
// For a function whose locks the analysis cannot follow; a comment beside it says why.
#define NFSRDMA_UNCHECKED_LOCKS NFSRDMA_THREAD_SAFETY(no_thread_safety_analysis)

namespace nfsrdma {

// A mutex in one futex word. It has 4 bytes, because there may be a million of them, and takes 11
// instructions; std::mutex has 40 bytes and takes 45, both without a waiter (x86-64, g++ 12, 2026-11-29).
// Any thread; hold it only for a short time.
class NFSRDMA_THREAD_SAFETY(capability("mutex")) FutexMutex {
 public:
  FutexMutex() = default;
  explicit FutexMutex(LockRank) {}
  FutexMutex(const FutexMutex&) = delete;
  FutexMutex& operator=(const FutexMutex&) = delete;

  bool try_lock() NFSRDMA_TRY_ACQUIRE(true) {
    uint32_t free = kFree;
    return state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void lock() NFSRDMA_ACQUIRE() NFSRDMA_UNCHECKED_LOCKS {
    if (!try_lock()) [[unlikely]]
      wait_and_lock();
  }
  void unlock() NFSRDMA_RELEASE() {
    if (state_.exchange(kFree, std::memory_order_release) == kWaitedFor) [[unlikely]]
      state_.notify_one();
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kWaitedFor = 2;
  // A thread that had to wait takes the lock as kWaitedFor, because other threads may still be waiting.
  [[gnu::noinline]] void wait_and_lock() {
    while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree)
      state_.wait(kWaitedFor, std::memory_order_relaxed);
  }
  std::atomic<uint32_t> state_{kFree};
};

#ifdef NFSRDMA_SANITIZED
// Under a sanitizer Mutex is a std::mutex, because ThreadSanitizer knows the order in which threads take
// those, and it checks the ranks.
class NFSRDMA_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  explicit Mutex(LockRank rank) : rank_(rank) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() NFSRDMA_ACQUIRE() {
    HeldRanks::check(rank_);
    mutex_.lock();
    HeldRanks::locked(rank_);
  }
  // Allowed in any order: a thread that does not wait for a mutex does not wait for the thread that holds it.
  bool try_lock() NFSRDMA_TRY_ACQUIRE(true) {
    if (!mutex_.try_lock()) return false;
    HeldRanks::locked(rank_);
    return true;
  }
  void unlock() NFSRDMA_RELEASE() {
    HeldRanks::unlocked(rank_);
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  const LockRank rank_ = LockRank::kLeaf;
};
#else
using Mutex = FutexMutex;
#endif

// Holds a Mutex until the end of its scope. WaitQueue::wait() and unlock() end that earlier.
class NFSRDMA_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) NFSRDMA_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() NFSRDMA_RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() NFSRDMA_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() NFSRDMA_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  // Locks after WaitQueue::wait(), which has unlocked: the analysis does not see that.
  void lock_again() NFSRDMA_UNCHECKED_LOCKS {
    mutex_.lock();
    held_ = true;
  }
  // The caller then unlocks the mutex. This MutexLock may be destroyed before that.
  Mutex& hand_over() {
    held_ = false;
    return mutex_;
  }
  bool held() const { return held_; }

 private:
  friend class ConditionVariable;
  Mutex& mutex_;
  bool held_ = true;
};

// The lock is held before and after each wait, as far as the analysis is concerned.
class ConditionVariable {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }
  void wait(MutexLock& lock) { changed_.wait(lock.mutex_); }
  // Returns false if `until` passed before a notification.
  template <class Clock, class Duration>
  bool wait_until(MutexLock& lock, const std::chrono::time_point<Clock, Duration>& until) {
    return changed_.wait_until(lock.mutex_, until) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable_any changed_;
};

}  // namespace nfsrdma

// SPDX-License-Identifier: Apache-2.0
// Mutex, MutexLock and ConditionVariable: those of the standard library, with the attributes of clang's
// thread-safety analysis. What a mutex guards says so with NFSRDMA_GUARDED_BY, a function that must be called
// with it held with NFSRDMA_REQUIRES; scripts/test lets clang check both (docs/dev/threads-and-locks.md).
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

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

class NFSRDMA_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() NFSRDMA_ACQUIRE() { mutex_.lock(); }
  bool try_lock() NFSRDMA_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() NFSRDMA_RELEASE() { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

// Holds a Mutex or SmallMutex until the end of its scope. WaitQueue::wait() and unlock() end that earlier.
template <class M>
class NFSRDMA_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(M& mutex) NFSRDMA_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
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
  // After WaitQueue::wait(): the analysis does not see that it unlocks.
  void lock_again() NFSRDMA_UNCHECKED_LOCKS {
    mutex_.lock();
    held_ = true;
  }
  // The caller unlocks. The lock may be destroyed before that.
  M& hand_over() {
    held_ = false;
    return mutex_;
  }
  bool held() const { return held_; }

 private:
  friend class ConditionVariable;
  M& mutex_;
  bool held_ = true;
};

// The lock is held before and after each wait, as far as the analysis is concerned.
class ConditionVariable {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }
  void wait(MutexLock<Mutex>& lock) {
    std::unique_lock native(lock.mutex_.mutex_, std::adopt_lock);
    changed_.wait(native);
    native.release();
  }
  // False: `until` came first.
  template <class Clock, class Duration>
  bool wait_until(MutexLock<Mutex>& lock, const std::chrono::time_point<Clock, Duration>& until) {
    std::unique_lock native(lock.mutex_.mutex_, std::adopt_lock);
    const bool told = changed_.wait_until(native, until) == std::cv_status::no_timeout;
    native.release();
    return told;
  }

 private:
  std::condition_variable changed_;
};

}  // namespace nfsrdma

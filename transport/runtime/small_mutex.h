// SPDX-License-Identifier: Apache-2.0
// SmallMutex: a mutex of 4 bytes instead of std::mutex' 40, for objects of which there are a million. Any
// thread; hold it only for a short time.
#pragma once

#include <atomic>
#include <cstdint>

#include "transport/runtime/mutex.h"

namespace nfsrdma {

class NFSRDMA_THREAD_SAFETY(capability("mutex")) SmallMutex {
 public:
  SmallMutex() = default;
  SmallMutex(const SmallMutex&) = delete;
  SmallMutex& operator=(const SmallMutex&) = delete;

  bool try_lock() NFSRDMA_TRY_ACQUIRE(true) {
    uint32_t free = kFree;
    return state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  // A thread that had to wait takes the lock as kWaitedFor, because other threads may still be waiting.
  void lock() NFSRDMA_ACQUIRE() NFSRDMA_UNCHECKED_LOCKS {
    if (try_lock()) return;
    while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree)
      state_.wait(kWaitedFor, std::memory_order_relaxed);
  }
  void unlock() NFSRDMA_RELEASE() {
    if (state_.exchange(kFree, std::memory_order_release) == kWaitedFor) state_.notify_one();
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kWaitedFor = 2;
  std::atomic<uint32_t> state_{kFree};
};

}  // namespace nfsrdma

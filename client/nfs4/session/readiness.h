// SPDX-License-Identifier: Apache-2.0
// Readiness: whether the session can be used, for coroutines of other loops that wait for it. Any loop.
#pragma once

#include <atomic>

#include "client/nfs4/protocol_types.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::client::nfs4 {

class Readiness {
 public:
  // `stopping` is set before wake(); waiting then ends.
  explicit Readiness(const std::atomic<bool>& stopping) : stopping_(stopping) {}

  void set(bool ready) {
    MutexLock lock(mutex_);
    ready_ = ready;
    if (ready) waiters_.notify_all();
  }
  void wake() {
    MutexLock lock(mutex_);
    waiters_.notify_all();
  }
  // False: the session is being stopped.
  Task<bool> wait() {
    for (;;) {
      MutexLock lock(mutex_);
      if (stopping_) co_return false;
      if (ready_) co_return true;
      co_await waiters_.wait(lock);
    }
  }

 private:
  const std::atomic<bool>& stopping_;
  Mutex mutex_;
  WaitQueue waiters_ NFSRDMA_GUARDED_BY(mutex_);
  bool ready_ NFSRDMA_GUARDED_BY(mutex_) = false;
};

}  // namespace nfsrdma::client::nfs4

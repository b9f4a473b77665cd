// SPDX-License-Identifier: Apache-2.0
#include "client/api/filesystem.h"

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

void Cancellation::cancel() {
  std::function<void()> callback;
  {
    MutexLock lock(mutex_);
    if (cancelled_.exchange(true, std::memory_order_acq_rel)) return;
    callback = std::move(callback_);
  }
  if (callback) callback();
}

void Cancellation::on_cancel(std::function<void()> fn) {
  {
    MutexLock lock(mutex_);
    if (!cancelled_.load(std::memory_order_acquire)) {
      callback_ = std::move(fn);
      return;
    }
  }
  if (fn) fn();
}

}  // namespace nfsrdma::client

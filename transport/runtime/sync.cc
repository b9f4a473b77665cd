// SPDX-License-Identifier: Apache-2.0
#include "transport/runtime/sync.h"

namespace nfsrdma {

void WaitQueue::push(Waiter* w) {
  w->prev = tail_;
  w->next = nullptr;
  w->queued = true;
  (tail_ != nullptr ? tail_->next : head_) = w;
  tail_ = w;
}

void WaitQueue::remove(Waiter* w) {
  (w->prev != nullptr ? w->prev->next : head_) = w->next;
  (w->next != nullptr ? w->next->prev : tail_) = w->prev;
  w->queued = false;
}

bool WaitQueue::notify_one() {
  Waiter* w = head_;
  if (w == nullptr) return false;
  remove(w);
  w->loop->post(w->handle);
  return true;
}

void WaitQueue::notify_all() {
  while (notify_one()) {
  }
}

void WaitQueue::cancel(Waiter* w) {
  if (!w->queued) return;
  remove(w);
  w->cancelled = true;
  w->loop->post(w->handle);
}

Task<AsyncMutex::Guard> AsyncMutex::lock() {
  MutexLock lock(mutex_);
  if (!locked_) {
    locked_ = true;
    co_return Guard(this);
  }
  co_await queue_.wait(lock);
  co_return Guard(this);  // unlock() handed the mutex over: locked_ stayed true
}

bool AsyncMutex::try_lock() {
  MutexLock lock(mutex_);
  return !std::exchange(locked_, true);
}

bool AsyncMutex::locked() const {
  MutexLock lock(mutex_);
  return locked_;
}

void AsyncMutex::unlock() {
  MutexLock lock(mutex_);
  if (!queue_.notify_one()) locked_ = false;
}

}  // namespace nfsrdma

// SPDX-License-Identifier: Apache-2.0
#include "fuse/operation_tracer.h"

#include <algorithm>
#include <utility>

#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

bool OperationTracer::Watch::wants(const TracedOperation& done) const {
  return (filter_.operations >> static_cast<unsigned>(done.operation) & 1) != 0 &&
         done.took >= filter_.at_least;
}

void OperationTracer::Watch::add(const TracedOperation& done) {
  MutexLock lock(mutex_);
  if (kept_.size() == kMostKept) {
    kept_.pop_front();
    ++lost_;
  }
  kept_.push_back(done);
}

std::vector<TracedOperation> OperationTracer::Watch::take(size_t most) {
  MutexLock lock(mutex_);
  const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(std::min(most, kept_.size()));
  std::vector<TracedOperation> taken(std::make_move_iterator(kept_.begin()), std::make_move_iterator(end));
  kept_.erase(kept_.begin(), end);
  return taken;
}

uint64_t OperationTracer::Watch::take_lost() {
  MutexLock lock(mutex_);
  return std::exchange(lost_, 0);
}

std::shared_ptr<OperationTracer::Watch> OperationTracer::watch(Filter filter) {
  auto watch = std::make_shared<Watch>(filter);
  MutexLock lock(mutex_);
  watches_.push_back(watch);
  on_.store(true, std::memory_order_relaxed);
  return watch;
}

void OperationTracer::answered(const TracedOperation& done) {
  MutexLock lock(mutex_);
  std::erase_if(watches_, [&](const std::weak_ptr<Watch>& weak) {
    const auto watch = weak.lock();
    if (watch && watch->wants(done)) watch->add(done);
    return watch == nullptr;
  });
  if (watches_.empty()) on_.store(false, std::memory_order_relaxed);
}

}  // namespace nfsrdma::fuse

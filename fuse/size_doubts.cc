// SPDX-License-Identifier: Apache-2.0
#include "fuse/size_doubts.h"

#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

void SizeDoubts::begin(const client::Node& node, TimePoint now) {
  MutexLock lock(mutex_);
  if (since_.size() >= kMost) since_.clear();
  since_[&node] = now;
  count_ = since_.size();
}

void SizeDoubts::end(const client::Node& node, TimePoint then) {
  if (count_ == 0) return;
  MutexLock lock(mutex_);
  const auto at = since_.find(&node);
  if (at == since_.end() || at->second > then) return;
  since_.erase(at);
  count_ = since_.size();
}

bool SizeDoubts::about(const client::Node& node) {
  if (count_ == 0) return false;
  MutexLock lock(mutex_);
  return since_.contains(&node);
}

}  // namespace nfsrdma::fuse

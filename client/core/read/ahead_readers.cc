// SPDX-License-Identifier: Apache-2.0
#include "client/core/read/ahead_readers.h"

#include "client/core/read/read_pace.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

void AheadReaders::sent(const void* descriptor, TimePoint now) {
  MutexLock lock(mutex_);
  drop_old(now);
  const auto [at, added] = places_.try_emplace(descriptor);
  if (added) at->second = sent_.emplace(sent_.end(), descriptor, now);
  at->second->second = now;
  sent_.splice(sent_.end(), sent_, at->second);
}

void AheadReaders::closed(const void* descriptor) {
  MutexLock lock(mutex_);
  const auto at = places_.find(descriptor);
  if (at == places_.end()) return;
  sent_.erase(at->second);
  places_.erase(at);
}

size_t AheadReaders::count_with(const void* descriptor, TimePoint now) {
  MutexLock lock(mutex_);
  drop_old(now);
  return places_.size() + (places_.contains(descriptor) ? 0 : 1);
}

void AheadReaders::drop_old(TimePoint now) {
  while (!sent_.empty() && sent_.front().second + ReadPace::kMemory < now) {
    places_.erase(sent_.front().first);
    sent_.pop_front();
  }
}

}  // namespace nfsrdma::client

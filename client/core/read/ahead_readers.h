// SPDX-License-Identifier: Apache-2.0
// AheadReaders: counts the open file descriptions that have read ahead lately. Their data has to stay in the
// cache side by side until it is read, so each gets an equal part of the room.
//
// One per mount, any thread, one short lock. Time is a parameter.
#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

class AheadReaders {
 public:
  // A READ is sent through `descriptor`. The address is only its identity and is never dereferenced.
  void sent(const void* descriptor, TimePoint now);
  void closed(const void* descriptor);
  // The number of descriptors that read ahead, `descriptor` included in any case. A descriptor counts for
  // ReadPace::kMemory after its last READ.
  size_t count_with(const void* descriptor, TimePoint now);

 private:
  using Sent = std::list<std::pair<const void*, TimePoint>>;
  void drop_old(TimePoint now) NFSRDMA_REQUIRES(mutex_);

  Mutex mutex_;
  Sent sent_ NFSRDMA_GUARDED_BY(mutex_);  // the latest READ of each; oldest first
  std::unordered_map<const void*, Sent::iterator> places_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::client

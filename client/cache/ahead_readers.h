// SPDX-License-Identifier: Apache-2.0
// AheadReaders: through how many open file descriptions was read ahead lately. What they read ahead has to
// lie side by side until it is asked for: the room is theirs in equal parts.
//
// One per mount, any thread, one short lock. Time comes in as a parameter.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "transport/runtime/loop.h"

namespace nfsrdma::client {

class AheadReaders {
 public:
  // A descriptor through which a READ is sent; it is named by its address, and not looked into.
  void sent(const void* descriptor, TimePoint now);
  void closed(const void* descriptor);
  // With `descriptor`, whether or not it is one of them. Who has sent nothing for ReadPace::kMemory is not.
  size_t count_with(const void* descriptor, TimePoint now);

 private:
  using Sent = std::list<std::pair<const void*, TimePoint>>;
  void drop_old(TimePoint now);

  std::mutex mutex_;
  Sent sent_;  // the latest of each; what is oldest is first
  std::unordered_map<const void*, Sent::iterator> places_;
};

}  // namespace nfsrdma::client

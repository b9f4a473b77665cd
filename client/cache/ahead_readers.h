// AheadReaders: through how many open file descriptions was read ahead lately. What they read ahead has to
// lie side by side until it is asked for: the room is theirs in equal parts. So is the way to the server, as
// long as all of them use their parts: what more is under way than fills it waits in queues, and whatever
// else is asked for waits behind it.
//
// One per mount, any thread, one short lock. Time comes in as a parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "transport/runtime/loop.h"

namespace nfsrdma::client {

// How far may be read ahead, in bytes.
struct AheadReach {
  uint64_t window = 0;  // from where the application is
  uint64_t way = 0;     // what fills the way: under way for everybody
  uint64_t part = 0;    // of it, each reader's

  // Of one READ, at most `largest`: several of them in a window, so that the server works on one while
  // another travels.
  size_t piece(size_t largest) const;
  // May `bytes` more be sent, while `own` of this reader are under way and `all` of everybody? What nobody
  // uses anybody may; who has less than his part need not wait for those who have more. One READ each is no
  // more than asking for it would be.
  bool may_send(uint64_t bytes, uint64_t own, uint64_t all) const;
};

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

// SPDX-License-Identifier: Apache-2.0
// AttributeCache: the attributes of one file and how long they may be believed, by nfs(5)'s rules.
//
// A value inside a Node, guarded by the Node's lock. Pure: time comes in as a parameter. The timeout starts
// at the minimum, doubles each time the server confirms that nothing changed, and falls back to the minimum
// when something did.
//
// Replies may arrive out of order: each update says when its request was started and when its answer arrived
// (counts from 1, not times). Of two requests that were under way together the server's order is unknown: the
// answer whose change attribute is ahead stays, and is asked for again before anybody relies on it, since a
// change attribute need not grow (RFC 8881 section 5.8.1.4), nor move with each change: a clock's has ticks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "client/filesystem.h"

namespace nfsrdma::client {

class AttributeCache {
 public:
  struct Limits {
    Duration min{};
    Duration max{};
  };
  enum class Update : uint8_t {
    kFirst,      // nothing was known before
    kUnchanged,  // same change attribute
    kChanged,    // another change attribute: what depends on the contents is to be checked
    kIgnored,    // an answer from the past
  };

  Update update(const Attributes& attributes, uint64_t started, uint64_t arrived, TimePoint now,
                Limits limits);
  // The attributes must be asked for again before anybody relies on them: something changed at `at` (a count,
  // as above). What was asked for earlier and is answered later may be of the time before.
  void expire(uint64_t at) {
    expires_ = TimePoint::min();
    expired_ = std::max(expired_, at);
  }

  // The server has promised to tell before anybody else changes them (a delegation): what is known stays true
  // whatever the clock says, until expire(). Zero ends it. Else: for how long at a time who asks may go
  // without asking again. It counts while `promises_hold`: whom the server has given up on it tells nothing.
  void promise(Duration at_a_time) { promised_ = brief(at_a_time); }
  bool promised() const { return promised_ != Brief::zero(); }
  // What is known is what the promise is about: nothing made it old since.
  bool covered() const { return known() && promised() && expires_ != TimePoint::min(); }

  bool known() const { return arrived_ != 0; }
  bool fresh(TimePoint now, bool promises_hold = true) const {
    return known() && (now < expires_ || (promises_hold && covered()));
  }
  Duration remaining(TimePoint now, bool promises_hold = true) const {
    if (!fresh(now, promises_hold)) return Duration::zero();
    const Duration by_clock = now < expires_ ? expires_ - now : Duration::zero();
    return promises_hold ? std::max<Duration>(promised_, by_clock) : by_clock;
  }
  const Attributes& get() const { return attributes_; }
  // It has no name any more.
  void removed() { attributes_.nlink = 0; }
  // What is known may be of before something that was answered already: answers contradict each other, or
  // expire(). Not because it is old.
  bool doubtful() const { return known() && expires_ == TimePoint::min(); }

 private:
  using Brief = std::chrono::duration<uint32_t, std::milli>;  // up to 49 days
  static Brief brief(Duration d) {
    return std::chrono::duration_cast<Brief>(std::clamp<Duration>(d, Brief::zero(), Brief::max()));
  }

  Attributes attributes_;
  TimePoint expires_ = TimePoint::min();
  uint64_t started_ = 0;  // of the youngest request that was answered
  uint64_t arrived_ = 0;  // when `attributes_` did, or what contradicts them; 0: nothing is known
  uint64_t expired_ = 0;  // by expire()
  Brief timeout_{};
  Brief promised_{};
};

}  // namespace nfsrdma::client

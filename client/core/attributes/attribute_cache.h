// SPDX-License-Identifier: Apache-2.0
// AttributeCache: the attributes of one file and how long they are valid, by nfs(5)'s rules.
//
// A value inside a Node, guarded by the Node's lock. Pure: time is a parameter. The timeout starts at the
// minimum, doubles each time the server confirms that nothing changed, and returns to the minimum after a
// change.
//
// Replies may arrive out of order. Each update carries two sequence numbers (counted from 1, not times): when
// its request started and when its reply arrived. If two requests overlapped, the order in which the server
// executed them is unknown. The reply with the higher change attribute is kept, and the attributes are
// fetched again before they are used. The reason: a change attribute need not grow (RFC 8881 section
// 5.8.1.4), and need not move with each change. If it comes from a clock, several changes may share a tick.
#pragma once

#include <algorithm>
#include <cstdint>

#include "client/api/filesystem.h"

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
    kChanged,    // another change attribute: check what depends on the contents
    kIgnored,    // a reply older than what is known
  };

  Update update(const Attributes& attributes, uint64_t started, uint64_t arrived, TimePoint now,
                Limits limits);
  // Fetch the attributes again before use: something changed at sequence number `at`. A reply to a request
  // that started before `at` may show the state before the change.
  void expire(uint64_t at) {
    expires_ = TimePoint::min();
    expired_ = std::max(expired_, at);
  }

  // We hold a delegation: the server promises to recall it before another client changes the file. The
  // attributes then stay valid until expire(), whatever the clock says. Each use may cache them for
  // `at_a_time`; zero ends the promise. The promise counts only while `promises_hold`: a server that has
  // dropped our lease recalls nothing.
  void promise(Duration at_a_time) { promised_ = brief(at_a_time); }
  bool promised() const { return promised_ != Brief::zero(); }
  // True: the promise covers the cached attributes, because nothing invalidated them since they arrived.
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
  // The file has no name any more.
  void removed() { attributes_.nlink = 0; }
  // The known attributes may be older than an earlier answer to an application: replies contradict each
  // other, or expire() was called. Age alone does not cause this.
  bool doubtful() const { return known() && expires_ == TimePoint::min(); }

 private:
  using Brief = std::chrono::duration<uint32_t, std::milli>;  // up to 49 days
  static Brief brief(Duration d) {
    return std::chrono::duration_cast<Brief>(std::clamp<Duration>(d, Brief::zero(), Brief::max()));
  }

  Attributes attributes_;
  TimePoint expires_ = TimePoint::min();
  uint64_t started_ = 0;  // of the newest request with a reply
  uint64_t arrived_ = 0;  // when `attributes_`, or a reply that contradicts them, arrived; 0: nothing known
  uint64_t expired_ = 0;  // the latest expire()
  Brief timeout_{};
  Brief promised_{};
};

}  // namespace nfsrdma::client

// AttributeCache: the attributes of one file and how long they may be believed, by nfs(5)'s rules.
//
// A value inside a Node, guarded by the Node's lock. Pure: time comes in as a parameter. The timeout starts
// at the minimum, doubles each time the server confirms that nothing changed, and falls back to the minimum
// when something did.
//
// Replies may arrive out of order: each update says when its request was started (a count, not a time), and
// an answer to an older request does not replace that of a younger one, unless its change attribute is ahead.
#pragma once

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

  Update update(const Attributes& attributes, uint64_t started, TimePoint now, Limits limits);
  // The attributes must be asked for again before anybody relies on them.
  void expire() { expires_ = TimePoint::min(); }
  void drop() {
    known_ = false;
    expire();
  }

  bool known() const { return known_; }
  bool fresh(TimePoint now) const { return known_ && now < expires_; }
  Duration remaining(TimePoint now) const { return fresh(now) ? expires_ - now : Duration::zero(); }
  const Attributes& get() const { return attributes_; }

 private:
  Attributes attributes_;
  TimePoint expires_ = TimePoint::min();
  Duration timeout_{};
  uint64_t started_ = 0;
  bool known_ = false;
};

}  // namespace nfsrdma::client

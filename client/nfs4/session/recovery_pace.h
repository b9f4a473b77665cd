// SPDX-License-Identifier: Apache-2.0
// Pauses before retries and recoveries. Pure.
//
// Backoff: the pause before each retry of one request; it doubles.
//
// RecoveryPace: the pause before each recovery of a session. RFC 8881 names no pause. If a session ends
// before it answered anything, it is replaced after a pause that doubles. So a server that refuses every
// session gets a few requests a minute. Sessions that work for a moment and then end are limited, too: each
// recovery needs a token, and tokens come back slowly. One lost session, or a few in a row that each worked,
// are replaced at once.
#pragma once

#include <algorithm>
#include <utility>

#include "client/nfs4/protocol_types.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::client::nfs4 {

class Backoff {
 public:
  Backoff(Duration first, Duration max) : next_(first), max_(max) {}
  Duration next() { return std::exchange(next_, std::min(next_ * 2, max_)); }

 private:
  Duration next_, max_;
};

class RecoveryPace {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(100), kLongest = std::chrono::seconds(15);
  static constexpr unsigned kTokens = 20;
  static constexpr Duration kTokenEvery = std::chrono::seconds(1);
  // A session that lasted this long counts as stable (worked()).
  static constexpr Duration kSteady = std::chrono::seconds(30);

  // A recovery begins at `now`. Returns how long it has to wait.
  Duration begin(TimePoint now) {
    while (spent_ > 0 && now - refilled_ >= kTokenEvery) {
      --spent_;
      refilled_ += kTokenEvery;
    }
    if (spent_ == 0) refilled_ = now;
    Duration wait = worked_ ? Duration::zero() : vain_.next();
    if (worked_) vain_ = Backoff(kFirst, kLongest);
    worked_ = false;
    if (spent_ < kTokens) {
      ++spent_;
    } else {
      refilled_ += kTokenEvery;  // the next token
      wait = std::max(wait, refilled_ - now);
    }
    ++begun_;
    last_ = now + wait;
    return wait;
  }

  // A request was answered in the session that the last recovery made. Returns true if that session has
  // lasted for kSteady now.
  bool worked(TimePoint now) {
    worked_ = true;
    return now - last_ >= kSteady;
  }

  // Recoveries since the last call of this function.
  unsigned take_count() { return std::exchange(begun_, 0); }

 private:
  Backoff vain_{kFirst, kLongest};
  TimePoint refilled_{}, last_{};
  unsigned spent_ = 0, begun_ = 0;
  bool worked_ = true;
};

}  // namespace nfsrdma::client::nfs4

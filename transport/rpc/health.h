// SPDX-License-Identifier: Apache-2.0
// Health decides when a server counts as not responding and when to drop its connection. Backoff decides how
// long to wait before the next attempt to connect. Pure: the caller passes in the time. Loop thread only.
//
// nfs(5): `timeo` is how long a reply may take. After timeo * (retrans + 1) of silence the log reports it
// ("server not responding" comes "after retrans retries") and the connection is dropped. With nfs(5)'s
// defaults that takes three minutes, too long without a message. So the log and `status` also report it after
// kSoon. A call that is still being sent is not silence: the server's machine accepts its bytes.
//
// A stray reply, which answers no call, may be the damaged reply of a call. If a call that was outstanding
// then is still unanswered after `timeo`, its reply counts as lost; only on a new connection may we send the
// call again (RFC 8881 section 2.9.2). The same applies to an unanswered call when another call, made
// timeo * (retrans + 1) later, has its answer. If the server is only slow with the call, the new connection
// costs little: the server recognises the request by its slot.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "transport/runtime/loop.h"

namespace nfsrdma::rpc {

class Health {
 public:
  Health(Duration timeo, unsigned retrans)
      : timeo_(std::min(timeo, kLongest)),
        silence_(timeo_ > kLongest / (int64_t{retrans} + 1) ? kLongest : timeo_ * (int64_t{retrans} + 1)) {}

  // Upper bound of the options' times: sums with it stay far from the clock's end.
  static constexpr Duration kLongest = std::chrono::hours(24 * 365);
  // Silence after which it is reported first, independent of the options.
  static constexpr Duration kSoon = std::chrono::seconds(15);

  // The outstanding calls at the moment of a check.
  struct Outstanding {
    std::optional<TimePoint> oldest_issued;  // the oldest call without a reply
    std::optional<TimePoint> oldest_queued;  // the oldest call that the present connection was given
    std::optional<uint32_t> oldest_sent{};   // XID of the oldest call that was sent completely
  };
  struct Verdict {
    bool stalled_now = false;             // the server has stopped responding since the last check
    bool say_soon = false;                // log it: silent for kSoon; true once
    bool say_now = false;                 // log it: silent for timeo * (retrans + 1); true once
    TimePoint quiet_since{};              // valid while the server does not respond
    const char* give_up = nullptr;        // why the connection must be dropped; null: keep it
    std::optional<TimePoint> next_check;  // absent: no call is outstanding
  };

  void connected(TimePoint now) {
    last_bytes_ = now;
    last_stray_.reset();
    waiting_for_.reset();
  }
  void bytes(TimePoint now) { last_bytes_ = last_moved_ = now; }
  // A stray reply came.
  void stray_reply(TimePoint now) { last_stray_ = now; }
  // A call was answered. `queued`: when the connection had been given it.
  void answered(TimePoint queued) { last_answered_ = std::max(last_answered_, queued); }
  // A reply came: the server responds (again). True if it had been reported as not responding.
  bool reply(TimePoint now) {
    last_reply_ = now;
    responding_ = true;
    const bool soon = std::exchange(said_soon_, false);
    return std::exchange(said_, false) || soon;
  }

  Verdict check(TimePoint now, Outstanding o) {
    Verdict v;
    if (!o.oldest_issued) return v;
    // A server that answers other calls, or accepts more bytes of a slow call, is not silent.
    v.quiet_since = std::max({*o.oldest_issued, last_reply_, last_moved_});
    const TimePoint stalls = v.quiet_since + std::min(timeo_, kSoon);
    const TimePoint soon = v.quiet_since + kSoon, says = v.quiet_since + silence_;
    if (now >= stalls) v.stalled_now = std::exchange(responding_, false);
    if (now >= says) {
      v.say_now = !std::exchange(said_, true);
    } else if (now >= soon) {
      v.say_soon = !std::exchange(said_soon_, true);
    }
    v.next_check = now + timeo_;
    for (const TimePoint moment : {stalls, soon, says}) {
      if (moment > now) v.next_check = std::min(*v.next_check, moment);
    }
    if (o.oldest_sent != waiting_for_) {
      waiting_for_ = o.oldest_sent;
      waiting_since_ = now;
    } else if (waiting_for_ && last_answered_ >= waiting_since_ + silence_) {
      v.give_up = "a call has no answer, and others that were made timeo * (retrans + 1) later have";
    }
    if (o.oldest_queued) {
      const TimePoint silent = std::max(*o.oldest_queued, last_bytes_) + silence_;
      if (now >= silent) v.give_up = "nothing received for timeo * (retrans + 1)";
      if (!v.give_up) v.next_check = std::min(*v.next_check, silent);
      if (last_stray_ && *o.oldest_queued <= *last_stray_) {
        const TimePoint missing = *o.oldest_queued + timeo_;
        if (now >= missing) v.give_up = "a reply that answers no call came, and a call has no answer";
        if (!v.give_up) v.next_check = std::min(*v.next_check, missing);
      }
    }
    return v;
  }

  bool responding() const { return responding_; }
  // The delay before the first check.
  Duration first_look() const { return std::min(timeo_, kSoon); }
  Duration silence() const { return silence_; }

 private:
  const Duration timeo_;
  const Duration silence_;
  bool responding_ = true;
  bool said_soon_ = false;  // reported after kSoon
  bool said_ = false;       // reported after timeo * (retrans + 1)
  TimePoint last_reply_{};
  TimePoint last_bytes_{};               // last transfer in either direction, or a new connection
  TimePoint last_moved_{};               // last transfer in either direction
  std::optional<TimePoint> last_stray_;  // on this connection
  std::optional<uint32_t> waiting_for_;  // Outstanding::oldest_sent, unchanged since waiting_since_
  TimePoint waiting_since_{};
  TimePoint last_answered_{};  // when the connection was given the youngest answered call
};

// The delay before the next attempt to connect: none after a connection that was ready for kGoodPeriod;
// `first` after one that at least brought a reply; otherwise it doubles, up to `max`.
class Backoff {
 public:
  static constexpr Duration kGoodPeriod = std::chrono::seconds(1);

  Backoff(Duration first, Duration max) : first_(first), max_(max), next_(first) {}

  // A connection was lost that had been ready for `held`. `answered`: a reply came on it after its handshake.
  Duration lost(Duration held, bool answered) {
    if (held >= kGoodPeriod) {
      next_ = first_;
      return Duration::zero();
    }
    if (answered) next_ = first_;
    return failed();
  }
  // An attempt failed.
  Duration failed() { return std::exchange(next_, std::min(next_ * 2, max_)); }

 private:
  const Duration first_;
  const Duration max_;
  Duration next_;
};

}  // namespace nfsrdma::rpc

// SPDX-License-Identifier: Apache-2.0
// Health and Backoff: when a server counts as not responding, when its connection is given up, and how long
// to wait before the next one. Pure: the caller brings the time. Loop thread only.
//
// nfs(5): `timeo` is how long a reply may take; after timeo * (retrans + 1) of silence the log has it
// ("server not responding" comes "after retrans retries") and the connection is dropped. With nfs(5)'s
// defaults that is three minutes: nobody waits that long without a word, so after kSoon the log and `status`
// have it, too. A call that is still leaving is no silence: the server's machine takes it. A reply that
// answers no call may be the spoiled one of a call: if one that was outstanding then is still unanswered
// after `timeo`, its reply is taken for lost, and only a new connection allows to ask again (RFC 8881
// section 2.9.2). Likewise when a call is answered that was made timeo * (retrans + 1) after one that is
// still not. If the server is just slow with that one, the new connection costs little: it knows the request
// by its slot.
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

  // Whatever the options say: sums with it stay far from the clock's end.
  static constexpr Duration kLongest = std::chrono::hours(24 * 365);
  // Of silence, whatever the options say.
  static constexpr Duration kSoon = std::chrono::seconds(15);

  // What is outstanding at the moment of a check.
  struct Outstanding {
    std::optional<TimePoint> oldest_issued;  // the oldest call without a reply
    std::optional<TimePoint> oldest_queued;  // the oldest the present connection was given
    std::optional<uint32_t> oldest_sent{};   // XID of the oldest of which every byte is sent
  };
  struct Verdict {
    bool stalled_now = false;             // the server has just stopped responding
    bool say_soon = false;                // and has not for kSoon, once
    bool say_now = false;                 // and has not for so long that the log must have it, once
    TimePoint quiet_since{};              // of a server that does not respond
    const char* give_up = nullptr;        // why the connection is not to be waited for any longer
    std::optional<TimePoint> next_check;  // absent: nothing is outstanding
  };

  void connected(TimePoint now) {
    last_bytes_ = now;
    last_stray_.reset();
    waiting_for_.reset();
  }
  void bytes(TimePoint now) { last_bytes_ = last_moved_ = now; }
  // A reply came that answers no call.
  void stray_reply(TimePoint now) { last_stray_ = now; }
  // A call was answered that the connection had been given then.
  void answered(TimePoint queued) { last_answered_ = std::max(last_answered_, queued); }
  // The server responds (again). True when it had been said that it does not.
  bool reply(TimePoint now) {
    last_reply_ = now;
    responding_ = true;
    const bool soon = std::exchange(said_soon_, false);
    return std::exchange(said_, false) || soon;
  }

  Verdict check(TimePoint now, Outstanding o) {
    Verdict v;
    if (!o.oldest_issued) return v;
    // One call that takes long does not make a server silent that answers others, or that takes more of it.
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
  // When to look first at what is outstanding.
  Duration first_look() const { return std::min(timeo_, kSoon); }
  Duration silence() const { return silence_; }

 private:
  const Duration timeo_;
  const Duration silence_;
  bool responding_ = true;
  bool said_soon_ = false;  // that it is not, after kSoon
  bool said_ = false;       // and after timeo * (retrans + 1)
  TimePoint last_reply_{};
  TimePoint last_bytes_{};               // or a new connection
  TimePoint last_moved_{};               // in either direction
  std::optional<TimePoint> last_stray_;  // on this connection
  std::optional<uint32_t> waiting_for_;  // Outstanding::oldest_sent since waiting_since_
  TimePoint waiting_since_{};
  TimePoint last_answered_{};  // when the connection was given the youngest call that was answered
};

// Delay before the next attempt to connect: none after a connection that had held for kGoodPeriod; `first`
// after one that at least answered; doubling up to `max` otherwise.
class Backoff {
 public:
  static constexpr Duration kGoodPeriod = std::chrono::seconds(1);

  Backoff(Duration first, Duration max) : first_(first), max_(max), next_(first) {}

  // A connection that had been ready for `held` was lost; `answered`: it brought at least one reply after its
  // handshake.
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

// SPDX-License-Identifier: Apache-2.0
// KeepAlive: decides when to check on a quiet connection whether the peer is still there. Pure.
//
// While an active iWARP connection has received nothing at all, it checks soon, then after twice the time, a
// few times (nudges): Linux' siw can miss a frame that follows its own reply closely, until another frame
// arrives. After that, a connection checks whenever a whole interval has passed without a completion.
#pragma once

#include <chrono>

namespace nfsrdma::fabric::verbs {

class KeepAlive {
 public:
  static constexpr unsigned kNudges = 5;
  using Time = std::chrono::milliseconds;

  KeepAlive(Time interval, Time nudge_after) : interval_(interval), nudge_(nudge_after) {}

  void heard() {
    quiet_ = false;
    nudges_ = kNudges;
  }
  // How long to wait before due() is called; 0: for ever.
  Time wait() const { return nudging() ? nudge_ * (1 << nudges_) : interval_; }
  // To be called after that time: true if a check must be sent.
  bool due() {
    if (nudging()) {
      ++nudges_;
      return true;
    }
    const bool was_quiet = quiet_;
    quiet_ = true;
    return was_quiet;
  }

 private:
  bool nudging() const { return nudge_.count() > 0 && nudges_ < kNudges; }
  const Time interval_;
  const Time nudge_;
  unsigned nudges_ = 0;
  bool quiet_ = true;
};

}  // namespace nfsrdma::fabric::verbs

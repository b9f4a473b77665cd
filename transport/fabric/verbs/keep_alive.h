// SPDX-License-Identifier: Apache-2.0
// KeepAlive: when a quiet connection is to be asked whether its peer is there. Pure.
//
// While nothing has been received at all on an iWARP connection of ours, soon, twice as late each time, a few
// times: Linux's siw can miss a frame that comes right behind its own reply, until another one comes. From
// then on whenever a whole interval went by without a completion.
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
  // How long to wait until due() is to be asked; 0: for ever.
  Time wait() const { return nudging() ? nudge_ * (1 << nudges_) : interval_; }
  // Once that time is over: is one to be sent?
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

// SPDX-License-Identifier: Apache-2.0
// Suspension: detects that the machine was suspended. Clock and all timers, ours and the kernel's, stop while
// the machine is suspended; since_boot() continues.
//
// A value, used by one loop. It has no I/O: the caller passes in the times.
#pragma once

#include <time.h>

#include "transport/runtime/loop.h"

namespace nfsrdma {

// CLOCK_BOOTTIME. Any thread.
inline Duration since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

class Suspension {
 public:
  // The least suspended time, summed over several suspensions, that is reported. Less is ignored: the
  // timeouts that depend on it are whole seconds.
  static constexpr Duration kNoticed = std::chrono::seconds(1);

  // The caller reads `boot` before `now`: a delay of the thread between the two reads then does not look like
  // a suspension.
  Suspension(Duration boot, TimePoint now) : asleep_(boot - now.time_since_epoch()) {}
  // True if the machine was suspended since construction, or since the last call that returned true.
  bool noticed(Duration boot, TimePoint now) {
    const Duration asleep = boot - now.time_since_epoch();
    if (asleep - asleep_ < kNoticed) return false;
    asleep_ = asleep;
    return true;
  }

 private:
  Duration asleep_;
};

}  // namespace nfsrdma

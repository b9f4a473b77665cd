// SPDX-License-Identifier: Apache-2.0
// Suspension: that the machine was suspended. Clock and every timer stand still meanwhile, here and in the
// kernel; since_boot() goes on.
//
// A value, used by one loop. Pure: times come in as parameters.
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
  // Together: times that count are whole seconds.
  static constexpr Duration kNoticed = std::chrono::seconds(1);

  // `boot` is to be read before `now`: a thread that is held up between them must not seem to have slept.
  Suspension(Duration boot, TimePoint now) : asleep_(boot - now.time_since_epoch()) {}
  // It was, since the beginning or since this said so.
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

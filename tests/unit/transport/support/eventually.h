// SPDX-License-Identifier: Apache-2.0
// Waits for the work of other threads: no test passes just because time passes.
#pragma once

#include <chrono>
#include <thread>

namespace nfsrdma::test {

inline constexpr std::chrono::seconds kPatience{30};

// Polls until `condition` is true; false after kPatience. Between two polls it pauses, or yields if the pause
// is zero.
template <class Condition>
bool eventually(Condition condition, std::chrono::microseconds pause = std::chrono::milliseconds(1)) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    if (pause.count() == 0) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
    }
  }
  return true;
}

}  // namespace nfsrdma::test

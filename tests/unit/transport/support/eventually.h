// SPDX-License-Identifier: Apache-2.0
// Waits for the work of other threads: no test passes just because time passes.
#pragma once

#include <chrono>
#include <thread>

namespace nfsrdma::test {

inline constexpr std::chrono::seconds kPatience{30};

// Polls until `condition` is true; false after kPatience.
template <class Condition>
bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace nfsrdma::test

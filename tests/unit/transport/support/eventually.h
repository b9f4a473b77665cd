// SPDX-License-Identifier: Apache-2.0
// Waiting for what other threads do: no test passes by time alone.
#pragma once

#include <chrono>
#include <thread>

namespace nfsrdma::test {

inline constexpr std::chrono::seconds kPatience{30};

// Polls until `condition` holds; false after kPatience.
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

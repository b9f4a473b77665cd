// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>

#include "transport/runtime/loop.h"

namespace nfsrdma::test {

// For tests that go through every row of a table.
inline constexpr std::array kBooleans{false, true};

// When a test of a cache begins; not zero, which is no time.
inline constexpr TimePoint kStart{std::chrono::hours(1)};

}  // namespace nfsrdma::test

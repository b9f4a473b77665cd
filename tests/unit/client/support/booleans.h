// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

namespace nfsrdma::test {

// For tests that go through every row of a table.
inline constexpr std::array kBooleans{false, true};

}  // namespace nfsrdma::test

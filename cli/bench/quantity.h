// SPDX-License-Identifier: Apache-2.0
// The quantities a benchmark measures, or measures over: their labels, units and directions. Pure.
#pragma once

#include <string>
#include <string_view>

namespace nfsrdma::cli::bench {

enum class Better { kHigher, kLower, kNeither };

struct Quantity {
  std::string_view key;    // in documents
  std::string_view label;  // on an axis
  std::string_view unit;   // "" for counts
  Better better = Better::kNeither;
  bool logarithmic = false;  // drawn in powers of two
};

// Null for an unknown key.
const Quantity* find_quantity(std::string_view key);

// "1240", "0.283": four figures at most, with the unit where `unit` is set. Sizes in binary units: "256 KiB".
std::string show_value(const Quantity& quantity, double value, bool unit);

// A point of an axis in words: "read-ahead 4", "4 KiB", "100,000 inodes".
std::string show_point(const Quantity& quantity, double value);

}  // namespace nfsrdma::cli::bench

// SPDX-License-Identifier: Apache-2.0
// The quantities that a benchmark measures or varies: their labels, units and directions. Pure.
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
  bool logarithmic = false;  // the axis is drawn in powers of two
};

// Null for an unknown key.
const Quantity* find_quantity(std::string_view key);

// "1240", "0.283", "100,000": values below 10,000 have at most four digits. The unit follows if `unit` is
// set. Block sizes always have a binary unit: "256 KiB".
std::string show_value(const Quantity& quantity, double value, bool unit);

// A point on an axis, as text: "read-ahead 4", "4 KiB", "100,000 inodes".
std::string show_point(const Quantity& quantity, double value);

}  // namespace nfsrdma::cli::bench

// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/statistics.h"

#include <algorithm>

namespace nfsrdma::cli::bench {
namespace {

double median_of_sorted(const std::vector<double>& values) {
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The largest k for which the k-th lowest and the k-th highest of n values enclose the median with
// a probability of at least kConfidence; at least 1.
size_t order_of_bounds(size_t n) {
  double probability = 1;  // of exactly i of n values below the median; starts as 2^-n
  for (size_t i = 0; i < n; ++i) probability /= 2;
  double missed = 0;
  size_t k = 0;
  for (size_t i = 0; i < n / 2; ++i) {
    missed += 2 * probability;
    if (1 - missed < kConfidence) break;
    k = i + 1;
    probability = probability * static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return std::max<size_t>(k, 1);
}

}  // namespace

std::optional<Spread> spread_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return Spread{median_of_sorted(values), values.front(), values.back(), values.size()};
}

std::optional<Spread> spread_of(const Rounds& rounds) {
  std::vector<double> values;
  for (const auto& [round, value] : rounds) values.push_back(value);
  return spread_of(std::move(values));
}

std::optional<Ratio> ratio_of(const Rounds& of, const Rounds& over, bool exact) {
  if (exact) {
    const auto a = spread_of(of), b = spread_of(over);
    if (!a || !b || b->median <= 0) return std::nullopt;
    const double ratio = a->median / b->median;
    return Ratio{ratio, ratio, ratio, 1, true};
  }
  std::vector<double> ratios;
  for (const auto& [round, value] : of) {
    const auto other = over.find(round);
    if (other != over.end() && other->second > 0) ratios.push_back(value / other->second);
  }
  if (ratios.empty()) return std::nullopt;
  std::sort(ratios.begin(), ratios.end());
  const size_t k = order_of_bounds(ratios.size());
  return Ratio{median_of_sorted(ratios), ratios[k - 1], ratios[ratios.size() - k], ratios.size(), false};
}

Standing standing(const Ratio& ratio, double bound) {
  if (!ratio.decides()) return Standing::kTooFew;
  if (ratio.low > bound) return Standing::kAbove;
  if (ratio.high < bound) return Standing::kBelow;
  return Standing::kSpread;
}

}  // namespace nfsrdma::cli::bench

// SPDX-License-Identifier: Apache-2.0
// What repeated measurements show, and with which confidence. Pure.
//
// The state of a machine (other guests of its host, its processor's frequency) changes all measurements of a
// moment in the same direction. Therefore contenders take turns, and they are compared round by round: the
// result is the median of the rounds' ratios. The confidence interval comes from the ordered ratios alone and
// assumes no distribution: the interval between the k-th lowest and the k-th highest of n ratios misses the
// true median with probability 2 * P(Binomial(n, 1/2) < k) (the confidence interval of the sign test).
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

namespace nfsrdma::cli::bench {

// Values by the round in which they were measured.
using Rounds = std::map<unsigned, double>;

struct Spread {
  double median = 0;
  double low = 0;  // lowest and highest value
  double high = 0;
  size_t count = 0;
};

// None if there are no values.
std::optional<Spread> spread_of(std::vector<double> values);
std::optional<Spread> spread_of(const Rounds& rounds);

// Fewer pairs decide nothing: with four, even the whole range misses the median in one of eight cases.
inline constexpr size_t kDecidingPairs = 5;

// The range in `Ratio` contains the true median with at least this probability.
inline constexpr double kConfidence = 0.9;

struct Ratio {
  double median = 0;
  double low = 0;  // the narrowest range with kConfidence; the whole range if there are too few pairs
  double high = 0;
  size_t pairs = 0;
  bool exact = false;  // counts that repeat exactly: one pair decides

  bool decides() const { return exact || pairs >= kDecidingPairs; }
};

// The ratio of/over in each round that both have. None if no such round has a positive `over`. Counts
// (`exact`) are compared by their medians.
std::optional<Ratio> ratio_of(const Rounds& of, const Rounds& over, bool exact = false);

// Where a ratio lies relative to a bound.
enum class Standing { kAbove, kBelow, kSpread, kTooFew };

// kSpread: the range includes the bound, so the difference is not significant. kTooFew: too few pairs to
// decide.
Standing standing(const Ratio& ratio, double bound);

}  // namespace nfsrdma::cli::bench

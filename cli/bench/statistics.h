// SPDX-License-Identifier: Apache-2.0
// What repeated measurements say, and how sure they are. Pure.
//
// A machine's mood (other guests of its host, the frequency of its processor) changes every measurement of a
// moment in the same direction, so contenders take turns and are compared round by round: the ratio of each
// round, and of those the median. How far off the true median ratio may be is read from the ordered ratios
// themselves, without any belief about their distribution: the interval between the k-th lowest and the k-th
// highest of n misses it with probability 2 * P(Binomial(n, 1/2) < k) (the confidence interval of the sign
// test).
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

namespace nfsrdma::cli::bench {

// Values by the round they were measured in.
using Rounds = std::map<unsigned, double>;

struct Spread {
  double median = 0;
  double low = 0;  // the lowest and the highest of all
  double high = 0;
  size_t count = 0;
};

// None for no values.
std::optional<Spread> spread_of(std::vector<double> values);
std::optional<Spread> spread_of(const Rounds& rounds);

// Fewer pairs than this cannot decide anything: even their whole range misses the median in one of eight
// cases.
inline constexpr size_t kDecidingPairs = 5;

// The share of cases in which a range of `ratios` is meant to hold the true median, at least.
inline constexpr double kConfidence = 0.9;

struct Ratio {
  double median = 0;
  double low = 0;  // the narrowest range with kConfidence; all of them, where they are too few for that
  double high = 0;
  size_t pairs = 0;
  bool exact = false;  // of counts, which repeat: one pair decides

  bool decides() const { return exact || pairs >= kDecidingPairs; }
};

// of/over in each round both have; none where there is no such round with a positive `over`. Counts (`exact`)
// are compared by their medians.
std::optional<Ratio> ratio_of(const Rounds& of, const Rounds& over, bool exact = false);

// Where a ratio stands beside a bound.
enum class Standing { kAbove, kBelow, kSpread, kTooFew };

// kSpread: the range holds the bound, so the spread swallows the difference. kTooFew: too few pairs to say.
Standing standing(const Ratio& ratio, double bound);

}  // namespace nfsrdma::cli::bench

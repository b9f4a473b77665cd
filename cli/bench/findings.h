// SPDX-License-Identifier: Apache-2.0
// Conclusions from a document's measurements, as numbers and sentences: ratios between contenders, verdicts
// on targets, and the lines above each plot. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench/document.h"
#include "cli/bench/quantity.h"
#include "cli/bench/statistics.h"

namespace nfsrdma::cli::bench {

enum class Verdict {
  kMet,
  kMissed,
  kUndecided,  // the range includes the bound, or there were too few rounds
  kShown,      // the target has no bound
  kAbsent,     // not measured in this run
};

struct Judgement {
  const Target* target = nullptr;
  std::optional<Ratio> ratio;
  Verdict verdict = Verdict::kAbsent;
};

const char* verdict_name(Verdict verdict);  // "met", "MISSED", "undecided", "shown", "not measured"

std::vector<Judgement> judge(const Document& document);

// "1.18 (1.10 … 1.25)"; for counts "1.18".
std::string show_ratio(const Ratio& ratio);

// The value of `key` in each round; empty if it was not measured.
Rounds rounds_of(const Document& document, const std::string& metric, const std::string& contender,
                 const At& at, const std::string& key);

// The ratio of/over for one metric at one point.
std::optional<Ratio> compare(const Document& document, const Pair& pair, const std::string& metric,
                             const At& at, const std::string& key);

// The contenders of the plot, ours first and ceilings last: those that it names, or all that were measured.
std::vector<const Contender*> drawn(const Document& document, const Plot& plot);

// The values of one quantity among the plot's measurements, ascending.
std::vector<double> values_along(const Document& document, const Plot& plot, const std::string& quantity);

// A few sentences that can each be checked against the plot. Empty if nothing was measured for it.
std::vector<std::string> findings(const Document& document, const Plot& plot);

}  // namespace nfsrdma::cli::bench

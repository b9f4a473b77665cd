// SPDX-License-Identifier: Apache-2.0
// What a document's measurements say, in numbers and in sentences: ratios between contenders, whether targets
// are met, and the lines that stand above each plot. Pure.
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
  kUndecided,  // the spread holds the bound, or there were too few rounds
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

// "1.18 (1.10 … 1.25)"; of counts "1.18".
std::string show_ratio(const Ratio& ratio);

// What `key` was in each round; empty when it was not measured.
Rounds rounds_of(const Document& document, const std::string& metric, const std::string& contender,
                 const At& at, const std::string& key);

// of/over of one metric at one point.
std::optional<Ratio> compare(const Document& document, const Pair& pair, const std::string& metric,
                             const At& at, const std::string& key);

// Who is drawn in the plot, ours first and ceilings last: those it names, or everybody who was measured.
std::vector<const Contender*> drawn(const Document& document, const Plot& plot);

// The values of one quantity among the plot's measurements, ascending.
std::vector<double> values_along(const Document& document, const Plot& plot, const std::string& quantity);

// A sentence or a few, each of which can be checked against the plot. Empty when nothing was measured for it.
std::vector<std::string> findings(const Document& document, const Plot& plot);

}  // namespace nfsrdma::cli::bench

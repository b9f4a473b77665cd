// SPDX-License-Identifier: Apache-2.0
// Document: one run of a benchmark, as measured. Results are kept only in this form. `nfsrdma-fuse bench` and
// tests/bench write it; findings.h and report.h make tables, verdicts and the HTML report from it.
// docs/bench/README.md describes the format.
//
// It holds only measured values and the plots and targets that use them. Medians, spreads and verdicts are
// not stored; they are computed each time. Plain values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/statistics.h"
#include "cli/control/control_protocol.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli::bench {

inline constexpr const char* kFormat = "nfsrdma-bench 1";

enum class Role { kOurs, kPeer, kCeiling };

struct Contender {
  std::string name;
  Role role = Role::kPeer;
  std::string about;
};

// The point of a series: {"block": 4096, "depth": 8}. Keys are quantities (quantity.h).
using At = std::map<std::string, double>;

inline At with(At at, const std::string& quantity, double value) {
  at[quantity] = value;
  return at;
}

struct Measurement {
  std::string metric;  // "random read"
  std::string contender;
  At at;
  bool exact = false;  // counts that repeat exactly, not times
  // For each key ("mib_per_s") the value of each round. The rounds of all contenders are interleaved.
  std::map<std::string, Rounds> values;
};

struct Pair {
  std::string of;  // contenders
  std::string over;
};

enum class PlotKind { kBars, kLines, kGrid, kCloud, kMap };

// What a plot draws. x, y and `along` are the quantities that these members of Plot name:
//   bars   y; a group of bars for each metric, a bar for each contender
//   lines  y over x; a line for each contender
//   grid   y over x; a panel for each contender, in it a line for each value of `along`
//   cloud  y over x; a point for each value of `along`; a line joins a contender's points in the order of
//          `along`
//   map    the ratio of y, compare[0].of to compare[0].over, for each pair of values of x and `along`
// y is measured (Measurement::values), and so is the x of a cloud. Every other x, and `along`, belongs to the
// point of the series (Measurement::at).
struct Plot {
  PlotKind kind = PlotKind::kBars;
  std::string title;
  std::string text;  // what a reader must know to understand the plot
  std::vector<std::string> metrics;
  std::string x;
  std::string y;
  std::string along;
  At where;                             // draw only measurements with these values
  std::vector<std::string> contenders;  // empty: all
  std::vector<Pair> compare;
};

// How several reference measurements are combined.
enum class Combine {
  kSum,     // run one after the other: costs add up
  kSeries,  // run one after the other: throughputs combine as 1/(1/a + 1/b)
};

struct Reference {
  std::string metric;
  std::string contender;
  At at;
};

struct Target {
  std::string what;
  std::string key;
  Reference of;
  std::vector<Reference> over;  // empty: the value itself is judged
  Combine combine = Combine::kSum;
  std::optional<double> at_least;  // neither bound: shown without a verdict
  std::optional<double> at_most;
};

struct Document {
  std::string title;
  std::string date;                                             // UTC, "2026-11-22T15:00:00Z"
  std::vector<std::pair<std::string, std::string>> conditions;  // machine and settings, in display order
  std::vector<std::string> notes;                               // what a reader must know, including failures
  std::vector<Contender> contenders;
  std::vector<Measurement> measurements;
  std::vector<Plot> plots;
  std::vector<Target> targets;

  // Returns null if there is none.
  const Measurement* find(const std::string& metric, const std::string& contender, const At& at) const;
  // The same; adds the measurement if it is missing.
  Measurement& measurement(const std::string& metric, const std::string& contender, const At& at);
  const Contender* find_contender(const std::string& name) const;
};

Json to_json(const Document& document);

// Parses the whole text of a file. Fails with ToolExit::kFailed and the position if the text is not a valid
// document: an item is missing, unknown, repeated or of another type, or it names a contender or quantity
// that does not exist.
Outcome<Document> document_from_text(const std::string& text);

}  // namespace nfsrdma::cli::bench

// SPDX-License-Identifier: Apache-2.0
// Document: one run of a benchmark, as measured. The only form in which results are kept; `nfsrdma-fuse
// bench` and tests/bench write it, and tables, verdicts and the HTML report are made from it (findings.h,
// report.h). docs/bench/README.md has the format for people.
//
// Only what was measured is in it, and which plots and targets it is for. Medians, spreads and verdicts are
// not: they are computed each time. Plain values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/statistics.h"
#include "cli/control_protocol.h"
#include "cli/outcome.h"

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

struct Measurement {
  std::string metric;  // "random read"
  std::string contender;
  At at;
  bool exact = false;  // counts that repeat, not times
  // By key ("mib_per_s"): the value of each round. Rounds of all contenders are interleaved.
  std::map<std::string, Rounds> values;
};

struct Pair {
  std::string of;  // contenders
  std::string over;
};

enum class PlotKind { kBars, kLines, kGrid, kCloud, kMap };

// What to draw of the measurements:
//   bars   a group of bars for each metric, a bar for each contender
//   lines  y over the quantity x of `at`, a line for each contender
//   grid   a panel for each contender; in it y over x, a line for each value of `along`
//   cloud  y over x, both measured; a point for each value of `along`, in whose order a contender's are
//   joined map    compare[0].of / compare[0].over for each pair of values of x and `along`
struct Plot {
  PlotKind kind = PlotKind::kBars;
  std::string title;
  std::string text;  // what one should know to read it
  std::vector<std::string> metrics;
  std::string x;
  std::string y;
  std::string along;
  At where;                             // only measurements at these values
  std::vector<std::string> contenders;  // empty: all
  std::vector<Pair> compare;
};

// How the measurements that something is compared with are put together.
enum class Combine {
  kSum,     // one after the other: costs add
  kSeries,  // one after the other: throughputs add as 1/(1/a + 1/b)
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
  std::vector<Reference> over;  // none: it is the value itself that counts
  Combine combine = Combine::kSum;
  std::optional<double> at_least;  // neither: shown without a verdict
  std::optional<double> at_most;
};

struct Document {
  std::string title;
  std::string date;  // UTC, "2026-11-22T15:00:00Z"
  std::vector<std::pair<std::string, std::string>>
      conditions;                  // machine and settings, in the order they are shown
  std::vector<std::string> notes;  // what a reader has to know, failures among them
  std::vector<Contender> contenders;
  std::vector<Measurement> measurements;
  std::vector<Plot> plots;
  std::vector<Target> targets;

  // Null when there is none.
  const Measurement* find(const std::string& metric, const std::string& contender, const At& at) const;
  // The same; made where there is none.
  Measurement& measurement(const std::string& metric, const std::string& contender, const At& at);
  const Contender* find_contender(const std::string& name) const;
};

Json to_json(const Document& document);

// The whole text of a file. Fails with ToolExit::kFailed and says where it is no such document: something is
// missing, unknown, of another type, or names a contender, quantity or metric that there is not.
Outcome<Document> document_from_text(const std::string& text);

}  // namespace nfsrdma::cli::bench

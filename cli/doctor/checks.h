// SPDX-License-Identifier: Apache-2.0
// Judges the facts: a table of checks, each a question with verdicts. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/control/control_protocol.h"
#include "cli/doctor/facts.h"

namespace nfsrdma::cli::doctor {

// In the order of the report: the worst one first.
enum class Verdict : uint8_t { kBad, kWarn, kUnknown, kGood };
std::string_view to_string(Verdict verdict);

struct Finding {
  Verdict verdict = Verdict::kUnknown;
  std::string text;
  std::string remedy;  // a command, or what to change; empty: none
};

struct Check {
  std::string_view name;  // one word for scripts: "memlock"
  std::string_view asks;  // "May RDMA devices lock as much memory as the cache wants?"
  // One finding for each item that was examined; none if the question does not apply.
  std::vector<Finding> (*judge)(const Facts& facts);
};
std::span<const Check> checks();

struct Result {
  const Check* check = nullptr;
  Finding finding;
};
// The worst first; equal verdicts in the order of the table.
std::vector<Result> judge(const Facts& facts);
bool any_bad(const std::vector<Result>& results);

// One line for each result: verdict, name, finding; remedy. Lines are wrapped between words for a terminal of
// `columns` columns; 0: not wrapped.
std::string text_of(const std::vector<Result>& results, size_t columns = 0);
Json json_of(const Facts& facts, const std::vector<Result>& results);

}  // namespace nfsrdma::cli::doctor

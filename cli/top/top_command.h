// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse top`: a live view of mounts on a terminal; with --batch a text report for each interval.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace nfsrdma::cli {

struct TopVerb {
  std::string directory;  // empty: every mount of the user; for root all mounts
  bool batch = false;
  bool processes = false;
  std::optional<unsigned> count;  // number of reports; absent: no limit
  std::chrono::milliseconds interval{1000};
};

// Returns ToolExit; failures have been reported on standard error.
int run_top(const std::string& program, const TopVerb& verb);

}  // namespace nfsrdma::cli

// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse top`: mounts, live, on a terminal; with --batch as text, one report after the other.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace nfsrdma::cli {

struct TopVerb {
  std::string directory;  // empty: every mount of the user, and root's view of all
  bool batch = false;
  bool processes = false;
  std::optional<unsigned> count;  // of reports; absent: for ever
  std::chrono::milliseconds interval{1000};
};

// Returns ToolExit; failures have been reported on standard error.
int run_top(const std::string& program, const TopVerb& verb);

}  // namespace nfsrdma::cli

// SPDX-License-Identifier: Apache-2.0
// The command line of `nfsrdma-fuse bench`. cli/tool/tool_args.cc includes it among the other verbs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/bench/bench_verb.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli::bench {

class BenchArguments {
 public:
  void add_to(CLI::App& app);
  // Call after parsing. Fails with ToolExit::kUsage.
  Outcome<BenchVerb> take();

 private:
  BenchVerb verb_;
  std::vector<std::string> operands_;
  std::vector<std::string> parts_;
  double seconds_ = 0;
  bool quick_ = false;
};

}  // namespace nfsrdma::cli::bench

// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse bench`: its options, and the function that runs it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace nfsrdma::cli::bench {

struct BenchVerb {
  std::string report;  // make a report from this document; empty: measure directories
  std::vector<std::string> directories;

  uint64_t size = 0;                      // bytes of the large file
  std::chrono::duration<double> time{0};  // longest duration of one run of random reads or small files
  unsigned rounds = 0;
  uint64_t files = 0;
  bool large = true;  // which parts to run
  bool random = true;
  bool small = true;

  std::string json;  // the result file; empty: none
  std::string html;
};

// Returns ToolExit, or 128 + the number of the signal that ended it. The text report goes to standard output,
// progress and failures to standard error.
int run_bench(const std::string& program, const BenchVerb& verb);

}  // namespace nfsrdma::cli::bench

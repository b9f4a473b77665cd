// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse bench`: what was asked for, and doing it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace nfsrdma::cli::bench {

struct BenchVerb {
  std::string report;  // a document to make a report of; else directories are measured
  std::vector<std::string> directories;

  uint64_t size = 0;                      // bytes of the large file
  std::chrono::duration<double> time{0};  // the longest that one run of random reads or small files may take
  unsigned rounds = 0;
  uint64_t files = 0;
  bool large = true;  // the parts
  bool random = true;
  bool small = true;

  std::string json;  // where results and page go; empty: nowhere
  std::string html;
};

// ToolExit, or 128 and the number of the signal that ended it. The text report goes to standard output,
// progress and failures to standard error.
int run_bench(const std::string& program, const BenchVerb& verb);

}  // namespace nfsrdma::cli::bench

// `nfsrdma-fuse bench`: what was asked for, and doing it.
#pragma once

#include <string>

namespace nfsrdma::cli::bench {

struct BenchVerb {
  std::string report;  // a document to make a report of
  std::string html;    // where the page goes; empty: nowhere
};

// ToolExit. The text report goes to standard output, failures to standard error.
int run_bench(const std::string& program, const BenchVerb& verb);

}  // namespace nfsrdma::cli::bench

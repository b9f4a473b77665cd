// SPDX-License-Identifier: Apache-2.0
// Measures directories in turn, round by round, and makes a document of the results.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "cli/bench/bench_verb.h"
#include "cli/bench/document.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli::bench {

// Blocks until everything is measured or `stop` is set. After a stop or a failure nothing is left in the
// directories, and there is no document. `say` gets a short line for each step.
Outcome<Document> measure_directories(const BenchVerb& verb, const std::atomic<bool>& stop,
                                      const std::function<void(const std::string&)>& say);

}  // namespace nfsrdma::cli::bench

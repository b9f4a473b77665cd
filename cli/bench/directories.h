// SPDX-License-Identifier: Apache-2.0
// Measuring directories, in turn and round by round: from what was asked for to a document.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "cli/bench/bench_verb.h"
#include "cli/bench/document.h"
#include "cli/outcome.h"

namespace nfsrdma::cli::bench {

// Blocks until all is measured, or until `stop` is set: then, as after any failure, nothing is left in the
// directories and there is no document. `say` gets what is done now, a short line each time.
Outcome<Document> measure_directories(const BenchVerb& verb, const std::atomic<bool>& stop,
                                      const std::function<void(const std::string&)>& say);

}  // namespace nfsrdma::cli::bench

// SPDX-License-Identifier: Apache-2.0
// One archive for a bug report: the doctor's report, what the mounts' daemons say, versions, limits, the end
// of the logs.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/checks.h"
#include "cli/doctor/facts.h"
#include "cli/outcome.h"

namespace nfsrdma::cli::doctor {

// Makes `file` (a .tar.gz, mode 0600), which must not be there yet. Without `with_names` no name of a file,
// host, export or user is in it (name_filter.h). Runs tar(1). Fails with ToolExit::kFailed and leaves nothing
// behind.
Outcome<> write_bundle(const std::string& file, bool with_names, const Facts& facts,
                       const std::vector<Result>& results);

}  // namespace nfsrdma::cli::doctor

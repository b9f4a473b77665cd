// SPDX-License-Identifier: Apache-2.0
// Writes one archive for a bug report: the doctor's report, the answers of the mounts' daemons, versions,
// limits, and the ends of the logs.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/checks.h"
#include "cli/doctor/facts.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli::doctor {

// Creates `file` (a .tar.gz, mode 0600), which must not exist yet. Unless `with_names` is set, names of
// files, hosts, exports and users are replaced (name_filter.h). Runs tar(1). Fails with ToolExit::kFailed and
// then leaves nothing behind.
Outcome<> write_bundle(const std::string& file, bool with_names, const Facts& facts,
                       const std::vector<Result>& results);

}  // namespace nfsrdma::cli::doctor

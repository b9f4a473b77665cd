// SPDX-License-Identifier: Apache-2.0
// Asks a running mount for its Snapshot.
#pragma once

#include "cli/stats/snapshot.h"
#include "cli/support/mountinfo.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

// Fails with ToolExit::kFailed if the daemon does not answer.
Outcome<Snapshot> take_snapshot(const MountEntry& entry);

}  // namespace nfsrdma::cli

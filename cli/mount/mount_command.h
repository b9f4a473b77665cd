// SPDX-License-Identifier: Apache-2.0
// `mount.nfsrdma-fuse` and `nfsrdma-fuse mount`: checks the request, starts the daemon and waits for its
// report.
#pragma once

#include <string>

#include "cli/mount/helper_args.h"

namespace nfsrdma::cli {

// Returns the exit status defined by mount(8); failures have been reported on standard error. Returns in the
// parent, and also in the daemon after the mount has ended.
int run_mount(const std::string& program, const MountRequest& request);

}  // namespace nfsrdma::cli

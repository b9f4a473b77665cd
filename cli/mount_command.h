// SPDX-License-Identifier: Apache-2.0
// `mount.nfsrdma-fuse` and `nfsrdma-fuse mount`: checks, starts the daemon, waits for its report.
#pragma once

#include <string>

#include "cli/helper_args.h"

namespace nfsrdma::cli {

// The exit status by mount(8); failures have been reported on standard error. Returns in the parent and, when
// the mount has ended, in the daemon.
int run_mount(const std::string& program, const MountRequest& request);

}  // namespace nfsrdma::cli

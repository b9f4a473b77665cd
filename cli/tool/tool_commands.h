// SPDX-License-Identifier: Apache-2.0
// The verbs that talk to a running mount: status, stats, umount, log-level.
//
// Each prints its result on standard output and returns ToolExit; failures have been reported on standard
// error. They find mounts in the mount table and daemons by their control sockets. They never access files in
// a mount.
#pragma once

#include <string>

#include "cli/control/control_protocol.h"
#include "cli/mount/helper_args.h"
#include "cli/stats/snapshot.h"
#include "cli/support/mountinfo.h"
#include "cli/tool/tool_args.h"

namespace nfsrdma::cli {

int run_status(const std::string& program, const StatusVerb& verb);
int run_stats(const std::string& program, const StatsVerb& verb);
int run_umount(const std::string& program, const UmountVerb& verb);
int run_log_level(const std::string& program, const LogLevelVerb& verb);

// The helper of umount(8): as run_umount(), with umount(8)'s exit statuses.
int run_umount_helper(const std::string& program, const UmountRequest& request);

}  // namespace nfsrdma::cli

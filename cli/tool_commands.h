// SPDX-License-Identifier: Apache-2.0
// The verbs that talk to a running mount: status, stats, umount, log-level.
//
// Each prints its result on standard output and returns ToolExit; failures have been reported on standard
// error. They find mounts in the mount table and daemons by their control sockets. They never access files in
// a mount.
#pragma once

#include <string>

#include "cli/control_protocol.h"
#include "cli/helper_args.h"
#include "cli/mountinfo.h"
#include "cli/snapshot.h"
#include "cli/tool_args.h"

namespace nfsrdma::cli {

int run_status(const std::string& program, const StatusVerb& verb);
int run_stats(const std::string& program, const StatsVerb& verb);
int run_umount(const std::string& program, const UmountVerb& verb);
int run_log_level(const std::string& program, const LogLevelVerb& verb);

// Sends a request to the daemon of a mount. If the daemon does not answer, fails with ToolExit::kFailed and a
// text with the mount's name and the next step.
Outcome<Json> ask_daemon(const MountEntry& entry, const Json& request);

// Asks the daemon of a mount for its snapshot. Fails with ToolExit::kFailed if the daemon does not answer.
Outcome<Snapshot> take_snapshot(const MountEntry& entry);

// The helper of umount(8): as run_umount(), with umount(8)'s exit statuses.
int run_umount_helper(const std::string& program, const UmountRequest& request);

}  // namespace nfsrdma::cli

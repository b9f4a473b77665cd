// SPDX-License-Identifier: Apache-2.0
// The verbs that talk to a running mount: status, stats, umount, log-level.
//
// Each prints its result on standard output and returns ToolExit; failures have been reported on standard
// error. They find mounts in the mount table and daemons by their control sockets, and never look into a
// mount.
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

// Asks the daemon of a mount; ToolExit::kFailed with the mount's name and the next step when it does not
// answer.
Outcome<Json> ask_daemon(const MountEntry& entry, const Json& request);

// What the daemon of a mount says about it; ToolExit::kFailed when it does not answer.
Outcome<Snapshot> take_snapshot(const MountEntry& entry);

// umount(8)'s helper: the same with the exit statuses of umount(8).
int run_umount_helper(const std::string& program, const UmountRequest& request);

}  // namespace nfsrdma::cli

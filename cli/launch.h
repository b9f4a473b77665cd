// SPDX-License-Identifier: Apache-2.0
// Starting the daemon: a child that mounts, and a parent that waits for its report.
//
// libfuse 3.14 daemonizes before anything can fail and reports nothing back, so this program does it itself:
// fork first, when no thread exists yet; the child mounts and reports through a pipe; the parent exits with
// what the child reported, with one line on standard error when it failed. Progress lines are shown with -v,
// or when standard error is a terminal.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "cli/reporter.h"

namespace nfsrdma::cli {

struct LaunchOptions {
  std::string program;  // for messages
  std::string source;   // for messages: what is being mounted
  std::string advice;   // for messages: what to run next
  bool verbose = false;
  // How long the parent waits at most; the child should have given up by itself before.
  std::chrono::milliseconds bound{};
};

// Returns twice, like fork(2): in the parent with the exit status for the user, in the child with what
// `daemon` returned. A user who interrupts the parent (INT, TERM, HUP) ends the child too, and gets
// MountExit::kInterrupted. A child that dies without a report is MountExit::kInternal.
int launch_in_background(const LaunchOptions& options, const std::function<int(Reporter&)>& daemon);

}  // namespace nfsrdma::cli

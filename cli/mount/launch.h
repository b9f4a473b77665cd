// SPDX-License-Identifier: Apache-2.0
// Starts the daemon: a child process mounts, and the parent waits for its report.
//
// libfuse 3.14 daemonizes before anything can fail, and it reports nothing. Therefore this program does it
// itself. It forks first, while there is only one thread. The child mounts and reports through a pipe. The
// parent exits with the reported status, with one line on standard error on failure. It shows progress lines.
// It shows a repeated line again only with -v, or if standard error is a terminal.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "cli/mount/reporter.h"

namespace nfsrdma::cli {

struct LaunchOptions {
  std::string program;  // for messages
  std::string source;   // for messages: what is being mounted
  std::string advice;   // for messages: what to run next
  bool verbose = false;
  // The longest time that the parent waits. The child should have given up before.
  std::chrono::milliseconds bound{};
};

// Returns twice, like fork(2): in the parent with the exit status for the user, in the child with the return
// value of `daemon`. If the user interrupts the parent (INT, TERM, HUP), the parent ends the child and
// returns MountExit::kInterrupted. A child that dies without a report yields MountExit::kInternal.
int launch_in_background(const LaunchOptions& options, const std::function<int(Reporter&)>& daemon);

}  // namespace nfsrdma::cli

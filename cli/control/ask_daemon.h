// SPDX-License-Identifier: Apache-2.0
// One question to the daemon of a mount, over its control socket.
#pragma once

#include <sys/types.h>

#include "cli/control/control_protocol.h"
#include "cli/support/mountinfo.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

struct DaemonAnswer {
  Json json;
  pid_t daemon = 0;  // its PID in this process' PID namespace; 0: not visible here
};

// Waits at most five seconds for the connection, and five for the answer. If the daemon does not answer,
// fails with ToolExit::kFailed and a text with the mount's name and the next step.
Outcome<DaemonAnswer> ask_daemon(const MountEntry& entry, const Json& request);

}  // namespace nfsrdma::cli

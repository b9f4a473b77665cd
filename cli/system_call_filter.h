// SPDX-License-Identifier: Apache-2.0
// The seccomp(2) filter of root's daemon: the system calls it makes once it talks to a server.
//
// A call that is not in the table ends the process by SIGSYS. execve(2) is not in it, nor is any way to start
// a process. clone3(2), and what the C library asks for only to see whether the kernel has it, is ENOSYS.
#pragma once

#include <string>

#include "cli/outcome.h"

namespace nfsrdma::cli {

// Tests name a file by it.
inline constexpr const char* kForbiddenCallsVariable = "NFSRDMA_FORBIDDEN_CALLS";

struct FilterOptions {
  // Where the name of a forbidden call is appended before the process ends. Empty: the kernel ends the
  // process itself, with a line in its own log where it has one.
  std::string forbidden_calls_file;
};

// For this thread and those that it starts, for good. no_new_privs is set before. Fails with
// MountExit::kSystem.
Outcome<> filter_system_calls(const FilterOptions& options);

}  // namespace nfsrdma::cli

// SPDX-License-Identifier: Apache-2.0
// The seccomp(2) filter of root's daemon: the system calls that it may make once it talks to a server.
//
// A call that is not in the table ends the process with SIGSYS. The table has no execve(2) and no other way
// to start a process. clone3(2), and calls that the C library makes only to test whether the kernel has them,
// return ENOSYS.
#pragma once

#include <string>

#include "cli/support/outcome.h"

namespace nfsrdma::cli {

// Tests set this variable to a file name.
inline constexpr const char* kForbiddenCallsVariable = "NFSRDMA_FORBIDDEN_CALLS";

struct FilterOptions {
  // The name of a forbidden call is appended to this file before the process ends. Empty: the kernel ends the
  // process itself and, if possible, logs a line.
  std::string forbidden_calls_file;
};

// Installs the filter permanently for this thread and the threads that it starts. no_new_privs must be set
// before. Fails with MountExit::kSystem.
Outcome<> filter_system_calls(const FilterOptions& options);

}  // namespace nfsrdma::cli

// SPDX-License-Identifier: Apache-2.0
// Runs a part of a test in a child, because it gives up rights for good. Call it before there are threads.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace nfsrdma::test {

// The child's exit status: 0 if `check` holds, 1 if not; -1: a signal ended it.
inline int in_child(const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace nfsrdma::test

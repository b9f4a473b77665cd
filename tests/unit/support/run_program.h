// SPDX-License-Identifier: Apache-2.0
// Runs a program to its end and returns what it printed. For tests; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nfsrdma::test {

struct Finished {
  int status = -1;     // exit status; -1: it was killed or did not start
  std::string output;  // stdout and stderr
};

// The path of a program in PATH or in one of the sbin directories, which a user's PATH seldom has; empty:
// none.
std::string find_program(std::string_view name);

// argv[0] is looked for as find_program() does. The program reads `input`.
Finished run_program(std::vector<std::string> argv, std::string_view input = {});

}  // namespace nfsrdma::test

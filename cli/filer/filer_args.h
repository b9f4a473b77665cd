// SPDX-License-Identifier: Apache-2.0
// The command line of `nfsrdma-filer`, parsed with CLI11. Pure, except that it reads the file of
// --fault-plan, and the environment for the default state directory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "cli/command_outline.h"
#include "cli/mount_options.h"
#include "cli/outcome.h"
#include "filer/fault_rules.h"
#include "filer/options.h"

namespace nfsrdma::cli {

struct FilerCommand {
  filer::Options options;
  filer::Switches switches;
  std::vector<filer::FaultRule> faults;
  std::map<std::string, uint64_t> memory_bytes{};  // SIZE of exports in memory, by path, if given
  bool read_only = false;                          // applies also to exports in memory
  bool insecure = false;
  LogLevel log_level = LogLevel::kInfo;
};

struct FilerText {  // --help, --version
  std::string text;
};

using FilerInvocation = std::variant<FilerCommand, FilerText>;

// `arguments` without argv[0]. Refused with ToolExit::kUsage.
Outcome<FilerInvocation> parse_filer_arguments(std::vector<std::string> arguments);

// The syntax of the command line, for its manual page and completions.
CommandOutline filer_outline();

}  // namespace nfsrdma::cli

// SPDX-License-Identifier: Apache-2.0
// The command line of `nfsrdma-filer`, parsed with CLI11. Pure, except that it resolves the paths of exported
// directories, reads the file of --fault-plan and the environment, and creates the parent of the default
// state directory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "cli/options/mount_options.h"
#include "cli/support/outcome.h"
#include "cli/tool/command_outline.h"
#include "filer/fault_rules.h"
#include "filer/nfs/options.h"

namespace nfsrdma::cli {

struct FilerCommand {
  filer::nfs::Options options;
  filer::nfs::Switches switches;
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

// `arguments` without argv[0]. Fails with ToolExit::kUsage, or with kFailed if an exported directory or the
// file of --fault-plan cannot be opened.
Outcome<FilerInvocation> parse_filer_arguments(std::vector<std::string> arguments);

// The syntax of the command line, for its manual page and completions.
CommandOutline filer_outline();

}  // namespace nfsrdma::cli

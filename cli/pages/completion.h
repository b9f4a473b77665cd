// SPDX-License-Identifier: Apache-2.0
// Shell completions, generated from the programs' command lines and the option table.
//
// They complete verbs, options and their words; mount options after -o (several, separated by commas) and as
// long options; files for FILE; and mounted directories for verbs that act on a mount. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/tool/command_outline.h"

namespace nfsrdma::cli::pages {

enum class Operand { kNone, kFile, kDirectory, kMount, kHost, kMountOptions, kLogLevel };

// The kind of an argument or option value, from its name in the definition of the command line. A DIR is an
// existing mount, except for verbs that take any directory.
Operand operand_of(std::string_view verb, std::string_view name);

// A mount option for completion: "hard", or "timeo=" with its words, if any.
struct Completed {
  std::string name;
  std::string help;
  bool value = false;
  std::vector<std::string> words;
};
// Every name that has an effect, including aliases and the names that turn a switch off. Sorted.
std::vector<Completed> completed_options();

// The words of log_level=, separated by spaces.
std::string log_levels();

// The options of mount.nfsrdma-fuse, as its usage text shows them.
CommandOutline mount_helper_outline();

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace nfsrdma::cli::pages

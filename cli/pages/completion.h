// SPDX-License-Identifier: Apache-2.0
// Completions for shells, made of the programs' own command lines and the option table.
//
// They complete verbs, options and their words, mount options behind -o (several, with commas between) and as
// long options, files where FILE is meant, and where a verb is about a mount the directories that are
// mounted. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_outline.h"

namespace nfsrdma::cli::pages {

enum class Operand { kNone, kFile, kDirectory, kMount, kHost, kMountOptions, kLogLevel };

// What an argument or an option's value is, by its name in the command line's definition. A DIR is a mount
// that there is, except of verbs that take any directory.
Operand operand_of(std::string_view verb, std::string_view name);

// A mount option as it is completed: "hard", or "timeo=" with its words, if it has some.
struct Completed {
  std::string name;
  std::string help;
  bool value = false;
  std::vector<std::string> words;
};
// Every name that has an effect: also aliases and those that turn a switch off. Sorted.
std::vector<Completed> completed_options();

// The words of log_level=, with blanks between.
std::string log_levels();

// The letters of mount.nfsrdma-fuse, as its usage shows them.
CommandOutline mount_helper_outline();

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace nfsrdma::cli::pages

// SPDX-License-Identifier: Apache-2.0
// What a program's command line takes, as data: read from the definition that parses it (CLI11), for manual
// pages and completions (cli/pages). Plain values, any thread.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nfsrdma::cli {

struct OutlinedOption {
  std::vector<std::string> names;  // "-o", "--options"
  std::string placeholder;         // of its value; empty: a switch
  std::string help;
  std::string fallback;            // the default, where the definition has one
  std::vector<std::string> words;  // the only values that it takes; empty: any
};

struct OutlinedArgument {
  std::string name;  // "DIR"
  std::string help;
  std::string usage;  // "[DIR]", "DIR..."
};

struct CommandOutline {
  std::string name;
  std::string help;
  std::vector<OutlinedOption> options;
  std::vector<OutlinedArgument> arguments;
  std::vector<CommandOutline> verbs;
};

// The help option of a verb is left out: every verb has it.
CommandOutline outline_of(const CLI::App& app);

}  // namespace nfsrdma::cli

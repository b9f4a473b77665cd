// SPDX-License-Identifier: Apache-2.0
// The arguments and options of a program, as data. outline_of() reads them from the CLI11 definition that
// also parses the command line. Manual pages and completions (cli/pages) are made from them. Plain values,
// any thread.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nfsrdma::cli {

struct OutlinedOption {
  std::vector<std::string> names;  // "-o", "--options"
  std::string placeholder;         // of the option's value; empty: the option is a switch
  std::string help;
  std::string fallback;            // the default value, if the definition has one
  std::vector<std::string> words;  // the accepted values; empty: any value
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

// Verbs come without their help option, because every verb has it.
CommandOutline outline_of(const CLI::App& app);

}  // namespace nfsrdma::cli

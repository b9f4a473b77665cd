// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <fmt/format.h>

#include "cli/filer/filer_args.h"
#include "cli/pages/completion.h"
#include "cli/tool/tool_args.h"

namespace nfsrdma::cli::pages {
namespace {

constexpr std::string_view kFishHead =
    R"FISH(# Completion for nfsrdma-fuse, mount.nfsrdma-fuse and nfsrdma-filer: made of their command lines when they were built.

# Mount points of this program. /proc writes a blank as \040.
function __nfsrdma_fuse_mounts
    string replace -rf '^\S+ \S+ \S+ \S+ (\S+) .* - fuse\.rpcrdma .*$' '$1' </proc/self/mountinfo | string unescape
end
)FISH";

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string wanted(Operand operand) {
  switch (operand) {
    case Operand::kNone: return "-x";
    case Operand::kFile: return "-r -F";
    case Operand::kDirectory: return "-x -a '(__fish_complete_directories)'";
    case Operand::kMount: return "-x -a '(__nfsrdma_fuse_mounts)'";
    case Operand::kHost: return "-x -a '(__fish_print_hostnames):'";
    case Operand::kMountOptions: return "-x -a '(__fish_complete_list , __nfsrdma_fuse_options)'";
    case Operand::kLogLevel: return fmt::format("-x -a '{}'", log_levels());
  }
  return "-x";
}

std::string option_line(const std::string& start, std::string_view verb, const OutlinedOption& option) {
  std::string line = start;
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.words.empty()) {
    line += fmt::format(" -x -a '{}'", fmt::join(option.words, " "));
  } else if (!option.placeholder.empty()) {
    line += " " + wanted(operand_of(verb, option.placeholder));
  }
  return fmt::format("{} -d {}\n", line, fish_quoted(option.help));
}

// `start`: "complete -c PROGRAM [-n CONDITION]".
std::string lines_of(const std::string& start, const CommandOutline& verb) {
  std::string out;
  for (const OutlinedOption& option : verb.options) out += option_line(start, verb.name, option);
  for (const OutlinedArgument& argument : verb.arguments) {
    const Operand operand = operand_of(verb.name, argument.name);
    if (operand == Operand::kFile) {
      out += start + " -F\n";
    } else if (operand != Operand::kNone) {
      out += fmt::format("{}{}\n", start,
                         wanted(operand).substr(2));  // without "-x": not the value of an option
    }
  }
  if (verb.name != "mount") return out;
  for (const Completed& option : completed_options()) {
    out += fmt::format("{} -l {}{} -d {}\n", start, option.name,
                       !option.value          ? ""
                       : option.words.empty() ? " -x"
                                              : fmt::format(" -x -a '{}'", fmt::join(option.words, " ")),
                       fish_quoted(option.help));
  }
  return out;
}

}  // namespace

std::string fish_completion() {
  const CommandOutline tool = tool_outline();
  std::string out(kFishHead);
  out += "\nfunction __nfsrdma_fuse_options\n    printf '%s\\t%s\\n'";
  for (const Completed& option : completed_options()) {
    out +=
        fmt::format(" \\\n        {}{} {}", option.name, option.value ? "=" : "", fish_quoted(option.help));
    for (const std::string& word : option.value ? option.words : std::vector<std::string>{})
      out += fmt::format(" \\\n        {}={} ''", option.name, word);
  }
  out +=
      "\nend\n\ncomplete -c nfsrdma-fuse -f\ncomplete -c mount.nfsrdma-fuse -f\ncomplete -c nfsrdma-filer "
      "-f\n";
  const std::string none = "complete -c nfsrdma-fuse -n __fish_use_subcommand";
  for (const OutlinedOption& option : tool.options) out += option_line(none, "", option);
  for (const CommandOutline& verb : tool.verbs) {
    out += fmt::format("{} -a {} -d {}\n", none, verb.name, fish_quoted(verb.help));
    out += lines_of(fmt::format("complete -c nfsrdma-fuse -n '__fish_seen_subcommand_from {}'", verb.name),
                    verb);
  }
  out += lines_of("complete -c mount.nfsrdma-fuse", mount_helper_outline());
  out += lines_of("complete -c nfsrdma-filer", filer_outline());
  return out;
}

}  // namespace nfsrdma::cli::pages

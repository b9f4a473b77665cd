// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <fmt/format.h>

#include "cli/filer/filer_args.h"
#include "cli/pages/completion.h"
#include "cli/tool/tool_args.h"

namespace nfsrdma::cli::pages {
namespace {

constexpr std::string_view kZshHead = R"ZSH(#compdef nfsrdma-fuse mount.nfsrdma-fuse nfsrdma-filer
# Made of the programs' command lines when they were built.

# Mount points of this program. /proc writes a blank as \040.
_nfsrdma_fuse_mounts() {
  local point rest skipped
  local -a points expl
  while read -r skipped skipped skipped skipped point rest; do
    [[ $rest != *' - fuse.rpcrdma '* ]] || points+=("$(printf '%b' "${point//\\/\\0}")")
  done </proc/self/mountinfo
  _wanted mounts expl mount compadd -f -a points
}
)ZSH";

constexpr std::string_view kTail = R"ZSH(
_nfsrdma_fuse() {
  local curcontext=$curcontext state line
  typeset -A opt_args
  if [[ $service != nfsrdma-fuse ]]; then
    _nfsrdma_fuse_verb $service
    return
  fi
  _arguments -C '(- *)'{-h,--help}'[show this text]' '(- *)'{-V,--version}'[show the version]' \
    '1:command:_nfsrdma_fuse_verbs' '*::argument:->argument'
  [[ $state != argument ]] || _nfsrdma_fuse_verb $words[1]
}

_nfsrdma_fuse "$@"
)ZSH";

// For use in single quotes and in a bracketed description, which an unescaped ':' would end.
std::string zsh_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out;
}

std::string action(Operand operand) {
  switch (operand) {
    case Operand::kNone: return " ";
    case Operand::kFile: return "_files";
    case Operand::kDirectory: return "_files -/";
    case Operand::kMount: return "_nfsrdma_fuse_mounts";
    case Operand::kHost: return "_hosts -S \\:";
    case Operand::kMountOptions: return "_nfsrdma_fuse_options";
    case Operand::kLogLevel: return fmt::format("({})", log_levels());
  }
  return " ";
}

std::string value(std::string_view verb, const OutlinedOption& option) {
  if (option.placeholder.empty()) return {};
  return fmt::format(":{}:{}", zsh_quoted(option.placeholder),
                     option.words.empty() ? action(operand_of(verb, option.placeholder))
                                          : fmt::format("({})", fmt::join(option.words, " ")));
}

std::string option_value(const Completed& option) {
  if (!option.value) return {};
  return fmt::format(":value:{}",
                     option.words.empty() ? " " : fmt::format("({})", fmt::join(option.words, " ")));
}

std::string verb_case(const CommandOutline& verb) {
  std::string out = fmt::format("    {})\n      _arguments -s", verb.name);
  for (const OutlinedOption& option : verb.options) {
    for (const std::string& name : option.names)
      out += fmt::format(" \\\n        '*{}{}[{}]{}'", name,
                         option.placeholder.empty() || !name.starts_with("--") ? "" : "=",
                         zsh_quoted(option.help), value(verb.name, option));
  }
  if (verb.name == "mount") {
    for (const Completed& option : completed_options())
      out += fmt::format(" \\\n        '*--{}{}[{}]{}'", option.name, option.value ? "=" : "",
                         zsh_quoted(option.help), option_value(option));
  }
  if (!verb.name.starts_with("mount.")) out += " \\\n        '(- *)'{-h,--help}'[show this text]'";
  for (const OutlinedArgument& argument : verb.arguments) {
    const std::string what =
        fmt::format("{}:{}", zsh_quoted(argument.name), action(operand_of(verb.name, argument.name)));
    out += argument.usage.ends_with("...") ? fmt::format(" \\\n        '*:{}'", what)
                                           : fmt::format(" \\\n        ':{}'", what);
  }
  return out + "\n      ;;\n";
}

}  // namespace

std::string zsh_completion() {
  const CommandOutline tool = tool_outline();
  std::string out(kZshHead);
  out += "\n_nfsrdma_fuse_options() {\n  _values -s , -S = 'mount option'";
  for (const Completed& option : completed_options())
    out += fmt::format(" \\\n    '{}[{}]{}'", option.name, zsh_quoted(option.help), option_value(option));
  out += "\n}\n\n_nfsrdma_fuse_verbs() {\n  local -a verbs=(";
  for (const CommandOutline& verb : tool.verbs)
    out += fmt::format("\n    '{}:{}'", verb.name, zsh_quoted(verb.help));
  out += "\n  )\n  _describe command verbs\n}\n\n_nfsrdma_fuse_verb() {\n  case $1 in\n";
  for (const CommandOutline& verb : tool.verbs) out += verb_case(verb);
  out += verb_case(mount_helper_outline());
  out += verb_case(filer_outline());
  out += "  esac\n}\n";
  return out + std::string(kTail);
}

}  // namespace nfsrdma::cli::pages

// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <fmt/format.h>

#include "cli/filer/filer_args.h"
#include "cli/pages/completion.h"
#include "cli/tool/tool_args.h"

namespace nfsrdma::cli::pages {
namespace {

// The generated script begins with functions that list verbs, options and argument kinds. This driver
// follows; it contains no data of the programs.
constexpr std::string_view kDriver = R"BASH(
# Mount points of this program. /proc writes a blank as \040.
_nfsrdma_fuse_mounts() {
  local point rest
  while read -r _ _ _ _ point rest; do
    [[ $rest != *' - fuse.rpcrdma '* ]] || printf '%b\n' "${point//\\/\\0}"
  done </proc/self/mountinfo
}

# The line as the program gets it: bash breaks words at '=' and ':', too.
_nfsrdma_fuse_words() {
  local line=${COMP_LINE:0:COMP_POINT} word i
  words=()
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if ((i == 0)) || [[ $line == [[:space:]]* ]]; then
      line=${line#"${line%%[![:space:]]*}"}
      words+=('')
    fi
    ((i < COMP_CWORD)) || word=$line
    words[-1]+=$word
    line=${line#"$word"}
  done
}

# Adds to COMPREPLY those of the lines on standard input that begin with $2, behind $1.
_nfsrdma_fuse_offer() {
  local line
  while IFS= read -r line; do
    [[ $line != "$2"* ]] || COMPREPLY+=("$1$line")
  done
}

# $1: what is wanted; $2: what stands before it in the same word; $3: what there is of it.
_nfsrdma_fuse_complete() {
  local before item
  case $1 in
    words\ *) _nfsrdma_fuse_offer "$2" "$3" < <(printf '%s\n' ${1#words }) ;;
    mount) compopt -o filenames 2>/dev/null; _nfsrdma_fuse_offer "$2" "$3" < <(_nfsrdma_fuse_mounts) ;;
    file) compopt -o filenames 2>/dev/null; _nfsrdma_fuse_offer "$2" "$3" < <(compgen -f -- "$3") ;;
    directory) compopt -o filenames 2>/dev/null; _nfsrdma_fuse_offer "$2" "$3" < <(compgen -d -- "$3") ;;
    host) [[ $3 == *:* ]] || { compopt -o nospace 2>/dev/null; _nfsrdma_fuse_offer "$2" "$3" < <(compgen -A hostname -S : -- "$3"); } ;;
    options)
      compopt -o nospace 2>/dev/null
      item=${3##*,}
      before=$2${3%"$item"}
      if [[ $item == *=* ]]; then
        _nfsrdma_fuse_offer "$before${item%%=*}=" "${item#*=}" < <(printf '%s\n' $(_nfsrdma_fuse_option_words "${item%%=*}"))
      else
        _nfsrdma_fuse_offer "$before" "$item" < <(printf '%s\n' $_nfsrdma_fuse_options)
      fi
      ;;
  esac
}

_nfsrdma_fuse() {
  local words cur command verb wanted= value i argument=0
  _nfsrdma_fuse_words
  cur=${words[-1]}
  COMPREPLY=()
  command=${words[0]##*/}
  verb=$command
  [[ $command != nfsrdma-fuse ]] || verb=
  for ((i = 1; i < ${#words[@]} - 1; ++i)); do
    wanted=
    if [[ -z $verb && ${words[i]} != -* ]]; then
      verb=${words[i]}
    elif [[ ${words[i]} != -* ]]; then
      argument=$((argument + 1))
    elif [[ ${words[i]} != *=* ]]; then
      wanted=$(_nfsrdma_fuse_value "$verb" "${words[i]}")
      [[ -z $wanted ]] || ((++i == ${#words[@]} - 1)) || wanted=
    fi
  done
  if [[ -n $wanted ]]; then
    _nfsrdma_fuse_complete "$wanted" '' "$cur"
  elif [[ $cur == --*=* ]]; then
    _nfsrdma_fuse_complete "$(_nfsrdma_fuse_value "$verb" "${cur%%=*}")" "${cur%%=*}=" "${cur#*=}"
  elif [[ $cur == -* ]]; then
    _nfsrdma_fuse_offer '' "$cur" < <(printf '%s\n' $(_nfsrdma_fuse_flags "$verb"))
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
  elif [[ -z $verb ]]; then
    _nfsrdma_fuse_complete "words $_nfsrdma_fuse_verbs" '' "$cur"
  else
    _nfsrdma_fuse_complete "$(_nfsrdma_fuse_argument "$verb" "$argument")" '' "$cur"
  fi
  # What bash has broken off stays on the line.
  value=${cur##*[=:]}
  for ((i = 0; i < ${#COMPREPLY[@]}; ++i)); do
    COMPREPLY[i]=${COMPREPLY[i]#"${cur%"$value"}"}
  done
}

complete -F _nfsrdma_fuse nfsrdma-fuse mount.nfsrdma-fuse nfsrdma-filer
)BASH";

std::string kind_word(Operand operand) {
  switch (operand) {
    case Operand::kNone: return "any";
    case Operand::kFile: return "file";
    case Operand::kDirectory: return "directory";
    case Operand::kMount: return "mount";
    case Operand::kHost: return "host";
    case Operand::kMountOptions: return "options";
    case Operand::kLogLevel: return fmt::format("words {}", log_levels());
  }
  return "any";
}

std::string value_word(const CommandOutline& verb, const OutlinedOption& option) {
  return option.words.empty() ? kind_word(operand_of(verb.name, option.placeholder))
                              : fmt::format("words {}", fmt::join(option.words, " "));
}

std::string flags_of(const CommandOutline& verb) {
  std::string out;
  for (const OutlinedOption& option : verb.options) {
    for (const std::string& name : option.names) out += " " + name;
  }
  if (verb.name == "mount") {
    for (const Completed& option : completed_options())
      out += fmt::format(" --{}{}", option.name, option.value ? "=" : "");
  }
  return out;
}

std::string values_of(const CommandOutline& verb) {
  std::string out;
  for (const OutlinedOption& option : verb.options) {
    if (option.placeholder.empty()) continue;
    std::string names;
    for (const std::string& name : option.names)
      names += fmt::format("{}'{} {}'", names.empty() ? "" : " | ", verb.name, name);
    out += fmt::format("    {}) echo '{}' ;;\n", names, value_word(verb, option));
  }
  if (verb.name != "mount") return out;
  for (const Completed& option : completed_options()) {
    if (!option.value) continue;
    out += fmt::format("    'mount --{}') echo '{}' ;;\n", option.name,
                       option.words.empty() ? "any" : fmt::format("words {}", fmt::join(option.words, " ")));
  }
  return out;
}

std::string arguments_of(const CommandOutline& verb) {
  std::string out;
  for (size_t i = 0; i < verb.arguments.size(); ++i) {
    const OutlinedArgument& argument = verb.arguments[i];
    const bool more = argument.usage.ends_with("...");
    out += fmt::format("    '{}'{}) echo '{}' ;;\n",
                       fmt::format("{} {}", verb.name, more ? "" : std::to_string(i)), more ? "*" : "",
                       kind_word(operand_of(verb.name, argument.name)));
  }
  return out;
}

}  // namespace

std::string bash_completion() {
  const CommandOutline tool = tool_outline();
  std::vector<CommandOutline> commands = tool.verbs;
  commands.push_back(mount_helper_outline());
  commands.push_back(filer_outline());
  std::string verbs, options, words, flags, values, arguments;
  for (const CommandOutline& verb : tool.verbs) verbs += (verbs.empty() ? "" : " ") + verb.name;
  for (const Completed& option : completed_options()) {
    options += fmt::format("{}{}{}", options.empty() ? "" : " ", option.name, option.value ? "=" : "");
    if (!option.words.empty() && option.value)
      words += fmt::format("    {}) echo '{}' ;;\n", option.name, fmt::join(option.words, " "));
  }
  flags += fmt::format("    '') echo '{} -h --help' ;;\n", flags_of(tool));
  for (const CommandOutline& verb : commands) {
    flags += fmt::format("    {}) echo '{}{}' ;;\n", verb.name, flags_of(verb),
                         verb.name.starts_with("mount.") ? "" : " -h --help");
    values += values_of(verb);
    arguments += arguments_of(verb);
  }
  return fmt::format(
      "# bash completion for nfsrdma-fuse, mount.nfsrdma-fuse and nfsrdma-filer: made of their command lines "
      "when they were "
      "built.\n\n_nfsrdma_fuse_verbs='{}'\n_nfsrdma_fuse_options='{}'\n\n"
      "_nfsrdma_fuse_option_words() {{\n  case ${{1//-/_}} in\n{}  esac\n}}\n\n"
      "_nfsrdma_fuse_flags() {{\n  case $1 in\n{}  esac\n}}\n\n"
      "_nfsrdma_fuse_value() {{\n  case \"$1 $2\" in\n{}  esac\n}}\n\n"
      "_nfsrdma_fuse_argument() {{\n  case \"$1 $2\" in\n{}  esac\n}}\n{}",
      verbs, options, words, flags, values, arguments, kDriver);
}

}  // namespace nfsrdma::cli::pages

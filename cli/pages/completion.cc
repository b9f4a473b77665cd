// SPDX-License-Identifier: Apache-2.0
#include "cli/pages/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/mount/helper_args.h"
#include "cli/options/option_table.h"

namespace nfsrdma::cli::pages {
namespace {

struct Meaning {
  std::string_view name;
  Operand operand;
};
constexpr std::array kMeanings{
    Meaning{"FILE", Operand::kFile},        Meaning{"RUN.json", Operand::kFile},
    Meaning{"EXPORT", Operand::kDirectory}, Meaning{"DIR", Operand::kMount},
    Meaning{"SERVER", Operand::kHost},      Meaning{"SOURCE", Operand::kHost},
    Meaning{"LEVEL", Operand::kLogLevel},
};
// Verbs and programs whose DIR may be any directory.
constexpr std::array<std::string_view, 4> kAnyDirectory{"mount", "mount.nfsrdma-fuse", "bench",
                                                        "nfsrdma-filer"};

}  // namespace

Operand operand_of(std::string_view verb, std::string_view name) {
  // LIST of nfsrdma-filer's options is not a list of mount options.
  if (name == "LIST") return verb == "nfsrdma-filer" ? Operand::kNone : Operand::kMountOptions;
  for (const Meaning& one : kMeanings) {
    if (one.name != name) continue;
    const bool any = std::find(kAnyDirectory.begin(), kAnyDirectory.end(), verb) != kAnyDirectory.end();
    return one.operand == Operand::kMount && any ? Operand::kDirectory : one.operand;
  }
  return Operand::kNone;
}

std::vector<Completed> completed_options() {
  std::vector<Completed> out;
  const auto add = [&](std::string_view name, const OptionSpec& spec, bool value) {
    Completed one{std::string(name), std::string(spec.help), value, {}};
    for (const std::string_view word : split_words(spec.words)) one.words.emplace_back(word);
    if (std::none_of(out.begin(), out.end(), [&](const Completed& there) { return there.name == one.name; }))
      out.push_back(std::move(one));
  };
  for (const OptionSpec& spec : option_table()) {
    if (spec.kind == OptionKind::kRefused || spec.kind == OptionKind::kIgnored) continue;
    add(spec.name, spec, spec.kind != OptionKind::kSwitch);
    for (const std::string_view alias : split_words(spec.aliases))
      add(alias, spec, spec.kind != OptionKind::kSwitch);
  }
  for (const OptionSpec& spec : option_table()) {  // after the options that have their own help text
    if (!spec.off.empty()) add(spec.off, spec, false);
  }
  std::sort(out.begin(), out.end(), [](const Completed& a, const Completed& b) { return a.name < b.name; });
  return out;
}

std::string log_levels() {
  return fmt::format("{}", fmt::join(split_words(find_option("log_level").spec->words), " "));
}

CommandOutline mount_helper_outline() {
  CommandOutline out{.name = "mount.nfsrdma-fuse",
                     .help = "Mount an NFSv4.1 export",
                     .options = {},
                     .arguments = {},
                     .verbs = {}};
  out.arguments = {{"SOURCE", "host:/path", "SOURCE"}, {"DIR", "where to mount it", "DIR"}};
  const std::string usage = mount_helper_usage(out.name);
  for (size_t at = 0; at < usage.size();) {
    const size_t end = std::min(usage.find('\n', at), usage.size());
    const std::string line = usage.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with("  -")) continue;
    // "  -o LIST   options", "  -r, -w    read-only": letters, optionally a value, two blanks, the help text.
    const size_t gap = line.find("  ", 2);
    std::string letters = line.substr(2, gap - 2);
    const std::string help = line.substr(line.find_first_not_of(' ', gap));
    std::string placeholder;
    if (const size_t blank = letters.find(' ');
        letters.find(',') == std::string::npos && blank != std::string::npos) {
      placeholder = letters.substr(blank + 1);
      letters.resize(blank);
    }
    for (size_t dash = 0; (dash = letters.find('-', dash)) != std::string::npos; ++dash)
      out.options.push_back({{letters.substr(dash, 2)}, placeholder, help, {}, {}});
  }
  return out;
}

}  // namespace nfsrdma::cli::pages

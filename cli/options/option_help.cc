// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "cli/options/option_table.h"
#include "cli/options/options.h"

namespace nfsrdma::cli {
namespace {

constexpr size_t kIndent = 28;

std::string head(const OptionSpec& spec) {
  std::string text(spec.name);
  if (spec.kind == OptionKind::kSwitch) {
    if (!spec.off.empty()) text += fmt::format(", {}", spec.off);
  } else {
    text += fmt::format("={}", spec.unit.empty() ? spec.words : spec.unit);
  }
  return text;
}

// Adds a row of two columns: `left` at column 2, `right` wrapped from column kIndent on.
void add_row(std::string& out, std::string_view left, std::string_view right, size_t width) {
  std::string line = fmt::format("  {}", left);
  if (line.size() + 1 > kIndent) {
    out += line + '\n';
    line.clear();
  }
  line.resize(kIndent, ' ');
  size_t column = kIndent;
  while (!right.empty()) {
    const size_t space = std::min(right.find(' '), right.size());
    if (column > kIndent && column + 1 + space > width) {
      out += line + '\n';
      line.assign(kIndent, ' ');
      column = kIndent;
    } else if (column > kIndent) {
      line += ' ';
      ++column;
    }
    line += right.substr(0, space);
    column += space;
    right.remove_prefix(std::min(space + 1, right.size()));
  }
  out += line + '\n';
}

std::string name_list(OptionSection section) {
  std::string text;
  for (const OptionSpec& spec : option_table()) {
    if (spec.section != section) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " ", spec.name);
    for (std::string_view alias : split_words(spec.aliases)) {
      // The table writes "x_*" because names are compared with '_'; users write x-systemd.requires.
      text += alias.ends_with("_*") ? fmt::format(" {}-*", alias.substr(0, 1)) : fmt::format(" {}", alias);
    }
  }
  return text;
}

}  // namespace

std::string option_sentence(const OptionSpec& spec) {
  std::string text(spec.help);
  if (!spec.aliases.empty()) {
    text += "; also";
    for (const std::string_view alias : split_words(spec.aliases)) text += fmt::format(" {}", alias);
  }
  if (spec.fallback.starts_with('(')) {
    text += fmt::format(" {}", spec.fallback);
  } else if (!spec.fallback.empty()) {
    const std::string_view value = spec.fallback == "on"                         ? spec.name
                                   : spec.fallback == "off" && !spec.off.empty() ? spec.off
                                                                                 : spec.fallback;
    text += fmt::format(" (default {})", value);
  }
  return text;
}

std::string options_help(size_t width) {
  std::string out;
  constexpr OptionSection kSections[] = {
      OptionSection::kServer,    OptionSection::kWaiting, OptionSection::kTransfer,
      OptionSection::kCoherence, OptionSection::kLocking, OptionSection::kSecurity,
      OptionSection::kVfs,       OptionSection::kFuse,    OptionSection::kDaemon};
  for (const OptionSection section : kSections) {
    out += fmt::format("{}:\n", title(section));
    for (const OptionSpec& spec : option_table()) {
      if (spec.section == section && spec.kind != OptionKind::kRefused)
        add_row(out, head(spec), option_sentence(spec), width);
    }
    out += '\n';
  }
  out += fmt::format("{}:\n", title(OptionSection::kIgnored));
  std::string ignored = name_list(OptionSection::kIgnored);
  add_row(out, "", ignored, width);
  return out;
}

}  // namespace nfsrdma::cli

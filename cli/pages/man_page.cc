// SPDX-License-Identifier: Apache-2.0
#include "cli/pages/man_page.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "cli/filer/filer_args.h"
#include "cli/options/option_table.h"
#include "cli/support/version.h"
#include "cli/tool/command_outline.h"
#include "cli/tool/tool_args.h"

namespace nfsrdma::cli::pages {
namespace {

constexpr OptionSection kSections[] = {
    OptionSection::kServer,    OptionSection::kWaiting, OptionSection::kTransfer,
    OptionSection::kCoherence, OptionSection::kLocking, OptionSection::kSecurity,
    OptionSection::kVfs,       OptionSection::kFuse,    OptionSection::kDaemon};

// A page shows the bounds of an option if the upper bound is at most this value. A larger one only keeps
// numbers representable.
constexpr uint64_t kTellingBound = 1 << 20;

// Escapes the characters that have a meaning in scdoc.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\*_`#[|]~<>").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string bold(std::string_view text) {
  return fmt::format("*{}*", plain(text));
}

// "rsize=BYTES", the name bold and the value underlined.
std::string with_value(std::string_view name, std::string_view between, std::string_view value) {
  return fmt::format("{}{}_{}_", bold(name), between, plain(value));
}

// `text` is a sentence without its initial capital.
std::string entry(std::string_view head, std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z')
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return fmt::format("{}\n\t{}\n\n", head, text);
}

// The table writes "x_*" because names are compared with '_'.
std::string alias_text(std::string_view alias) {
  return alias.ends_with("_*") ? fmt::format("{}-*", alias.substr(0, alias.size() - 2)) : std::string(alias);
}

std::string names_of(const OptionSpec& spec) {
  std::string names = bold(spec.name);
  for (const std::string_view alias : split_words(spec.aliases)) names += ", " + bold(alias_text(alias));
  return names;
}

std::string head(const OptionSpec& spec) {
  if (spec.kind != OptionKind::kSwitch)
    return with_value(spec.name, "=", spec.unit.empty() ? spec.words : spec.unit);
  return spec.off.empty() ? bold(spec.name) : fmt::format("{}, {}", bold(spec.name), bold(spec.off));
}

std::string bounds(const OptionSpec& spec) {
  if (spec.kind != OptionKind::kNumber && spec.kind != OptionKind::kSize) return {};
  if (spec.max > kTellingBound || spec.max == spec.min) return {};
  return fmt::format(" From {} to {}.", spec.min, spec.max);
}

std::string when_it_changes(const OptionSpec& spec) {
  switch (spec.mutability) {
    case Mutability::kMount: return {};
    case Mutability::kRemount: return " *mount -o remount* changes it.";
    case Mutability::kLive: return " It can change while mounted (SIGNALS).";
  }
  return {};
}

std::string values(const OptionSpec& spec) {
  if (spec.unit.empty() || spec.words.empty()) return {};
  return fmt::format(" One of {}.", plain(fmt::format("{}", fmt::join(split_words(spec.words), ", "))));
}

std::string option_entry(const OptionSpec& spec) {
  return entry(head(spec), fmt::format("{}.{}{}{}", plain(option_sentence(spec)), values(spec), bounds(spec),
                                       when_it_changes(spec)));
}

std::string entries_of(OptionKind kind) {
  std::string out;
  for (const OptionSpec& spec : option_table()) {
    if (spec.kind == kind) out += entry(names_of(spec), plain(spec.help) + ".");
  }
  return out;
}

std::string option_entries(const std::vector<OutlinedOption>& options) {
  std::string out;
  for (const OutlinedOption& option : options) {
    std::string names;
    for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + bold(name);
    if (!option.placeholder.empty()) names += fmt::format(" _{}_", plain(option.placeholder));
    std::string text = plain(option.help);
    if (!option.fallback.empty()) text += fmt::format(" (default {})", plain(option.fallback));
    out += entry(names, text + ".");
  }
  return out;
}

std::string verb_text(const CommandOutline& verb) {
  std::string line = fmt::format("*nfsrdma-fuse {}*", verb.name);
  if (!verb.options.empty()) line += " [options]";
  for (const OutlinedArgument& argument : verb.arguments) line += " " + plain(argument.usage);
  std::string out = line + "\n\n";
  for (const OutlinedArgument& argument : verb.arguments)
    out += entry(fmt::format("_{}_", plain(argument.name)), plain(argument.help) + ".");
  return out + option_entries(verb.options);
}

class Page {
 public:
  // The replacement of "@WORD [NAME]@"; nothing if WORD or NAME is unknown, or if the verb NAME was used
  // before.
  std::optional<std::string> part(std::string_view word, std::string_view name) {
    if (word == "options") return section(name);
    if (word == "ignored-options") return entries_of(OptionKind::kIgnored);
    if (word == "refused-options") return entries_of(OptionKind::kRefused);
    if (word == "verb") return verb(name);
    if (word == "other-verbs") return other_verbs();
    if (word == "filer-options") return option_entries(filer_outline().options);
    return std::nullopt;
  }

  // A section of the table that the page lacks, if the page has any section.
  std::string_view missing() const {
    if (sections_.empty()) return {};
    for (const OptionSection one : kSections) {
      if (!sections_.contains(one)) return title(one);
    }
    return {};
  }

 private:
  std::optional<std::string> section(std::string_view name) {
    const auto found = std::find_if(std::begin(kSections), std::end(kSections),
                                    [&](OptionSection one) { return title(one) == name; });
    if (found == std::end(kSections)) return std::nullopt;
    sections_.insert(*found);
    std::string out;
    for (const OptionSpec& spec : option_table()) {
      if (spec.section == *found && spec.kind != OptionKind::kRefused) out += option_entry(spec);
    }
    return out;
  }

  std::optional<std::string> verb(std::string_view name) {
    for (const CommandOutline& one : tool_.verbs) {
      if (one.name == name && verbs_.insert(one.name).second) return verb_text(one);
    }
    return std::nullopt;
  }

  std::string other_verbs() {
    std::string out;
    for (const CommandOutline& one : tool_.verbs) {
      if (!verbs_.insert(one.name).second) continue;
      out += fmt::format("## {}\n\n{}.\n\n{}", one.name, plain(one.help), verb_text(one));
    }
    return out;
  }

  CommandOutline tool_ = tool_outline();
  std::set<std::string> verbs_;
  std::set<OptionSection> sections_;
};

std::string with_version(std::string_view line) {
  constexpr std::string_view kMark = "@VERSION@";
  std::string out(line);
  if (const size_t at = out.find(kMark); at != std::string::npos) out.replace(at, kMark.size(), kVersion);
  return out;
}

}  // namespace

Outcome<std::string> man_page(std::string_view page_template) {
  Page page;
  std::string out;
  for (size_t number = 1; !page_template.empty(); ++number) {
    const size_t end = std::min(page_template.find('\n'), page_template.size());
    const std::string_view line = page_template.substr(0, end);
    page_template.remove_prefix(std::min(end + 1, page_template.size()));
    if (line.starts_with(';')) continue;
    if (line.size() < 3 || line.front() != '@' || line.back() != '@') {
      out += with_version(line) + '\n';
      continue;
    }
    const std::string_view inner = line.substr(1, line.size() - 2);
    const size_t space = std::min(inner.find(' '), inner.size());
    const auto text = page.part(inner.substr(0, space), inner.substr(std::min(space + 1, inner.size())));
    if (!text)
      return refuse(ToolExit::kFailed, fmt::format("line {}: {} is unknown, or stands twice", number, line));
    out += *text;
  }
  if (!page.missing().empty())
    return refuse(ToolExit::kFailed, fmt::format("there is no @options {}@", page.missing()));
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace nfsrdma::cli::pages

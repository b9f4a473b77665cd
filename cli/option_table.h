// SPDX-License-Identifier: Apache-2.0
// The option table: one row per mount option, the single source for parsing, the configuration file, the long
// forms of `nfsrdma-fuse mount`, the help text, `status` and the manual pages.
//
// Names, units and defaults are nfs(5)'s where nfs(5) has the option. Names are written with '_'; a user may
// write
// '-' for it. An option that this program knows but cannot honour has a row too, of kind kRefused, whose help
// says why and what to use: nothing is parsed and ignored. Only options that have no effect by their own
// definition are of kind kIgnored. Immutable static data, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/mount_options.h"
#include "cli/outcome.h"

namespace nfsrdma::cli {

enum class OptionKind : uint8_t {
  kSwitch,   // no value; `off` is the name that turns it off
  kNumber,   // decimal, min..max
  kSize,     // bytes, with k, m or g behind the number if wanted
  kWord,     // one of `words` (separated by '|')
  kText,     // anything that is not empty
  kRefused,  // takes anything; `help` is the rest of the sentence "NAME ..."
  kIgnored,  // takes anything
};

enum class OptionSection : uint8_t {
  kServer,
  kWaiting,
  kTransfer,
  kCoherence,
  kLocking,
  kSecurity,
  kVfs,
  kFuse,
  kDaemon,
  kForeign,  // nfs(5) options of other protocol versions and features; `sloppy` tolerates these
  kIgnored,
};

enum class Mutability : uint8_t {
  kMount,    // fixed for the life of the mount
  kRemount,  // mount -o remount
  kLive,     // changes while mounted (log-level, SIGHUP)
};

struct OptionValue {
  bool on = true;              // kSwitch
  uint64_t number = 0;         // kNumber, kSize
  std::string_view text = {};  // kWord, kText
};

struct OptionSpec {
  std::string_view name = {};
  std::string_view aliases = {};  // separated by '|'
  std::string_view off = {};      // kSwitch: the opposite; empty when there is none
  OptionKind kind = OptionKind::kSwitch;
  OptionSection section = OptionSection::kServer;
  Mutability mutability = Mutability::kMount;
  std::string_view unit = {};   // kNumber, kSize, kText: the placeholder in help texts
  std::string_view words = {};  // kWord
  uint64_t min = 0;
  uint64_t max = 0;
  // What holds when the option is absent: a value that the parser takes ("600"; for switches "on" or "off"),
  // or, in parentheses, prose ("(what the server allows)").
  std::string_view fallback = {};
  std::string_view help = {};
  // kRefused: the kernel shows it in the mount table, and mount(8) gives it back to remount, where it is
  // skipped.
  bool shown_by_kernel = false;
  // Stores a checked value. The failure's text is the rest of the sentence "option NAME: ...".
  Outcome<> (*set)(MountOptions&, const OptionValue&) = nullptr;
  // The option as it is in effect, e.g. "timeo=600", "hard"; empty when there is nothing to show.
  std::string (*show)(const MountOptions&) = nullptr;
};

std::span<const OptionSpec> option_table();

// Options that mean something with vers=3 only, by the table's names.
std::span<const std::string_view> version3_options();

// How a name was found: by its own name or an alias, or (`negated`) by the name that turns it off.
struct OptionMatch {
  const OptionSpec* spec = nullptr;
  bool negated = false;
};
OptionMatch find_option(std::string_view name);

// The supported option whose name is nearest to `name`; empty when none is near.
std::string nearest_option(std::string_view name);
// The one of `words` that is nearest; empty when none is near.
std::string nearest_word(std::string_view given, const std::vector<std::string_view>& words);

// '-' as '_'.
std::string option_name(std::string_view name);

// The pieces of an `aliases` or `words` list.
std::vector<std::string_view> split_words(std::string_view words);

// What another set of options would change of a mount but cannot while it is mounted: the options as they
// would be, separated by commas; empty when there is nothing but what SIGHUP changes (Mutability::kLive).
std::string fixed_changes(const MountOptions& now, const MountOptions& wanted);

// Everything in effect, in the table's order, separated by commas: "rw,vers=4.1,hard,timeo=600,...".
std::string show_options(const MountOptions& options);

std::string_view title(OptionSection section);

// Help, aliases and default of an option: "NFS protocol version, 4.1 or 3; also nfsvers (4.1, and 3 of ...)".
std::string option_sentence(const OptionSpec& spec);

}  // namespace nfsrdma::cli

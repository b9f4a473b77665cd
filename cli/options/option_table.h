// SPDX-License-Identifier: Apache-2.0
// The option table: one row per mount option. It is the single source for parsing, the configuration file,
// the long options of `nfsrdma-fuse mount`, the help text, `status` and the manual pages.
//
// Names, units and defaults are those of nfs(5) if nfs(5) has the option. Names are written with '_'; users
// may write '-' for it. An option that this program knows but cannot support has a row of kind kRefused,
// whose help says why and what to use instead: no option is parsed and then ignored. Only options that have
// no effect by definition are of kind kIgnored. Immutable static data, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/mount_options.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

enum class OptionKind : uint8_t {
  kSwitch,   // no value; `off` is the name of the opposite
  kNumber,   // decimal, min..max
  kSize,     // bytes, with an optional suffix k, m or g
  kWord,     // one of `words` (separated by '|')
  kText,     // any text that is not empty
  kRefused,  // accepts any value; `help` completes the sentence "NAME ..."
  kIgnored,  // accepts any value
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
  kForeign,  // nfs(5) options of other versions and features; `sloppy` skips these
  kIgnored,
};

enum class Mutability : uint8_t {
  kMount,    // fixed for the life of the mount
  kRemount,  // mount -o remount
  kLive,     // can change while mounted (log-level, SIGHUP)
};

struct OptionValue {
  bool on = true;              // kSwitch
  uint64_t number = 0;         // kNumber, kSize
  std::string_view text = {};  // kWord, kText
};

struct OptionSpec {
  std::string_view name = {};
  std::string_view aliases = {};  // separated by '|'
  std::string_view off = {};      // kSwitch: name of the opposite; empty: there is none
  OptionKind kind = OptionKind::kSwitch;
  OptionSection section = OptionSection::kServer;
  Mutability mutability = Mutability::kMount;
  std::string_view unit = {};   // kNumber, kSize, kText: the placeholder in help texts
  std::string_view words = {};  // kWord
  uint64_t min = 0;
  uint64_t max = 0;
  // The value if the option is absent: one that the parser accepts ("600"; for switches "on" or "off"), or
  // prose in parentheses ("(what the server allows)").
  std::string_view fallback = {};
  std::string_view help = {};
  // kRefused: the kernel shows the option in the mount table, and mount(8) passes it to a remount, which
  // skips it.
  bool shown_by_kernel = false;
  // Stores a checked value. The failure's text completes the sentence "option NAME: ...".
  Outcome<> (*set)(MountOptions&, const OptionValue&) = nullptr;
  // The effective option, e.g. "timeo=600" or "hard"; empty if there is nothing to show.
  std::string (*show)(const MountOptions&) = nullptr;
};

std::span<const OptionSpec> option_table();

// The table's names of the options that only apply to vers=3.
std::span<const std::string_view> version3_options();

// `negated`: the name given turns the option off. Otherwise it is the option's own name or an alias.
struct OptionMatch {
  const OptionSpec* spec = nullptr;
  bool negated = false;
};
OptionMatch find_option(std::string_view name);

// The supported option whose name is most similar to `name`; empty if none is similar.
std::string nearest_option(std::string_view name);
// The most similar one of `words`; empty if none is similar.
std::string nearest_word(std::string_view given, const std::vector<std::string_view>& words);

// Replaces '-' by '_'.
std::string option_name(std::string_view name);

// The items of an `aliases` or `words` list.
std::vector<std::string_view> split_words(std::string_view words);

// The changes from `now` to `wanted` that a mounted file system cannot adopt: the wanted options, separated
// by commas. Empty if SIGHUP can apply all changes (Mutability::kLive).
std::string fixed_changes(const MountOptions& now, const MountOptions& wanted);

// All effective options in the order of the table, separated by commas: "rw,vers=4.1,hard,timeo=600,...".
std::string show_options(const MountOptions& options);

std::string_view title(OptionSection section);

// Help, aliases and default of an option: "NFS protocol version, 4.1 or 3; also nfsvers (4.1, and 3 of ...)".
std::string option_sentence(const OptionSpec& spec);

}  // namespace nfsrdma::cli

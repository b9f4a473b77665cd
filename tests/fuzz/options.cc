// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: mount options, from the text after -o to the values that a mount uses.
//
// Checked: the list with every byte escaped is parsed as the same list. Sizes are as in nfs(5). Options as
// they are shown are accepted again with the same effect, because mount -o remount passes them back.
//
// Input: a line for the source, a line for /etc/fuse.conf, then the list.
#include "cli/options/options.h"

#include "cli/mount/remount.h"
#include "cli/options/option_table.h"
#include "tests/fuzz/text.h"

namespace {

using namespace nfsrdma;  // NOLINT: used throughout this file
using cli::MountExit;
using cli::RawOption;
using fuzz::require;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += {'\\', c};
  return out;
}

std::string list_of(const std::vector<RawOption>& options) {
  std::string list;
  for (const RawOption& option : options) {
    if (!list.empty()) list += ',';
    list += escaped(option.name);
    if (option.value) list += '=' + escaped(*option.value);
  }
  return list;
}

std::vector<cli::OptionLayer> layers_of(const std::vector<RawOption>& options, cli::OptionOrigin origin) {
  std::vector<cli::OptionLayer> layers;
  for (const RawOption& option : options) layers.push_back({origin, {}, option});
  return layers;
}

bool is_transfer_size(const std::optional<uint32_t>& bytes) {
  return !bytes || (*bytes >= 1024 && *bytes <= 1u << 20 && *bytes % 1024 == 0);
}

void check_values(const cli::MountOptions& values) {
  require(is_transfer_size(values.rsize) && is_transfer_size(values.wsize),
          "nfs(5): 1024 to 1048576, in KiB");
  require(!values.rdma_inline || is_transfer_size(values.rdma_inline), "inline= is in KiB");
  require(values.major_version == 3 || values.major_version == 4, "NFSv3 or NFSv4.1");
  const std::string shown = cli::show_options(values);
  const auto again = cli::split_options(shown);
  require(again.has_value(), "what is shown is a list");
  const auto parsed = cli::parse_options(layers_of(*again, cli::OptionOrigin::kGlobal), true);
  require(parsed.has_value(), "of options that are known");
  require(cli::show_options(parsed->values) == shown, "with the same effect");
  require(cli::check_remount(shown, false, {}).has_value(), "a remount of nothing new is none");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  const std::string_view source_text = fuzz::take_until(text, '\n');
  const std::string_view fuse_conf = fuzz::take_until(text, '\n');
  // A program's argument cannot contain a NUL.
  const auto options = cli::split_options(text.substr(0, text.find('\0')));
  fuzz::require_reason(options, MountExit::kUsage);
  if (!options) return 0;
  const auto again = cli::split_options(list_of(*options));
  require(again && *again == *options, "a list is read as it was written");
  for (const bool sloppy : {false, true}) {
    auto parsed = cli::parse_options(layers_of(*options, cli::OptionOrigin::kCommandLine), sloppy);
    fuzz::require_reason(parsed, MountExit::kUsage);
    if (!parsed) continue;
    check_values(parsed->values);
    fuzz::require_reason(cli::check_privilege(parsed->values, false, fuse_conf), MountExit::kUsage);
    const auto source = cli::parse_source(source_text);
    if (source) fuzz::require_reason(cli::check_options(*parsed, *source), MountExit::kUsage);
  }
  return 0;
}

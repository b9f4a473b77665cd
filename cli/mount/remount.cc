// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/remount.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/options/option_table.h"
#include "cli/options/options.h"

namespace nfsrdma::cli {
namespace {

using RawOptions = std::vector<RawOption>;

// The effective options come from the daemon, which may have another version, so unknown ones are skipped.
Outcome<MountOptions> with(const RawOptions& now, const RawOptions& given) {
  std::vector<OptionLayer> layers;
  for (const RawOption& option : now) layers.push_back({OptionOrigin::kGlobal, {}, option});
  for (const RawOption& option : given) layers.push_back({OptionOrigin::kCommandLine, {}, option});
  auto parsed = parse_options(layers, true);
  if (!parsed) return tl::unexpected(std::move(parsed).error());
  return std::move(parsed->values);
}

// The name of the first row that differs and that a remount cannot change; empty if there is none.
std::string_view changed(const MountOptions& now, const MountOptions& wanted, bool found_transport) {
  if (wanted.major_version == 3 && wanted.minor_version) return "minorversion";  // shown only for version 4
  for (const OptionSpec& spec : option_table()) {
    if (spec.show == nullptr || spec.mutability == Mutability::kRemount) continue;
    if (spec.show(wanted) == spec.show(now)) continue;
    if (found_transport && spec.name == "proto" && wanted.transport == Transport::kAuto) continue;
    return spec.name;
  }
  return {};
}

}  // namespace

bool may_need_new_mount(const RawOption& option) {
  const OptionSpec* const spec = find_option(option.name).spec;
  return spec != nullptr && spec->set != nullptr && spec->mutability != Mutability::kRemount &&
         spec->name != "remount" && spec->name != "sloppy";
}

Outcome<> check_remount(std::string_view now, bool found_transport, const RawOptions& given) {
  const auto shown = split_options(now);
  if (!shown) return tl::unexpected(shown.error());
  RawOptions wanted;
  for (const RawOption& option : given) {
    if (may_need_new_mount(option)) wanted.push_back(option);
  }
  const auto before = with(*shown, {});
  const auto after = with(*shown, wanted);
  if (!before || !after) return tl::unexpected((before ? after : before).error());
  // Whether the kernel checks permissions (default_permissions) is fixed at the first mount.
  const bool device_files = std::ranges::any_of(given, [](const RawOption& o) { return o.name == "dev"; });
  if (device_files && !before->dev && !before->default_permissions)
    return refuse(MountExit::kUsage, "option dev cannot be added by remount; unmount and mount anew");
  std::string name(changed(*before, *after, found_transport));
  if (name.empty()) return {};
  // Report the name that the user wrote: actimeo, for example, has no row that shows it.
  for (const RawOption& option : wanted) {
    const auto alone = with(*shown, {option});
    if (alone && !changed(*before, *alone, found_transport).empty()) name = option.name;
  }
  return refuse(MountExit::kUsage, fmt::format("option {} cannot be changed by remount", name));
}

}  // namespace nfsrdma::cli

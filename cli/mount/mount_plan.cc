// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/mount_plan.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/options/config_file.h"
#include "cli/options/option_table.h"
#include "cli/server/translate.h"
#include "cli/support/mountinfo.h"

namespace nfsrdma::cli {
namespace {

std::string read_fuse_conf() {
  std::ifstream file("/etc/fuse.conf");
  return {std::istreambuf_iterator<char>(file), {}};
}

Outcome<Config> read_config(const MountRequest& request) {
  std::string file;
  for (const RawOption& option : request.options) {
    if (option_name(option.name) == "conf" && option.value) file = *option.value;
  }
  return file.empty() ? read_default_config() : read_config_file(file);
}

// The daemon runs in "/" and reads the file again on SIGHUP, so a relative path would fail.
MountRequest with_absolute_conf(MountRequest request) {
  for (RawOption& option : request.options) {
    if (option_name(option.name) != "conf" || !option.value || option.value->empty()) continue;
    std::error_code unknown;  // no current directory: reading the file then fails with a message
    option.value = std::filesystem::absolute(*option.value, unknown).string();
  }
  return request;
}

Outcome<ParsedOptions> resolve(const MountRequest& request, const Source& source,
                               const std::string& mount_point) {
  const auto config = read_config(request);
  if (!config) return tl::unexpected(config.error());
  // nfsmount.conf(5): "an exact match of the mount point used in the mount command".
  std::vector<OptionLayer> layers = config->select(source.host, mount_point);
  for (const RawOption& option : request.options) layers.push_back({OptionOrigin::kCommandLine, {}, option});
  auto parsed = parse_options(layers, request.sloppy);
  if (!parsed) return parsed;
  if (auto done = check_options(*parsed, source); !done) return tl::unexpected(std::move(done).error());
  if (request.debug && parsed->values.log_level < LogLevel::kDebug)
    parsed->values.log_level = LogLevel::kDebug;
  decide_reserved_port(parsed->values);
  return parsed;
}

}  // namespace

Outcome<MountPlan> make_mount_plan(const std::string& program, const MountRequest& request) {
  auto source = parse_source(request.source);
  if (!source) return tl::unexpected(std::move(source).error());
  MountPlan plan;
  plan.program = program;
  plan.request = with_absolute_conf(request);
  plan.mount_point = lexical_path(request.directory);
  auto parsed = resolve(plan.request, *source, plan.mount_point);
  if (!parsed) return tl::unexpected(std::move(parsed).error());
  const bool root = geteuid() == 0;  // also in a user namespace: it mounts and serves that namespace's users
  const std::string fuse_conf = root ? std::string() : read_fuse_conf();
  if (auto done = check_privilege(parsed->values, root, fuse_conf); !done)
    return tl::unexpected(std::move(done).error());
  plan.source = *std::move(source);
  plan.options = parsed->values;
  plan.skipped = parsed->skipped;
  plan.root = root;
  plan.foreground = request.foreground || request.debug;
  return plan;
}

Outcome<MountOptions> reread_options(const MountPlan& plan) {
  auto parsed = resolve(plan.request, plan.source, plan.mount_point);
  if (!parsed) return tl::unexpected(std::move(parsed).error());
  return parsed->values;
}

}  // namespace nfsrdma::cli

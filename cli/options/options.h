// SPDX-License-Identifier: Apache-2.0
// Converts names and values to MountOptions: checks, layers, cross-checks.
//
// Later layers override earlier ones, option by option: the configuration file's Global, Server and
// MountPoint sections, then the command line. Within a layer the rightmost option wins, as with mount(8).
// This is the rule of nfsmount.conf(5), "any options already seen ... will be ignored when seen again", in
// reverse order. If an option for RDMA or NFSv3 does not apply to the mount, it is refused on the command
// line. In the configuration file, which serves other mounts too, it is ignored. Every failure is
// MountExit::kUsage with one line. Pure functions; they read no file (cli/options/config_file.h does).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/options/mount_options.h"
#include "cli/options/option_split.h"
#include "cli/options/source.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

enum class OptionOrigin : uint8_t { kGlobal, kServer, kMountPoint, kCommandLine };

// Options from one place.
struct OptionLayer {
  OptionOrigin origin = OptionOrigin::kCommandLine;
  std::string where;  // "/etc/nfsrdma-fuse.conf:12", empty for the command line
  RawOption option;
};

struct ParsedOptions {
  MountOptions values;
  // By the table's name: the layer that set the option last.
  std::map<std::string, OptionOrigin> origins;
  // Options skipped because of `sloppy`, for -v and the log.
  std::vector<std::string> skipped;

  bool given(std::string_view name) const { return origins.contains(std::string(name)); }
};

// Layers in ascending order of precedence.
Outcome<ParsedOptions> parse_options(const std::vector<OptionLayer>& layers, bool sloppy);

// Checks the options against each other and against the source (address family, port). Completes the
// values (port, minor version, local locks), and drops options of the configuration file that do not apply.
Outcome<> check_options(ParsedOptions& parsed, const Source& source);

// Checks options that need privilege: dev, suid, remount, and allow_other of a user. `fuse_conf` is the text
// of /etc/fuse.conf.
Outcome<> check_privilege(const MountOptions& options, bool root, std::string_view fuse_conf);

// The options part of `--help`: name, help and default of each row, by section, wrapped at `width` columns.
std::string options_help(size_t width);

}  // namespace nfsrdma::cli

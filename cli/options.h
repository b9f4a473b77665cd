// SPDX-License-Identifier: Apache-2.0
// From names and values to MountOptions: checking, layering, cross-checks.
//
// Layers, later ones override earlier ones option by option: the configuration file's Global, Server and
// MountPoint sections, then the command line; within a layer the rightmost wins, as with mount(8). That is
// nfsmount.conf(5)'s "any options already seen ... will be ignored when seen again", read from the other end.
// An option of RDMA or of NFSv3 that does not apply to the mount is refused when it was typed; in the file,
// which is for other mounts too, it is as if it were not there.
// Everything fails with MountExit::kUsage and one line. Pure functions; no file is read here
// (cli/config_file.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/mount_options.h"
#include "cli/option_split.h"
#include "cli/outcome.h"
#include "cli/source.h"

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
  // By the table's name: who set it last.
  std::map<std::string, OptionOrigin> origins;
  // What was skipped because of `sloppy`, for -v and the log.
  std::vector<std::string> skipped;

  bool given(std::string_view name) const { return origins.contains(std::string(name)); }
};

// Layers in ascending order of precedence.
Outcome<ParsedOptions> parse_options(const std::vector<OptionLayer>& layers, bool sloppy);

// What only makes sense together with the source: address families, ports. Fills in values.port.
Outcome<> check_options(ParsedOptions& parsed, const Source& source);

// What needs privilege: dev, suid, remount, allow_other of a user. `fuse_conf` is the text of /etc/fuse.conf.
Outcome<> check_privilege(const MountOptions& options, bool root, std::string_view fuse_conf);

// `--help` for options: name, help and default per row, by section, wrapped at `width` columns.
std::string options_help(size_t width);

}  // namespace nfsrdma::cli

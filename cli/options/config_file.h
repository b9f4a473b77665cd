// SPDX-License-Identifier: Apache-2.0
// /etc/nfsrdma-fuse.conf and /etc/nfsrdma-fuse.conf.d/*.conf: options for all mounts, for one server or for
// one mount point, in the syntax of nfsmount.conf(5). Case never matters in names of sections, servers, mount
// points and options.
//
//     [ NFSMount_Global_Options ]      every mount
//     [ Server "srv1" ]                mounts from this server, as written in SOURCE
//     [ MountPoint "/home" ]           the mount on this directory
//         rsize = 32k
//         Soft = True                  switches take True or False: AC = False is noac
//
// '#' and ';' begin a comment line. A value may stand in double quotes. The names Background and Foreground
// (nfsmount.conf(5)) are accepted for bg and fg. The administrator writes these files, but their size is
// limited as for any other input. Every failure is MountExit::kUsage with the text "FILE:LINE: reason".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options/options.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

inline constexpr std::string_view kConfigFile = "/etc/nfsrdma-fuse.conf";
inline constexpr std::string_view kConfigDirectory = "/etc/nfsrdma-fuse.conf.d";

struct ConfigSection {
  OptionOrigin origin = OptionOrigin::kGlobal;
  std::string name;  // server or mount point; empty for Global
  std::vector<OptionLayer> options;
};

struct Config {
  std::vector<ConfigSection> sections;  // in the order of the files

  // The options for one mount, in ascending order of precedence: Global, Server, MountPoint. Within one of
  // these, a later file overrides an earlier one.
  std::vector<OptionLayer> select(std::string_view host, std::string_view mount_point) const;
};

// Appends the sections of one file's text to `config`.
Outcome<> parse_config(std::string_view text, std::string_view file, Config& config);

// Reads `file`, then the files `directory`/*.conf in the order of their names. Files that do not exist are
// skipped. A file that exists but cannot be read is an error: an administrator's rule must not vanish
// silently.
Outcome<Config> read_default_config(const std::string& file = std::string(kConfigFile),
                                    const std::string& directory = std::string(kConfigDirectory));

// For conf=FILE: reads only this file, which must exist.
Outcome<Config> read_config_file(const std::string& file);

}  // namespace nfsrdma::cli

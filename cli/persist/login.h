// SPDX-License-Identifier: Apache-2.0
// A user's mounts at login: the configuration of an instance of the user unit nfsrdma-fuse@.service, and the
// link that enables it; where that unit is not installed, an autostart entry of the desktop.
//
//     ~/.config/nfsrdma-fuse/NAME.conf                                          SOURCE, DIRECTORY, OPTIONS
//     ~/.config/systemd/user/default.target.wants/nfsrdma-fuse@NAME.service     -> the unit
//     ~/.config/autostart/nfsrdma-fuse-NAME.desktop                             without the unit
//
// ($XDG_CONFIG_HOME in the place of ~/.config.) What is written here is a mount's of this user; nothing is
// run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/outcome.h"

namespace nfsrdma::cli {

struct LoginPlaces {
  std::string home;
  std::string config;              // ~/.config
  std::vector<std::string> units;  // where nfsrdma-fuse@.service of the user's manager may lie
  std::string program;             // for the autostart entry
};
LoginPlaces login_places();

struct LoginMount {
  std::string source, directory, options;
};

// A name for an instance: of the directory's last component, of what systemd takes unescaped.
std::string instance_name(std::string_view directory);
// A value of systemd.exec(5)'s EnvironmentFile, in quotes where it needs them; and back.
std::string quote_environment(std::string_view value);
std::string unquote_environment(std::string_view text);

// Writes both files, or exchanges those of the same directory. Returns what was written, for people.
Outcome<std::string> add_login_mount(const LoginPlaces& places, const LoginMount& mount);
// Takes away what add_login_mount() wrote. False: there was nothing for this directory.
Outcome<bool> remove_login_mount(const LoginPlaces& places, std::string_view directory);

}  // namespace nfsrdma::cli

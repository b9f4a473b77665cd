// SPDX-License-Identifier: Apache-2.0
// Mounts a user's file systems at login. Writes the configuration of an instance of the user unit
// nfsrdma-fuse@.service, and the link that enables it. If the unit is not installed, writes an autostart
// entry of the desktop.
//
//     ~/.config/nfsrdma-fuse/NAME.conf                                          SOURCE, DIRECTORY, OPTIONS
//     ~/.config/systemd/user/default.target.wants/nfsrdma-fuse@NAME.service     -> the unit
//     ~/.config/autostart/nfsrdma-fuse-NAME.desktop                             without the unit
//
// ($XDG_CONFIG_HOME replaces ~/.config.) These files describe mounts of this user only. The functions run no
// program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/support/outcome.h"

namespace nfsrdma::cli {

struct LoginPlaces {
  std::string home;
  std::string config;              // ~/.config
  std::vector<std::string> units;  // where the user manager's nfsrdma-fuse@.service may be
  std::string program;             // named in the autostart entry
};
LoginPlaces login_places();

struct LoginMount {
  std::string source, directory, options;
};

// A name for a unit instance, made from the last component of the directory and limited to characters that
// systemd takes unescaped.
std::string instance_name(std::string_view directory);
// Converts a value to the syntax of systemd.exec(5)'s EnvironmentFile, with quotes if needed, and back.
std::string quote_environment(std::string_view value);
std::string unquote_environment(std::string_view text);

// Writes both files, or replaces those of the same directory. Returns the names of the files, for display.
Outcome<std::string> add_login_mount(const LoginPlaces& places, const LoginMount& mount);
// Removes what add_login_mount() wrote. Returns false if there was nothing for this directory.
Outcome<bool> remove_login_mount(const LoginPlaces& places, std::string_view directory);

}  // namespace nfsrdma::cli

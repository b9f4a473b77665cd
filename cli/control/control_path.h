// SPDX-License-Identifier: Apache-2.0
// The path of a mount's control socket.
//
// Each mount has one socket, named after the st_dev of the mounted file system ("0-57.sock"). Every mountinfo
// line shows this number, also those of bind mounts, so a tool finds the daemon of a directory without
// accessing the mount. No two live mounts share the number. The directory of the sockets belongs to the user
// who runs the daemon, and no other user may write to it:
//
//     root    /run/nfsrdma-fuse                       else /tmp/nfsrdma-fuse-0
//     a user  $XDG_RUNTIME_DIR/nfsrdma-fuse, /run/user/UID/nfsrdma-fuse, else /tmp/nfsrdma-fuse-UID
//
// A directory that another user owns or can write to is never used: anyone can create one in /tmp.
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/support/mountinfo.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

// The base directories; tests use their own.
struct ControlPlaces {
  std::string run = "/run";
  std::string tmp = "/tmp";
  std::string xdg_runtime;  // $XDG_RUNTIME_DIR of this process, or empty
};
ControlPlaces system_control_places();

// Candidates in the order of preference. $XDG_RUNTIME_DIR is used only for the user of this process.
std::vector<std::string> control_directories(const ControlPlaces& places, uid_t owner);

std::string control_socket_name(unsigned major, unsigned minor);

// The address for bind(2) and connect(2). Nothing if `path` is empty or too long (unix(7)).
std::optional<sockaddr_un> control_address(const std::string& path);

// For the daemon: the path for its socket. Creates the directory (mode 0700) if it does not exist.
Outcome<std::string> make_control_path(const ControlPlaces& places, uid_t owner, unsigned major,
                                       unsigned minor);

// For the tools: the path of a mount's socket; empty if there is no socket.
std::string find_control_socket(const ControlPlaces& places, const MountEntry& entry);

}  // namespace nfsrdma::cli

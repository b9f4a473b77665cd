// SPDX-License-Identifier: Apache-2.0
// Where the control socket of a mount is.
//
// One socket per mount, named by the st_dev of the mounted file system ("0-57.sock"): the number is in every
// mountinfo line, also of bind mounts, so a tool finds the daemon of a directory without looking into it, and
// no two live mounts share it. The directory belongs to whoever runs the daemon and nobody else may write to
// it:
//
//     root    /run/nfsrdma-fuse                       else /tmp/nfsrdma-fuse-0
//     a user  $XDG_RUNTIME_DIR/nfsrdma-fuse, /run/user/UID/nfsrdma-fuse, else /tmp/nfsrdma-fuse-UID
//
// A directory that someone else owns or can write to is never used: in /tmp anyone can make one.
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/mountinfo.h"
#include "cli/outcome.h"

namespace nfsrdma::cli {

// The roots, so that tests can have their own.
struct ControlPlaces {
  std::string run = "/run";
  std::string tmp = "/tmp";
  std::string xdg_runtime;  // $XDG_RUNTIME_DIR of this process, or empty
};
ControlPlaces system_control_places();

// Candidates in the order of preference. $XDG_RUNTIME_DIR only counts for the user it belongs to.
std::vector<std::string> control_directories(const ControlPlaces& places, uid_t owner);

std::string control_socket_name(unsigned major, unsigned minor);

// What bind(2) and connect(2) are given for a path; none when it is empty or too long for one (unix(7)).
std::optional<sockaddr_un> control_address(const std::string& path);

// For the daemon: the path its socket shall have; makes the directory (0700) if need be.
Outcome<std::string> make_control_path(const ControlPlaces& places, uid_t owner, unsigned major,
                                       unsigned minor);

// For the tools: the socket of a mount, or empty when there is none.
std::string find_control_socket(const ControlPlaces& places, const MountEntry& entry);

}  // namespace nfsrdma::cli

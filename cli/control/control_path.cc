// SPDX-License-Identifier: Apache-2.0
#include "cli/control/control_path.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace nfsrdma::cli {
namespace {

// True if `path` is a directory of `owner` in which no other user can create a socket.
bool is_private_directory(const std::string& path, uid_t owner) {
  struct stat st {};
  if (lstat(path.c_str(), &st) != 0) return false;
  return S_ISDIR(st.st_mode) && st.st_uid == owner && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

ControlPlaces system_control_places() {
  ControlPlaces places;
  if (const char* xdg = std::getenv("XDG_RUNTIME_DIR"); xdg != nullptr && xdg[0] == '/')
    places.xdg_runtime = xdg;
  return places;
}

std::vector<std::string> control_directories(const ControlPlaces& places, uid_t owner) {
  std::vector<std::string> directories;
  if (owner == 0) {
    directories.push_back(places.run + "/nfsrdma-fuse");
  } else {
    if (!places.xdg_runtime.empty() && owner == geteuid())
      directories.push_back(places.xdg_runtime + "/nfsrdma-fuse");
    directories.push_back(fmt::format("{}/user/{}/nfsrdma-fuse", places.run, owner));
  }
  directories.push_back(fmt::format("{}/nfsrdma-fuse-{}", places.tmp, owner));
  return directories;
}

std::optional<sockaddr_un> control_address(const std::string& path) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) return std::nullopt;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

std::string control_socket_name(unsigned major, unsigned minor) {
  return fmt::format("{}-{}.sock", major, minor);
}

Outcome<std::string> make_control_path(const ControlPlaces& places, uid_t owner, unsigned major,
                                       unsigned minor) {
  std::string reasons;
  for (const std::string& directory : control_directories(places, owner)) {
    std::string path = directory + "/" + control_socket_name(major, minor);
    std::string reason;
    if (!control_address(path)) {
      reason = "the path is too long for a socket";
    } else if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
      reason = std::strerror(errno);
    } else if (!is_private_directory(directory, owner)) {
      reason = "belongs to someone else, or others can write to it";
    } else {
      return path;
    }
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", directory, reason);
  }
  return refuse(ToolExit::kFailed, reasons);
}

std::string find_control_socket(const ControlPlaces& places, const MountEntry& entry) {
  const uid_t owner = entry.owner();
  for (const std::string& directory : control_directories(places, owner)) {
    std::string path = directory + "/" + control_socket_name(entry.major, entry.minor);
    struct stat st {};
    if (!control_address(path) || !is_private_directory(directory, owner)) continue;
    if (lstat(path.c_str(), &st) == 0 && S_ISSOCK(st.st_mode)) return path;
  }
  return {};
}

}  // namespace nfsrdma::cli

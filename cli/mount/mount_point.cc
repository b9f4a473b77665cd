// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/mount_point.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "transport/runtime/fd.h"

namespace nfsrdma::cli {
namespace {

tl::unexpected<MountPointProblem> problem(MountExit code, std::string text, bool passing = false) {
  return tl::unexpected(MountPointProblem{Failure(code, std::move(text)), passing});
}

tl::unexpected<MountPointProblem> problem_of(int error, const std::string& dir) {
  switch (error) {
    case ENOENT:
      return problem(MountExit::kFailed,
                     fmt::format("mount point {0} does not exist; run 'mkdir -p {0}'", dir), true);
    case ENOTDIR: return problem(MountExit::kFailed, fmt::format("mount point {} is not a directory", dir));
    case EACCES: return problem(MountExit::kUsage, fmt::format("mount point {}: permission denied", dir));
    case ENOTCONN:
      return problem(MountExit::kFailed,
                     fmt::format("mount point {}: a FUSE file system without a daemon is mounted there; run "
                                 "'umount {}' first",
                                 dir, dir));
    default: return problem(MountExit::kFailed, fmt::format("mount point {}: {}", dir, std::strerror(error)));
  }
}

}  // namespace

tl::expected<std::string, MountPointProblem> check_mount_point(const std::vector<MountEntry>& table,
                                                               const std::string& dir, uid_t uid) {
  const MountEntry* there = mount_at(table, lexical_path(dir));
  if (there == nullptr) {
    const MountPlace place = find_place(table, dir);
    if (place.is_mount_point) there = place.entry;
  }
  if (there != nullptr && there->ours()) {
    return problem(MountExit::kFailed, fmt::format("mount point {} is busy: {} is mounted there; run "
                                                   "'nfsrdma-fuse umount {}' first",
                                                   dir, there->source, dir));
  }
  char canonical[PATH_MAX];
  struct stat st {};
  if (realpath(dir.c_str(), canonical) == nullptr || stat(canonical, &st) != 0) return problem_of(errno, dir);
  if (!S_ISDIR(st.st_mode)) return problem_of(ENOTDIR, dir);
  if (uid != 0) {
    if (access(canonical, W_OK) != 0) {
      return problem(
          MountExit::kUsage,
          fmt::format("mount point {}: you cannot write to it; choose a directory of yours, or mount as root",
                      dir));
    }
    if ((st.st_mode & S_ISVTX) != 0 && st.st_uid != uid) {
      return problem(
          MountExit::kUsage,
          fmt::format(
              "mount point {}: belongs to someone else; choose a directory of yours, or mount as root", dir));
    }
  }
  return std::string(canonical);
}

namespace {

// Opening the device has no effect until its descriptor is passed to mount(2).
Outcome<> check_device(const std::string& device) {
  const Fd fd(open(device.c_str(), O_RDWR | O_CLOEXEC));
  if (fd) return {};
  const char* advice = nullptr;
  switch (errno) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
      advice = "run 'modprobe fuse' as root; a container needs '--device /dev/fuse' when it is started";
      break;
    case EACCES: advice = "run 'chmod 666 /dev/fuse' as root"; break;
    case EPERM: advice = "a container needs '--device /dev/fuse' when it is started"; break;
    default: advice = "run 'modprobe fuse' as root"; break;
  }
  return refuse(MountExit::kSystem, fmt::format("{}: {}; {}", device, std::strerror(errno), advice));
}

// The owner shown for user IDs that a user namespace does not map (/proc/sys/kernel/overflowuid).
constexpr uid_t kNobody = 65534;

// fusermount3 mounts for ordinary users because it is set-user-ID root: execve(2) gives it root's user ID.
Outcome<> check_helper(const std::string& helper) {
  struct stat st {};
  if (stat(helper.c_str(), &st) != 0)
    return refuse(MountExit::kSystem, fmt::format("{}: {}", helper, std::strerror(errno)));
  if (st.st_uid == kNobody && (st.st_mode & S_ISUID) != 0) {
    return refuse(
        MountExit::kSystem,
        fmt::format("{} cannot mount for you: the machine's root is not in this user namespace; be its "
                    "root ('unshare --map-root-user'), or mount outside of it",
                    helper));
  }
  const bool set_id = st.st_uid == 0 && (st.st_mode & S_ISUID) != 0;
  if (!set_id && getxattr(helper.c_str(), "security.capability", nullptr, 0) <= 0) {
    return refuse(
        MountExit::kSystem,
        fmt::format("{0} is not set-user-ID root, so it cannot mount for you; run 'chmod u+s {0}' as "
                    "root",
                    helper));
  }
  struct statvfs fs {};
  if (statvfs(helper.c_str(), &fs) == 0 && (fs.f_flag & ST_NOSUID) != 0) {
    return refuse(MountExit::kSystem,
                  fmt::format("{} lies on a file system that is mounted nosuid, so it cannot mount for you; "
                              "mount as root",
                              helper));
  }
  return {};
}

}  // namespace

Outcome<> check_fuse(uid_t uid, const std::string& device, const std::vector<std::string>& helpers) {
  if (auto done = check_device(device); !done || uid == 0) return done;
  // Check no_new_privs before the helper. A sandbox sets it, and also hides fusermount3 and root's user ID: a
  // failed check of the helper would then name the wrong cause.
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
    return refuse(
        MountExit::kSystem,
        "this process may not gain privileges (no_new_privs), which fusermount3 needs; a container "
        "must be started without no-new-privileges, a service with NoNewPrivileges=no; for a sandbox "
        "(bubblewrap, Flatpak) mount outside of it");
  }
  const auto found = std::find_if(helpers.begin(), helpers.end(),
                                  [](const std::string& path) { return access(path.c_str(), X_OK) == 0; });
  if (found == helpers.end()) {
    return refuse(MountExit::kSystem,
                  "fusermount3 is missing: users other than root need it; install the package fuse3");
  }
  return check_helper(*found);
}

}  // namespace nfsrdma::cli

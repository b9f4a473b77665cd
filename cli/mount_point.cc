#include "cli/mount_point.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
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
    case ENOENT: return problem(MountExit::kFailed, fmt::format("mount point {} does not exist", dir), true);
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
          fmt::format("mount point {}: only its owner or root can mount there: you cannot write to it", dir));
    }
    if ((st.st_mode & S_ISVTX) != 0 && st.st_uid != uid) {
      return problem(MountExit::kUsage, fmt::format("mount point {}: belongs to someone else", dir));
    }
  }
  return std::string(canonical);
}

Outcome<> check_fuse(uid_t uid, const std::string& device, const std::vector<std::string>& helpers) {
  constexpr std::string_view kAdvice = "FUSE is not available; run 'modprobe fuse' as root";
  if (access(device.c_str(), F_OK) != 0) {
    return refuse(MountExit::kSystem, fmt::format("{}: {}: {}", device, std::strerror(errno), kAdvice));
  }
  if (uid == 0) {
    // Opening it has no effect until it is given to mount(2).
    const Fd fd(open(device.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd)
      return refuse(MountExit::kSystem, fmt::format("{}: {}: {}", device, std::strerror(errno), kAdvice));
    return {};
  }
  const bool found = std::any_of(helpers.begin(), helpers.end(),
                                 [](const std::string& path) { return access(path.c_str(), X_OK) == 0; });
  if (!found) {
    return refuse(MountExit::kSystem,
                  "fusermount3 is missing: users other than root need it; install the package fuse3");
  }
  return {};
}

}  // namespace nfsrdma::cli

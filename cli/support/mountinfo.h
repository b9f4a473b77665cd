// SPDX-License-Identifier: Apache-2.0
// The mount table, from /proc/self/mountinfo (proc_pid_mountinfo(5)), and functions that find a mount in it
// without accessing the mount.
//
// If a FUSE mount's daemon is dead or its server is silent, every access to the mount blocks or fails. So no
// function here calls stat on a mount point. Paths are first compared as text. Only if that fails, and only
// if the path does not lead into one of our mounts, the path is opened with O_PATH (which asks no file system
// about the last component). Then the kernel tells which mount it is on. Plain values, no state.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/support/outcome.h"
#include "fuse/mount_namespace.h"

namespace nfsrdma::cli {

// The subtype must not contain "nfs": Debian's mountstats(8) searches every type for that string and fails on
// ours.
inline constexpr std::string_view kFuseSubtype = "rpcrdma";
inline constexpr std::string_view kFuseType = "fuse.rpcrdma";

// mountinfo and fstab(5) write space, tab, newline, backslash and '#' as a backslash and three octal digits.
std::string unescape_octal(std::string_view text);

struct MountEntry {
  unsigned id = 0;
  unsigned parent = 0;
  unsigned major = 0;  // st_dev of the file system
  unsigned minor = 0;
  std::string root;  // the mounted subtree of the file system; "/" unless it is a bind mount
  std::string mount_point;
  std::string options;     // of the mount: "rw,nosuid,nodev,relatime"
  std::string type;        // "fuse.rpcrdma"
  std::string source;      // "srv1:/exp"
  std::string fs_options;  // of the file system: "rw,user_id=0,group_id=0,allow_other"

  bool ours() const { return type == kFuseType; }
  bool read_only() const;  // of this mount; the file system may itself be writable
  // The user who mounted it (FUSE's user_id=); root if that is missing.
  uid_t owner() const;
};

// True if a comma-separated list contains exactly this option.
bool has_option(std::string_view options, std::string_view option);

// Lines that are not mountinfo lines are skipped.
std::vector<MountEntry> parse_mountinfo(std::string_view text);
std::vector<MountEntry> read_mountinfo(const fuse::MountNamespace& where = *fuse::MountNamespace::ours());

// The mount that a path belongs to.
struct MountPlace {
  const MountEntry* entry = nullptr;
  bool is_mount_point = false;  // false: the path lies inside the mount
};

// Makes a path absolute and removes ".", ".." and double slashes, by text alone. A relative path starts at
// the current directory.
std::string lexical_path(std::string_view path);

// The topmost mount on exactly this path, or null.
const MountEntry* mount_at(const std::vector<MountEntry>& table, std::string_view path);

// Finds the mount that `path` (as typed) names or lies in. The entry points into `table`; null if the path
// does not exist.
MountPlace find_place(const std::vector<MountEntry>& table, std::string_view path);

// Finds the mount of ours that `user` means by DIR: a mount point or, with `inside`, any path in it. As with
// umount(8), DIR may also be the SOURCE of a mount that `user` owns, if no mount has that path. Fails with
// ToolExit::kNotOurs.
Outcome<MountEntry> find_our_mount(const std::vector<MountEntry>& table, std::string_view dir, bool inside,
                                   uid_t user = geteuid());

}  // namespace nfsrdma::cli

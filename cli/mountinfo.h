// SPDX-License-Identifier: Apache-2.0
// The mount table, from /proc/self/mountinfo (proc_pid_mountinfo(5)), and finding a mount in it without
// touching it.
//
// A FUSE mount whose daemon is dead or whose server is silent blocks or fails whoever looks into it, so
// nothing here calls stat on a mount point. Paths are compared as text first; only when that fails, and only
// if the path does not lead into one of our mounts, it is opened with O_PATH (which asks no file system
// anything about its last component) and the kernel is asked which mount that is. Plain values, no state.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/outcome.h"
#include "fuse/mount_namespace.h"

namespace nfsrdma::cli {

// The subtype must not contain "nfs": Debian's mountstats(8) looks for that in every type and stumbles over
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
  std::string root;  // the part of the file system that is mounted; "/" unless it is a bind mount
  std::string mount_point;
  std::string options;     // of the mount: "rw,nosuid,nodev,relatime"
  std::string type;        // "fuse.rpcrdma"
  std::string source;      // "srv1:/exp"
  std::string fs_options;  // of the file system: "rw,user_id=0,group_id=0,allow_other"

  bool ours() const { return type == kFuseType; }
  bool read_only() const;  // this mount of the file system, which may itself be writable
  // Who mounted it (FUSE's user_id=); root when it is not there.
  uid_t owner() const;
};

// Whether a comma-separated list has the option, spelled exactly so.
bool has_option(std::string_view options, std::string_view option);

// Lines that are not mountinfo lines are skipped.
std::vector<MountEntry> parse_mountinfo(std::string_view text);
std::vector<MountEntry> read_mountinfo(const fuse::MountNamespace& where = *fuse::MountNamespace::ours());

// Where in the table a path is.
struct MountPlace {
  const MountEntry* entry = nullptr;
  bool is_mount_point = false;  // false: the path is somewhere inside
};

// Absolute, without ".", ".." and double slashes; by text alone. "." is the current directory.
std::string lexical_path(std::string_view path);

// The topmost mount on exactly this path, or null.
const MountEntry* mount_at(const std::vector<MountEntry>& table, std::string_view path);

// The mount that `path` (as typed) is, or lies in. An entry of `table`; null when it does not exist.
MountPlace find_place(const std::vector<MountEntry>& table, std::string_view path);

// The mount of ours that `user` means by DIR: a mount point, or, with `inside`, any path in it. Also, as
// umount(8) has it, the SOURCE of a mount of his, where nothing is mounted on a path of that name. Fails with
// ToolExit::kNotOurs.
Outcome<MountEntry> find_our_mount(const std::vector<MountEntry>& table, std::string_view dir, bool inside,
                                   uid_t user = geteuid());

}  // namespace nfsrdma::cli

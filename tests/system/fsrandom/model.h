// SPDX-License-Identifier: Apache-2.0
// The expected file system, in memory: fsrandom compares a mounted directory with it after each step.
//
// A Tree owns its inodes through shared_ptr: an unlinked inode stays while a descriptor holds it. File
// contents are sparse 4 KiB pages, so files may be many GiB long. Single thread, no system calls. Operations
// return 0 or the errno that POSIX requires; where POSIX permits two, the checker knows both.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsrandom {

constexpr uint64_t kPage = 4096;

enum class Type { File, Directory, Symlink };

struct Inode;
using InodePtr = std::shared_ptr<Inode>;

struct Inode {
  Type type = Type::File;
  unsigned mode = 0;
  unsigned links = 0;
  uint64_t number = 0;                                // st_ino once it was seen; it must never change
  std::optional<int64_t> mtime_ns;                    // set by utimensat and not changed since
  bool map_dirty = false;                             // File: written through a mapping and not synced since
  uint64_t size = 0;                                  // File
  std::map<uint64_t, std::array<char, kPage>> pages;  // File, by page number; absent pages are zeros
  std::map<std::string, InodePtr> entries;            // Directory
  std::weak_ptr<Inode> parent;                        // Directory
  std::string target;                                 // Symlink

  std::string read(uint64_t offset, uint64_t length) const;
  void write(uint64_t offset, const std::string& data);
  void truncate(uint64_t new_size);
  // True when [begin, end) contains only zero bytes.
  bool all_zero(uint64_t begin, uint64_t end) const;
};

// The end of a path: its directory, the last name, and the inode there (if any).
struct Place {
  int error = 0;
  InodePtr directory;
  std::string name;
  InodePtr inode;
};

class Tree {
 public:
  Tree();

  const InodePtr& root() const { return root_; }

  // Walks a path relative to the root. follow: follows a symbolic link at the end, too; the place is then the
  // link's target, whether that exists or not.
  Place resolve(const std::string& path, bool follow) const;

  InodePtr create_file(const Place& place, unsigned mode);
  int mkdir(const std::string& path, unsigned mode);
  int symlink(const std::string& target, const std::string& path);
  int link(const std::string& from, const std::string& to);
  int unlink(const std::string& path);
  int rmdir(const std::string& path);
  int may_rename(const std::string& from, const std::string& to, bool no_replace) const;
  int rename(const std::string& from, const std::string& to, bool no_replace);

  // Every path of the tree: first the root's, "", and parents before children.
  std::vector<std::string> paths() const;

 private:
  Place walk(InodePtr at, const std::string& path, bool follow, int depth) const;

  InodePtr root_;
};

}  // namespace fsrandom

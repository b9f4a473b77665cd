// SPDX-License-Identifier: Apache-2.0
// The objects that MemoryFilesystem hands out. Only its two source files include this.
#pragma once

#include <cstdint>
#include <ctime>

#include "tests/unit/fuse/memory_filesystem.h"

namespace nfsrdma::fuse::test {

inline tl::unexpected<Error> refuse(int errnum) {
  return fail(system_error(errnum, "memory"));
}

inline timespec now() {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return t;
}

class MemoryFilesystem::MemoryNode final : public Node {
 public:
  MemoryNode(MemoryFilesystem& fs, InodePtr inode) : filesystem_(fs), inode_(std::move(inode)) {}
  const InodePtr& inode() const { return inode_; }

 private:
  void last_reference() noexcept override;
  MemoryFilesystem& filesystem_;
  InodePtr inode_;
};

class MemoryFilesystem::OpenMemoryFile final : public OpenFile {
 public:
  OpenMemoryFile(InodePtr i, int f) : inode(std::move(i)), flags(f) {}
  const InodePtr inode;
  const int flags;
  std::set<uint64_t> lockers;   // lock-owners that asked for POSIX locks through it
  std::set<uint64_t> flockers;  // lock-owners that asked for flock(2) locks through it
};

class MemoryFilesystem::OpenMemoryDirectory final : public OpenDirectory {
 public:
  explicit OpenMemoryDirectory(InodePtr i) : inode(std::move(i)) {}
  const InodePtr inode;
};

}  // namespace nfsrdma::fuse::test

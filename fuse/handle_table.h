// SPDX-License-Identifier: Apache-2.0
// HandleTable: the objects behind the kernel's file handles (fuse_file_info.fh).
//
// A handle is allocated at OPEN, CREATE or OPENDIR and lives until RELEASE. The kernel sends RELEASE only
// after every request on the handle was answered. RELEASE messages may get lost when the connection ends, so
// the table lists all handles for the end of the mount. Requests copy what they need (FileHandle::use()),
// because a request that was answered early outlives its handle. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client/api/filesystem.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::fuse {

// An open file with the identity it was opened under: what a request needs.
struct FileUse {
  client::OpenFileRef file;
  rpc::CredentialPtr credential;
};

class FileHandle {
 public:
  explicit FileHandle(FileUse u) : use_(std::move(u)) {}
  FileUse use() const { return use_; }

 private:
  const FileUse use_;
};

// A directory that the kernel has open, but that was not opened at the server because the server was silent.
struct LateDirectory {
  explicit LateDirectory(client::NodeRef which) : node(std::move(which)) {}
  const client::NodeRef node;
  AsyncMutex mutex;                    // guards `directory`
  client::OpenDirectoryRef directory;  // null: not opened yet
};

struct DirectoryHandle {
  client::OpenDirectoryRef directory;  // null: see `late`
  rpc::CredentialPtr credential;
  std::shared_ptr<LateDirectory> late{};
};

template <class Handle>
class HandleTable {
 public:
  HandleTable() = default;
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  ~HandleTable() {
    for (Handle* h : handles_) delete h;
  }

  template <class... Args>
  uint64_t add(Args&&... args) {
    auto handle = std::make_unique<Handle>(std::forward<Args>(args)...);
    MutexLock lock(mutex_);
    handles_.insert(handle.get());
    return reinterpret_cast<uint64_t>(handle.release());
  }
  // Valid until take().
  static Handle& get(uint64_t fh) { return *reinterpret_cast<Handle*>(fh); }
  std::unique_ptr<Handle> take(uint64_t fh) {
    std::unique_ptr<Handle> handle(reinterpret_cast<Handle*>(fh));
    MutexLock lock(mutex_);
    handles_.erase(handle.get());
    return handle;
  }
  std::vector<std::unique_ptr<Handle>> take_all() {
    MutexLock lock(mutex_);
    std::vector<std::unique_ptr<Handle>> all;
    for (Handle* h : handles_) all.emplace_back(h);
    handles_.clear();
    return all;
  }
  size_t size() const {
    MutexLock lock(mutex_);
    return handles_.size();
  }

 private:
  mutable Mutex mutex_;
  std::unordered_set<Handle*> handles_ NFSRDMA_GUARDED_BY(mutex_);
};

// What an operation of an open file needs; `fh` is of the kernel's request.
inline FileUse use_of(uint64_t fh) {
  return HandleTable<FileHandle>::get(fh).use();
}

}  // namespace nfsrdma::fuse

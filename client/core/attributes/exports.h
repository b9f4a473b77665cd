// SPDX-License-Identifier: Apache-2.0
// Exports: numbers the server's file systems that this mount has seen. Index 0 is the file system of the
// mount's root. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

// fsid: RFC 8881 section 5.8.1.9; for RFC 1813 section 2.3.5 the minor number is 0.
struct FilesystemId {
  uint64_t major = 0;
  uint64_t minor = 0;
};

class Exports {
 public:
  // A server may have an unlimited number of file systems. All beyond kMost share one index, and so one set
  // of limits.
  static constexpr uint32_t kMost = 4096;

  uint32_t index_of(const FilesystemId& id);
  // st_ino. It is the fileid, changed for file systems below the root's, because their fileids may be the
  // same (one mount has one st_dev).
  static uint64_t ino(uint32_t export_index, const FilesystemId& id, uint64_t fileid);

 private:
  Mutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> indices_ NFSRDMA_GUARDED_BY(mutex_);  // by FilesystemId
};

}  // namespace nfsrdma::client

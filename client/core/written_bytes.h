// SPDX-License-Identifier: Apache-2.0
// WrittenBytes: the sums of FileWrites::bytes() over all files of a mount. LockedWrites: access to a file's
// FileWrites that keeps the sums right.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/core/nodes/cached_file.h"
#include "client/core/write/file_writes.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

// Any thread. Read `unanswered` first: data whose WRITE is just being answered may then count twice, but is
// never missed.
struct WrittenBytes {
  std::atomic<uint64_t> unanswered{0};
  std::atomic<uint64_t> uncommitted{0};
};

// Holds the mutex of the file's Node from its construction to unlock() or its end. `file` and `sums` outlive
// it.
class NFSRDMA_THREAD_SAFETY(scoped_lockable) LockedWrites {
 public:
  LockedWrites(CachedFile& file, WrittenBytes& sums) NFSRDMA_ACQUIRE(file.cached.mutex)
      : writes_(file.writes), sums_(sums), lock_(file.cached.mutex), before_(writes_.bytes()) {}
  LockedWrites(const LockedWrites&) = delete;
  LockedWrites& operator=(const LockedWrites&) = delete;
  ~LockedWrites() NFSRDMA_RELEASE() { unlock(); }

  FileWrites* operator->() const { return &writes_; }

  // Clang's thread-safety analysis does not follow a lock that is a member.
  void unlock() NFSRDMA_RELEASE() NFSRDMA_UNCHECKED_LOCKS {
    if (!lock_.held()) return;
    const FileWrites::Bytes now = writes_.bytes();
    add(sums_.uncommitted, before_.uncommitted, now.uncommitted);
    add(sums_.unanswered, before_.unanswered, now.unanswered);
    lock_.unlock();
  }
  // co_await writes.changed() unlocks the mutex and does not lock it again.
  auto changed() {
    NFSRDMA_CHECK(writes_.bytes() == before_);
    return writes_.changed().wait(lock_);
  }

 private:
  static void add(std::atomic<uint64_t>& sum, uint64_t before, uint64_t now) {
    if (now != before) sum.fetch_add(now - before, std::memory_order_relaxed);
  }

  FileWrites& writes_;
  WrittenBytes& sums_;
  MutexLock lock_;
  const FileWrites::Bytes before_;
};

}  // namespace nfsrdma::client

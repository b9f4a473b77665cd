// SPDX-License-Identifier: Apache-2.0
// The flush of close(2), locks, and what follows the loss of state. Written data is managed in
// client/core/write_back.cc.

#include "client/nfs4/ops/nfs4_filesystem.h"
#include "client/nfs4/state/locks.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {

Task<> Nfs4Filesystem::resend_writes(NodeRef node) {
  std::shared_ptr<FileState> file;
  {
    MutexLock lock(nfs4_node(node).mutex);
    file = nfs4_node(node).file;
  }
  if (file) co_await write_back_.restore_lost_writes(node, file);
}

Task<Result<>> Nfs4Filesystem::flush(RequestContext ctx, OpenFileRef open, uint64_t lock_owner) {
  Nfs4File& handle = nfs4_file(open);
  // Take lock_mutex first and hold it until the owner's byte-range locks are released. A killed process does
  // not wait for its flush, and its owner number may be reused by the next process, whose new locks must
  // stay.
  const std::string owner = posix_owner(lock_owner);
  std::vector<LockUse> owners = locks_.end_owners(handle, &owner);
  AsyncMutex::Guard guard;
  if (!owners.empty()) {
    {
      MutexLock lock(nfs4_node(handle.node).mutex);
      ++handle.file->unlocks_under_way;
    }
    auto locking = co_await handle.file->lock_mutex.lock();
    guard = std::move(locking);
  }
  bool dirty = false;
  {
    MutexLock lock(nfs4_node(handle.node).mutex);
    dirty = handle.file->unsaved();
  }
  const bool writer = (handle.access & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0;
  if (dirty && writer) co_await write_back_.write_back(handle.node, handle.file);
  Result<> written;
  if (writer) written = WriteBack::unreported_error(handle);
  if (guard) {
    // The next holder of the lock must see all data written under it, also through other descriptors.
    if (dirty && !writer) {
      co_await write_back_.settle_all(handle.node, handle.file);
      co_await write_back_.commit(handle.node, handle.file);
    }
    for (const LockUse& use : owners) (void)co_await locks_.unlock_in_turn(open, use, Lock{});
    MutexLock lock(nfs4_node(handle.node).mutex);
    --handle.file->unlocks_under_way;
    ++handle.file->unlocks_ended;
    handle.file->unlocked.notify_all();
  }
  (void)ctx;
  co_return written;
}

void Nfs4Filesystem::locks_lost(NodeRef node) {
  // Reads must reach the daemon, so that it can fail them.
  kept_.invalidate_data(node);
}

Task<Result<Lock>> Nfs4Filesystem::getlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock) {
  return locks_.getlk(std::move(ctx), std::move(file), owner, lock);
}

Task<Result<>> Nfs4Filesystem::setlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock,
                                     bool wait) {
  return locks_.setlk(std::move(ctx), std::move(file), owner, lock, wait);
}

Task<Result<>> Nfs4Filesystem::flock(RequestContext ctx, OpenFileRef file, uint64_t owner, LockType type,
                                     bool wait) {
  return locks_.flock(std::move(ctx), std::move(file), owner, type, wait);
}

}  // namespace nfsrdma::client::nfs4

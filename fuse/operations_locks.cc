// SPDX-License-Identifier: Apache-2.0
// getlk, setlk, flock.
//
// If a lock is granted after its request was answered early (the process is dying, or got EINTR), the
// Filesystem unlocks it, as the kernel's NFS client does for a cancelled LOCK.
#include <fcntl.h>
#include <sys/file.h>

#include "fuse/adaptor.h"
#include "fuse/operations.h"

namespace nfsrdma::fuse {

using namespace client;

namespace {

Lock to_lock(const struct flock& f) {
  Lock lock;
  lock.type = f.l_type == F_RDLCK   ? LockType::kRead
              : f.l_type == F_WRLCK ? LockType::kWrite
                                    : LockType::kUnlock;
  lock.start = static_cast<uint64_t>(f.l_start);
  lock.end = f.l_len == 0 ? UINT64_MAX : lock.start + static_cast<uint64_t>(f.l_len) - 1;
  lock.pid = static_cast<uint32_t>(f.l_pid);
  return lock;
}

struct flock to_flock(const Lock& lock) {
  struct flock f {};
  f.l_type = lock.type == LockType::kRead ? F_RDLCK : lock.type == LockType::kWrite ? F_WRLCK : F_UNLCK;
  f.l_whence = SEEK_SET;
  f.l_start = static_cast<off_t>(lock.start);
  // For the kernel a lock beyond the largest off_t ends at the end of the file.
  f.l_len = lock.end >= static_cast<uint64_t>(INT64_MAX) ? 0 : static_cast<off_t>(lock.end - lock.start + 1);
  f.l_pid = static_cast<pid_t>(lock.pid);
  return f;
}

Task<> getlk(Adaptor& a, FuseRequest request, FileUse use, uint64_t owner, Lock lock) {
  auto call = a.filesystem.getlk(Adaptor::context(use.credential), use.file, owner, lock);
  const Result<Lock> found = co_await std::move(call);
  if (!found) co_return request.fail(found.error());
  request.lock(to_flock(*found));
}

// If the request was answered early, the Filesystem knows from the Cancellation, and holds no lock for it.
void answer(FuseRequest& request, const Result<>& result) {
  if (!result) return request.fail(result.error());
  if (!request.answered()) request.ok();
}

Task<> setlk(Adaptor& a, FuseRequest request, FileUse use, uint64_t owner, Lock lock, bool wait) {
  RequestContext ctx = Adaptor::context(use.credential);
  if (lock.type != LockType::kUnlock) ctx.cancellation = request.make_cancellable(wait);
  auto call = a.filesystem.setlk(std::move(ctx), use.file, owner, lock, wait);
  const Result<> result = co_await std::move(call);
  answer(request, result);
}

Task<> flock(Adaptor& a, FuseRequest request, FileUse use, uint64_t owner, LockType type, bool wait) {
  RequestContext ctx = Adaptor::context(use.credential);
  if (type != LockType::kUnlock) ctx.cancellation = request.make_cancellable(wait);
  auto call = a.filesystem.flock(std::move(ctx), use.file, owner, type, wait);
  const Result<> result = co_await std::move(call);
  answer(request, result);
}

void op_getlk(fuse_req_t req, fuse_ino_t ino, fuse_file_info* fi, struct flock* lock) {
  Adaptor::run(req, Operation::kGetlk, {ino}, [&](Adaptor& a, FuseRequest r) {
    return getlk(a, std::move(r), use_of(fi->fh), fi->lock_owner, to_lock(*lock));
  });
}

void op_setlk(fuse_req_t req, fuse_ino_t ino, fuse_file_info* fi, struct flock* lock, int sleep) {
  Adaptor::run(req, Operation::kSetlk, {ino}, [&](Adaptor& a, FuseRequest r) {
    const Lock wanted = to_lock(*lock);
    return setlk(a, std::move(r), use_of(fi->fh), fi->lock_owner, wanted,
                 sleep != 0 && wanted.type != LockType::kUnlock);
  });
}

void op_flock(fuse_req_t req, fuse_ino_t ino, fuse_file_info* fi, int op) {
  Adaptor::run(req, Operation::kFlock, {ino}, [&](Adaptor& a, FuseRequest r) {
    const LockType type = (op & LOCK_SH) != 0   ? LockType::kRead
                          : (op & LOCK_EX) != 0 ? LockType::kWrite
                                                : LockType::kUnlock;
    return flock(a, std::move(r), use_of(fi->fh), fi->lock_owner, type,
                 (op & LOCK_NB) == 0 && type != LockType::kUnlock);
  });
}

}  // namespace

void add_lock_operations(fuse_lowlevel_ops& ops) {
  ops.getlk = op_getlk;
  ops.setlk = op_setlk;
  ops.flock = op_flock;
}

}  // namespace nfsrdma::fuse

// SPDX-License-Identifier: Apache-2.0
// MemoryFilesystem: attributes, data and locks.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/unit/fuse/memory_nodes.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse::test {

// --- attributes

Task<Result<AttributesReply>> MemoryFilesystem::getattr(RequestContext ctx, NodeRef node, OpenFileRef) {
  auto entered = enter("getattr", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  co_return AttributesReply{inode_of(node)->attributes, lifetimes_.attributes};
}

Task<Result<AttributesReply>> MemoryFilesystem::setattr(RequestContext ctx, NodeRef node, SetAttributes set,
                                                        OpenFileRef file) {
  auto entered = enter("setattr", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  Inode& inode = *inode_of(node);
  Attributes& a = inode.attributes;
  const bool owner = ctx.credential->uid() == 0 || ctx.credential->uid() == a.uid;
  const bool explicit_time = (set.atime && !set.atime->now) || (set.mtime && !set.mtime->now);
  if (!owner && (set.mode || set.uid || set.gid || explicit_time)) co_return refuse(EPERM);
  if (!owner && (set.atime || set.mtime)) NFSRDMA_CO_TRY(permit(ctx, inode, W_OK));
  if (set.size && !file) NFSRDMA_CO_TRY(permit(ctx, inode, W_OK));
  if (set.mode) a.mode = (a.mode & S_IFMT) | *set.mode;
  if (set.uid || set.gid) {
    if (ctx.credential->uid() != 0) a.mode &= ~uint32_t{S_ISUID | S_ISGID};
    a.uid = set.uid.value_or(a.uid);
    a.gid = set.gid.value_or(a.gid);
  }
  if (set.size) resize(inode, *set.size);
  if (set.atime) a.atime = set.atime->now ? now() : set.atime->value;
  touch(inode, set.size.has_value());
  if (set.mtime) a.mtime = set.mtime->now ? now() : set.mtime->value;
  co_return AttributesReply{a, lifetimes_.attributes};
}

Task<Result<>> MemoryFilesystem::access(RequestContext ctx, NodeRef node, int mask) {
  auto entered = enter("access", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  co_return permit(ctx, *inode_of(node), mask);
}

Task<Result<std::string>> MemoryFilesystem::readlink(RequestContext ctx, NodeRef node) {
  auto entered = enter("readlink", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  co_return inode_of(node)->target;
}

// --- data

void MemoryFilesystem::resize(Inode& inode, uint64_t size) {
  // The range beyond the new end must read as zeros if the file grows again.
  if (size < inode.attributes.size) {
    inode.chunks.erase(inode.chunks.upper_bound(size / Inode::kChunk), inode.chunks.end());
    const auto last = inode.chunks.find(size / Inode::kChunk);
    if (last != inode.chunks.end()) {
      std::fill(last->second.begin() + static_cast<ptrdiff_t>(size % Inode::kChunk), last->second.end(),
                std::byte{0});
    }
  }
  inode.attributes.size = size;
  inode.attributes.used = inode.chunks.size() * Inode::kChunk;
}

void MemoryFilesystem::store(Inode& inode, uint64_t offset, ConstBytes data) {
  inode.attributes.size = std::max(inode.attributes.size, offset + data.size());
  while (!data.empty()) {
    const uint64_t within = offset % Inode::kChunk;
    const size_t n = std::min<size_t>(data.size(), Inode::kChunk - within);
    auto& chunk = inode.chunks.try_emplace(offset / Inode::kChunk).first->second;
    std::memcpy(chunk.data() + within, data.data(), n);
    offset += n;
    data = data.subspan(n);
  }
  inode.attributes.used = inode.chunks.size() * Inode::kChunk;
}

void MemoryFilesystem::load(const Inode& inode, uint64_t offset, MutableBytes to) {
  while (!to.empty()) {
    const uint64_t within = offset % Inode::kChunk;
    const size_t n = std::min<size_t>(to.size(), Inode::kChunk - within);
    const auto chunk = inode.chunks.find(offset / Inode::kChunk);
    if (chunk == inode.chunks.end()) {
      std::memset(to.data(), 0, n);
    } else {
      std::memcpy(to.data(), chunk->second.data() + within, n);
    }
    offset += n;
    to = to.subspan(n);
  }
}

OpenReply MemoryFilesystem::open_inode(const InodePtr& inode, int flags) {
  if ((flags & O_TRUNC) != 0) {
    resize(*inode, 0);
    touch(*inode, true);
  }
  ++open_files_;
  return {std::make_shared<OpenMemoryFile>(inode, flags), keep_cache_};
}

Task<Result<OpenReply>> MemoryFilesystem::open(RequestContext ctx, NodeRef node, int flags) {
  auto entered = enter("open", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  const InodePtr inode = inode_of(node);
  const int mode = flags & O_ACCMODE;
  const int mask = mode == O_RDONLY ? R_OK : mode == O_WRONLY ? W_OK : R_OK | W_OK;
  NFSRDMA_CO_TRY(permit(ctx, *inode, mask));
  co_return open_inode(inode, flags);
}

Task<Result<CreateReply>> MemoryFilesystem::create(RequestContext ctx, NodeRef directory, std::string name,
                                                   uint32_t mode, int flags) {
  auto entered = enter("create", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  const InodePtr parent = inode_of(directory);
  auto existing = child(parent, name);
  if (existing && (flags & O_EXCL) != 0) co_return refuse(EEXIST);
  CreateReply reply;
  if (existing) {
    reply.entry = entry_of(*existing);
    reply.open = open_inode(*existing, flags);
    co_return reply;
  }
  InodePtr inode = make(ctx, S_IFREG | (mode & 07777));
  auto entry = add(ctx, parent, name, inode);
  if (!entry) co_return fail(entry.error());
  reply.entry = std::move(*entry);
  reply.open = open_inode(inode, flags);
  co_return reply;
}

// All but the first and last 100 bytes, as a transport might leave it.
void MemoryFilesystem::to_pipe(BulkData& data) {
  data.pipe = pool_.pipes().get();
  if (!data.pipe) return;
  const MutableBytes middle = data.slice.bytes.subspan(100, data.size() - 200);
  const ssize_t n = data.pipe->write(middle);
  if (n <= 0) return data.pipe.reset();
  data.piped = {100, 100 + static_cast<size_t>(n)};
  std::memset(middle.data(), '#', static_cast<size_t>(n));
}

Task<Result<ReadReply>> MemoryFilesystem::read(RequestContext ctx, OpenFileRef file, uint64_t offset,
                                               size_t size) {
  auto entered = enter("read", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  Inode& inode = *static_cast<OpenMemoryFile*>(file.get())->inode;
  ReadReply reply;
  if (offset >= inode.attributes.size) co_return reply;
  reply.size = std::min<uint64_t>(size, inode.attributes.size - offset);
  // Large data comes in two pieces, as a cache would return it.
  const size_t half = reply.size > 65536 ? reply.size / 2 : reply.size;
  for (size_t at = 0; at < reply.size; at += half) {
    const size_t n = std::min(half, reply.size - at);
    BulkData piece;
    piece.slice = pool_.slice(n);
    if (!piece.slice.buffer) co_return refuse(ENOMEM);
    load(inode, offset + at, piece.slice.bytes);
    if (n > kPipedMin) to_pipe(piece);
    reply.data.push_back(std::move(piece));
  }
  co_return reply;
}

Task<Result<>> MemoryFilesystem::write(RequestContext ctx, OpenFileRef file, uint64_t offset, Slice data) {
  auto entered = enter("write", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  // Acts like a write that was cancelled while it waited for room.
  if (ctx.cancellation && ctx.cancellation->cancelled()) co_return refuse(EINTR);
  MutexLock lock(mutex_);
  Inode& inode = *static_cast<OpenMemoryFile*>(file.get())->inode;
  Slice slice = data;
  last_write_in_place_ = slice.buffer->capacity() >= 2 * std::max<size_t>(slice.size(), 4096);
  last_write_direct_ = ctx.direct;
  write_places_.insert(slice.bytes.data());
  store(inode, offset, slice.bytes);
  if (ctx.credential->uid() != 0) inode.attributes.mode &= ~uint32_t{S_ISUID | S_ISGID};
  touch(inode, true);
  co_return Result<>{};
}

Task<Result<>> MemoryFilesystem::fsync(RequestContext ctx, OpenFileRef, bool) {
  auto entered = enter("fsync", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  co_return Result<>{};
}

// --- locks

bool MemoryFilesystem::conflicts(const Inode& inode, uint64_t owner, const Lock& lock, PosixLock* with) {
  for (const PosixLock& l : inode.locks) {
    if (l.owner == owner || l.end < lock.start || l.start > lock.end) continue;
    if (l.type == LockType::kRead && lock.type == LockType::kRead) continue;
    if (with != nullptr) *with = l;
    return true;
  }
  return false;
}

void MemoryFilesystem::apply(Inode& inode, uint64_t owner, const Lock& lock) {
  std::list<PosixLock> kept;
  for (const PosixLock& l : inode.locks) {
    if (l.owner != owner || l.end < lock.start || l.start > lock.end) {
      kept.push_back(l);
      continue;
    }
    if (l.start < lock.start) kept.push_back({owner, l.type, l.start, lock.start - 1});
    if (l.end > lock.end) kept.push_back({owner, l.type, lock.end + 1, l.end});
  }
  if (lock.type != LockType::kUnlock) kept.push_back({owner, lock.type, lock.start, lock.end});
  inode.locks.swap(kept);
}

Task<Result<Lock>> MemoryFilesystem::getlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock) {
  auto entered = enter("getlk", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock guard(mutex_);
  PosixLock with;
  if (!conflicts(*static_cast<OpenMemoryFile*>(file.get())->inode, owner, lock, &with)) co_return Lock{};
  co_return Lock{with.type, with.start, with.end, 0};
}

Task<Result<>> MemoryFilesystem::setlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock,
                                       bool wait) {
  auto entered = enter("setlk", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  Inode& inode = *static_cast<OpenMemoryFile*>(file.get())->inode;
  if (ctx.cancellation) {
    ctx.cancellation->on_cancel([this] {
      MutexLock guard(mutex_);
      lock_waiters_.notify_all();
    });
  }
  MutexLock guard(mutex_);
  while (lock.type != LockType::kUnlock && conflicts(inode, owner, lock, nullptr)) {
    if (!wait) co_return refuse(EAGAIN);
    if (ctx.cancellation->cancelled()) co_return refuse(EINTR);
    ++waiting_["setlk wait"];
    co_await lock_waiters_.wait(guard);
    guard.lock_again();
    --waiting_["setlk wait"];
  }
  if (ctx.cancellation && ctx.cancellation->cancelled()) co_return refuse(EINTR);
  apply(inode, owner, lock);
  static_cast<OpenMemoryFile*>(file.get())->lockers.insert(owner);
  lock_waiters_.notify_all();
  FrontEnd* const dropper = dropper_;
  if (dropper != nullptr && lock.type != LockType::kUnlock) {
    NodeRef node = node_of(static_cast<OpenMemoryFile*>(file.get())->inode);
    guard.unlock();
    auto dropped = dropper->drop_data(std::move(node));
    co_await std::move(dropped);
  }
  co_return Result<>{};
}

Task<Result<>> MemoryFilesystem::flock(RequestContext ctx, OpenFileRef file, uint64_t owner, LockType type,
                                       bool wait) {
  auto entered = enter("flock", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  auto& description = *static_cast<OpenMemoryFile*>(file.get());
  Inode& inode = *description.inode;
  if (ctx.cancellation) {
    ctx.cancellation->on_cancel([this] {
      MutexLock guard(mutex_);
      lock_waiters_.notify_all();
    });
  }
  const auto blocked = [&inode, owner, type] {
    return type != LockType::kUnlock &&
           std::any_of(inode.flocks.begin(), inode.flocks.end(), [owner, type](const auto& held) {
             return held.first != owner && (held.second == LockType::kWrite || type == LockType::kWrite);
           });
  };
  MutexLock guard(mutex_);
  while (blocked()) {
    if (!wait) co_return refuse(EAGAIN);
    if (ctx.cancellation->cancelled()) co_return refuse(EINTR);
    ++waiting_["flock wait"];
    co_await lock_waiters_.wait(guard);
    guard.lock_again();
    --waiting_["flock wait"];
  }
  if (ctx.cancellation && ctx.cancellation->cancelled()) co_return refuse(EINTR);
  if (type == LockType::kUnlock) {
    inode.flocks.erase(owner);
  } else {
    inode.flocks[owner] = type;
    description.flockers.insert(owner);
  }
  lock_waiters_.notify_all();
  co_return Result<>{};
}

Task<Result<>> MemoryFilesystem::flush(RequestContext ctx, OpenFileRef file, uint64_t lock_owner) {
  auto entered = enter("flush", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock guard(mutex_);
  auto& description = *static_cast<OpenMemoryFile*>(file.get());
  apply(*description.inode, lock_owner, Lock{});
  description.lockers.erase(lock_owner);
  lock_waiters_.notify_all();
  co_return Result<>{};
}

Task<> MemoryFilesystem::release(RequestContext ctx, OpenFileRef file) {
  auto entered = enter("release", ctx.credential);
  const Result<> ok = co_await std::move(entered);
  if (!ok) co_return;
  MutexLock guard(mutex_);
  auto& description = *static_cast<OpenMemoryFile*>(file.get());
  for (const uint64_t owner : description.flockers) description.inode->flocks.erase(owner);
  for (const uint64_t owner : description.lockers) apply(*description.inode, owner, Lock{});
  lock_waiters_.notify_all();
  --open_files_;
}

}  // namespace nfsrdma::fuse::test

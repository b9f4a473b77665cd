// The back of writing: small writes gathered, WRITE UNSTABLE, COMMIT, verifiers, errors (RFC 8881
// sections 18.3, 18.32).
//
// An extent is answered to the application when it is here. It is sent at once, unless it is small and may
// grow; it stays in memory until the server says FILE_SYNC, or until a COMMIT returns the verifier its WRITE
// returned. Another verifier means that the server lost what was unstable: it is written again. A write waits
// for those under way that it overlaps, so the server cannot take them in another order.
#include <algorithm>
#include <cerrno>

#include "client/nfs4/locks.h"
#include "client/nfs4/nfs4_filesystem.h"
#include "transport/runtime/log.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client {
namespace {

using namespace std::chrono_literals;

// A write below this size is worth a copy if its neighbour can then go in the same WRITE.
constexpr size_t kGatherBytes = 64u << 10;
constexpr size_t kFirstHeldBytes = 64u << 10;  // most small files are smaller
constexpr Duration kHoldFor = 500ms;
constexpr uint64_t kCommitAtBytes = 32u << 20;    // of one file: COMMIT in the background
constexpr uint64_t kDirtyLimitBytes = 64u << 20;  // of the mount, not answered: writers wait
constexpr uint64_t kKeepLimitBytes = 256u << 20;  // of the mount, not committed: writers wait

}  // namespace

Task<Result<Nfs4Filesystem::Written>> Nfs4Filesystem::write_on_server(NodeRef node,
                                                                      std::shared_ptr<FileState> file,
                                                                      WriteUnder under, uint64_t offset,
                                                                      Slice data, nfs4::stable_how4 stable) {
  const nfs4::nfs_fh4 fh = nfs4_node(node).fh();
  Written result{nfs4::FILE_SYNC4, {}};
  for (size_t done = 0; done < data.size();) {
    const Slice piece = data.subslice(done, std::min<size_t>(data.size() - done, wsize_));
    const uint64_t order = nodes_.next_start();
    nfs4::WRITE4args args;
    args.offset = offset + done;
    args.stable = stable;
    args.data = piece.bytes;
    auto build = [&](CompoundBuilder& b) {
      auto stateid = StateManager::io_stateid(*file, *under.state, under.locked);
      if (!stateid) return b.refuse(std::move(stateid.error()));
      args.stateid = *stateid;
      b.putfh(fh).add(args).getattr(kFileAttributes).keep(piece);
    };
    const Request request{nfs4::OP_WRITE, under.credential, false, build, {}};
    Result<CompoundReply> reply = co_await states_.run(request, node, file, under.state);
    if (!reply) co_return fail(std::move(reply.error()));
    NFSRDMA_CO_TRY(reply->expect<nfs4::PUTFH4res>());
    auto res = reply->take<nfs4::WRITE4res>();
    if (!res) co_return fail(std::move(res.error()));
    const auto& ok = res->resok4;
    if (ok.count == 0 || ok.count > piece.size())
      co_return fail(system_error(EIO, "WRITE", "the server wrote an impossible number of bytes"));
    auto attributes = reply->take<nfs4::GETATTR4res>();
    if (attributes) co_await apply(node, std::move(attributes->resok4.obj_attributes), order, Cause::kOwn);
    // Pieces of one extent under two verifiers: what the first one covered may be lost, so all go again.
    if (done != 0 && result.committed == nfs4::UNSTABLE4 && ok.writeverf != result.verifier) {
      result = {nfs4::FILE_SYNC4, {}};
      done = 0;
      continue;
    }
    result.committed = std::min(result.committed, ok.committed);
    result.verifier = ok.writeverf;
    done += ok.count;
  }
  co_return result;
}

void Nfs4Filesystem::write_failed(FileState& file, Error error, const char* verb) {
  ++file.write_errors;
  file.write_error = std::move(error);
  const uint64_t ino = file.node.attributes.get().ino;
  log::warn(
      "server {}: data of inode {} could not be {}: {}; the next fsync or close reports it; which file: run "
      "'find -inum {}' in the mount",
      options_.host, ino, verb, describe(file.write_error), ino);
}

Task<> Nfs4Filesystem::write_extent(NodeRef node, std::shared_ptr<FileState> file, ExtentMap::iterator entry,
                                    nfs4::stable_how4 stable) {
  WriteExtent& extent = entry->second;
  auto written = co_await write_on_server(node, file, extent.under, extent.offset, extent.data, stable);
  const size_t size = extent.data.size();
  dirty_bytes_.fetch_sub(size, std::memory_order_relaxed);
  ExtentMap finished;  // its memory goes after the lock
  std::lock_guard lock(nfs4_node(node).mutex);
  file->dirty_bytes -= size;
  file->under_way.erase(extent.serial);
  if (written && written->committed == nfs4::UNSTABLE4) {
    extent.verifier = written->verifier;
    if (file->unstable.empty()) file->unstable_epoch = session_.epoch();
    file->unstable.take(file->writes, entry);
    file->unstable_bytes += size;
    unstable_bytes_.fetch_add(size, std::memory_order_relaxed);
  } else {
    finished.take(file->writes, entry);
    if (!written) write_failed(*file, std::move(written.error()), "written");
  }
  file->written.notify_all();
}

void Nfs4Filesystem::supersede(FileState& file, uint64_t offset, uint64_t end) {
  const uint64_t unstable = file.unstable.punch(offset, end);
  file.unstable_bytes -= unstable;
  const uint64_t removed = unstable + file.committing.punch(offset, end);
  if (removed != 0) unstable_bytes_.fetch_sub(removed, std::memory_order_relaxed);
}

ExtentMap::iterator Nfs4Filesystem::add_extent(FileState& file, WriteExtent extent) {
  extent.serial = file.next_serial++;
  file.under_way.insert(extent.serial);
  const size_t size = extent.data.size();
  file.dirty_bytes += size;
  dirty_bytes_.fetch_add(size, std::memory_order_relaxed);
  supersede(file, extent.offset, extent.end());
  return file.writes.insert(std::move(extent));
}

bool Nfs4Filesystem::grow_held(FileState& file, const Nfs4File& handle, uint64_t offset, const Slice& data) {
  WriteExtent* held = file.held;
  if (held == nullptr || held->under.state != handle.state || held->end() != offset) return false;
  const size_t used = held->data.size();
  const MutableBytes room =
      held->data.buffer.bytes().first(std::min<size_t>(held->data.buffer->capacity(), wsize_));
  if (room.size() - used < data.size() || file.writes.overlaps(offset, offset + data.size())) return false;
  supersede(file, offset, offset + data.size());
  std::copy(data.bytes.begin(), data.bytes.end(), room.begin() + static_cast<std::ptrdiff_t>(used));
  held->data.bytes = room.first(used + data.size());
  held->under.locked = held->under.locked || handle.lock_used.load(std::memory_order_relaxed);
  file.under_way.erase(held->serial);
  held->serial = file.next_serial++;
  file.under_way.insert(held->serial);
  file.dirty_bytes += data.size();
  dirty_bytes_.fetch_add(data.size(), std::memory_order_relaxed);
  return true;
}

bool Nfs4Filesystem::gather(const NodeRef& node, const std::shared_ptr<FileState>& file,
                            const Nfs4File& handle, uint64_t offset, const Slice& data) {
  if (data.size() >= std::min<size_t>(kGatherBytes, wsize_)) return false;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    if (grow_held(*file, handle, offset, data)) return true;
  }
  send_held(node, file);
  BufferRef buffer =
      buffers_.get(offset < kFirstHeldBytes ? kFirstHeldBytes : std::min<size_t>(wsize_, 1u << 20));
  if (!buffer) return false;
  std::lock_guard lock(nfs4_node(node).mutex);
  if (file->held != nullptr || file->writes.overlaps(offset, offset + data.size())) return false;
  WriteExtent extent;
  extent.offset = offset;
  extent.data = {buffer, buffer.bytes().first(data.size())};
  std::copy(data.bytes.begin(), data.bytes.end(), extent.data.bytes.begin());
  extent.under = {handle.state, handle.credential, handle.lock_used.load(std::memory_order_relaxed)};
  extent.since = Clock::now();
  file->held = &add_extent(*file, std::move(extent))->second;
  return true;
}

Task<> Nfs4Filesystem::send_pieces(OpenFileRef open, uint64_t offset, Slice data) {
  const Nfs4File& handle = nfs4_file(open);
  for (size_t at = 0; at < data.size();) {
    const size_t size = std::min<size_t>(data.size() - at, wsize_);
    co_await settle(handle.node, handle.file, offset + at, offset + at + size);
    ExtentMap::iterator entry;
    {
      std::lock_guard lock(nfs4_node(handle.node).mutex);
      if (handle.file->writes.overlaps(offset + at, offset + at + size)) continue;  // another loop was faster
      WriteExtent extent;
      extent.offset = offset + at;
      extent.data = data.subslice(at, size);
      extent.under = {handle.state, handle.credential, handle.lock_used.load(std::memory_order_relaxed)};
      entry = add_extent(*handle.file, std::move(extent));
    }
    Loop::current()->spawn(write_extent(handle.node, handle.file, entry, nfs4::UNSTABLE4));
    at += size;
  }
}

void Nfs4Filesystem::send_held(const NodeRef& node, const std::shared_ptr<FileState>& file, bool whole_file) {
  ExtentMap::iterator entry;
  nfs4::stable_how4 stable = nfs4::UNSTABLE4;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    if (file->held == nullptr) return;
    entry = file->writes.overlapping(file->held->offset, file->held->end());
    if (whole_file && file->held->offset == 0 && file->writes.size() == 1 && file->unstable.empty())
      stable = nfs4::FILE_SYNC4;
    file->held = nullptr;
  }
  Loop::current()->spawn(write_extent(node, file, entry, stable));
}

Task<> Nfs4Filesystem::settle(NodeRef node, std::shared_ptr<FileState> file, uint64_t offset, uint64_t end) {
  for (;;) {
    std::unique_lock lock(nfs4_node(node).mutex);
    const auto entry = file->writes.overlapping(offset, end);
    if (entry == file->writes.end()) co_return;
    if (&entry->second != file->held) {
      co_await file->written.wait(lock);
      continue;
    }
    lock.unlock();
    send_held(node, file);
  }
}

Task<> Nfs4Filesystem::settle_all(NodeRef node, std::shared_ptr<FileState> file) {
  send_held(node, file);
  uint64_t next = 0;
  for (;;) {
    std::unique_lock lock(nfs4_node(node).mutex);
    if (next == 0) next = file->next_serial;  // what is written after the call need not be waited for
    if (file->under_way.empty() || *file->under_way.begin() >= next) co_return;
    co_await file->written.wait(lock);
  }
}

Task<bool> Nfs4Filesystem::settle_beyond(NodeRef node, std::shared_ptr<FileState> file, uint64_t offset) {
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    if (file->writes.end_offset() <= offset) co_return false;
  }
  co_await settle_all(node, file);
  co_return true;
}

Task<> Nfs4Filesystem::settle_node(NodeRef node) {
  std::shared_ptr<FileState> file;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    file = nfs4_node(node).file;
    if (!file || file->writes.empty()) co_return;
  }
  // git and tar ask for or set attributes between the last write and close: that write is most often the
  // whole file, and WRITE to stable storage saves its COMMIT.
  send_held(node, file, true);
  co_await settle_all(node, file);
}

Task<> Nfs4Filesystem::throttle(NodeRef node, std::shared_ptr<FileState> file) {
  while (dirty_bytes_.load(std::memory_order_relaxed) > kDirtyLimitBytes) {
    bool idle = false;
    send_held(node, file);
    std::unique_lock lock(nfs4_node(node).mutex);
    idle = file->writes.empty();
    if (idle) break;  // others fill the limit; this file waits its turn at its next write
    co_await file->written.wait(lock);
  }
  if (unstable_bytes_.load(std::memory_order_relaxed) > kKeepLimitBytes) co_await commit_everything();
  bool spawn = false;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    if (file->unstable_bytes > kCommitAtBytes && !file->commit_spawned) spawn = file->commit_spawned = true;
  }
  if (spawn) Loop::current()->spawn(commit_in_background(node, file));
}

Task<> Nfs4Filesystem::commit_everything() {
  auto guard = co_await commit_everything_mutex_.lock();
  if (unstable_bytes_.load(std::memory_order_relaxed) <= kKeepLimitBytes)
    co_return;  // another one was faster
  for (const NodeRef& node : states_.files()) {
    std::shared_ptr<FileState> file;
    {
      std::lock_guard lock(nfs4_node(node).mutex);
      file = nfs4_node(node).file;
    }
    if (file) co_await commit(node, file);
  }
}

Task<> Nfs4Filesystem::commit_in_background(NodeRef node, std::shared_ptr<FileState> file) {
  co_await commit(node, file);
  std::lock_guard lock(nfs4_node(node).mutex);
  file->commit_spawned = false;
}

Task<> Nfs4Filesystem::commit(NodeRef node, std::shared_ptr<FileState> file) {
  auto guard = co_await file->commit_mutex.lock();
  rpc::CredentialPtr credential;  // a writer's: whoever asks for the COMMIT may not be allowed to
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    if (file->unstable.empty()) co_return;
    file->committing.swap(file->unstable);
    credential = file->committing.begin()->second.under.credential;
    file->unstable_bytes = 0;
    file->committing_epoch = file->unstable_epoch;
  }
  const nfs4::nfs_fh4 fh = nfs4_node(node).fh();
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).add(nfs4::COMMIT4args{0, 0}).getattr(kFileAttributes); };
  const Request request{nfs4::OP_COMMIT, credential, false, build, {}};
  Result<CompoundReply> reply = co_await session_.run(request);
  Result<nfs4::COMMIT4res> committed = fail(Error{});
  if (!reply) {
    committed = fail(std::move(reply.error()));
  } else if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put) {
    committed = fail(std::move(put.error()));
  } else {
    committed = reply->take<nfs4::COMMIT4res>();
  }
  if (committed) {
    auto attributes = reply->take<nfs4::GETATTR4res>();
    if (attributes) co_await apply(node, std::move(attributes->resok4.obj_attributes), order, Cause::kOwn);
  }
  bool lost = false;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    const uint64_t before = file->committing.bytes();
    if (committed) {
      const nfs4::verifier4& verifier = committed->resok4.writeverf;
      file->committing.erase_if([&](const WriteExtent& e) { return e.verifier == verifier; });
    } else {
      write_failed(*file, std::move(committed.error()), "committed");
      file->committing.clear();
    }
    unstable_bytes_.fetch_sub(before - file->committing.bytes(), std::memory_order_relaxed);
    lost = !file->committing.empty();
  }
  if (lost) co_await send_again(node, file);
  std::lock_guard lock(nfs4_node(node).mutex);
  file->committing_epoch = 0;
  file->written.notify_all();
}

Task<> Nfs4Filesystem::send_again(NodeRef node, std::shared_ptr<FileState> file) {
  size_t count = 0;
  for (;; ++count) {
    ExtentMap::iterator entry;
    {
      std::lock_guard lock(nfs4_node(node).mutex);
      if (file->committing.empty()) break;
      entry = file->writes.take(file->committing, file->committing.begin());
      WriteExtent& extent = entry->second;
      extent.serial = file->next_serial++;
      file->under_way.insert(extent.serial);
      const size_t size = extent.data.size();
      file->dirty_bytes += size;
      dirty_bytes_.fetch_add(size, std::memory_order_relaxed);
      unstable_bytes_.fetch_sub(size, std::memory_order_relaxed);
    }
    Loop::current()->spawn(write_extent(node, file, entry, nfs4::FILE_SYNC4));
  }
  log::info("the server lost {} unstable writes of a file in a restart; writing them again", count);
  co_await settle_all(node, file);
}

Task<> Nfs4Filesystem::restore_lost_writes(NodeRef node, std::shared_ptr<FileState> file) {
  const uint64_t epoch = session_.epoch();
  for (;;) {
    {
      std::unique_lock lock(nfs4_node(node).mutex);
      if (file->committing_epoch != 0 && file->committing_epoch != epoch) {
        co_await file->written.wait(lock);
        continue;
      }
      if (file->unstable.empty() || file->unstable_epoch == epoch) co_return;
    }
    co_await commit(node, file);
  }
}

Task<> Nfs4Filesystem::resend_writes(NodeRef node) {
  std::shared_ptr<FileState> file;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    file = nfs4_node(node).file;
  }
  if (file) co_await restore_lost_writes(node, file);
}

Task<> Nfs4Filesystem::write_back(NodeRef node, std::shared_ptr<FileState> file) {
  ExtentMap::iterator only;
  bool single = false;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    // A small file that was written in one piece: one WRITE to stable storage instead of WRITE and COMMIT.
    single = file->writes.size() == 1 && file->held != nullptr && file->unstable.empty();
    if (single) {
      only = file->writes.begin();
      file->held = nullptr;
    }
  }
  if (single) {
    co_await write_extent(node, file, only, nfs4::FILE_SYNC4);
  } else {
    co_await settle_all(node, file);
  }
  co_await commit(node, file);
}

Result<> Nfs4Filesystem::unreported_error(Nfs4File& handle) {
  std::lock_guard lock(handle.file->node.mutex);
  if (std::exchange(handle.errors_seen, handle.file->write_errors) == handle.file->write_errors) return {};
  return fail(handle.file->write_error);
}

Task<Result<>> Nfs4Filesystem::flush(RequestContext ctx, OpenFileRef open, uint64_t lock_owner) {
  Nfs4File& handle = nfs4_file(open);
  // First in line, and until the owner's locks are dropped: nobody waits for the flush of a process that was
  // killed, and its owner number may be the next process's, who must keep what it locks from now on.
  const std::string owner = posix_owner(lock_owner);
  AsyncMutex::Guard turn;
  if (may_hold(handle, owner)) {
    auto locking = co_await handle.file->lock_mutex.lock();
    turn = std::move(locking);
  }
  bool dirty = false;
  {
    std::lock_guard lock(nfs4_node(handle.node).mutex);
    dirty = handle.file->unsaved();
  }
  const bool writer = (handle.access & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0;
  if (dirty && writer) co_await write_back(handle.node, handle.file);
  Result<> written;
  if (writer) written = unreported_error(handle);
  if (turn) {
    // The next holder must see what was written under the lock, also by others.
    if (dirty && !writer) {
      co_await settle_all(handle.node, handle.file);
      co_await commit(handle.node, handle.file);
    }
    const Lock whole;
    (void)co_await unlock_in_turn(open, owner, whole);
  }
  (void)ctx;
  co_return written;
}

Task<Result<>> Nfs4Filesystem::fsync(RequestContext, OpenFileRef open, bool) {
  Nfs4File& handle = nfs4_file(open);
  co_await write_back(handle.node, handle.file);
  co_return unreported_error(handle);
}

Task<> Nfs4Filesystem::send_held_periodically() {
  while (!stopping_) {
    co_await held_timer_.wait_for(kHoldFor);
    if (stopping_ || dirty_bytes_.load(std::memory_order_relaxed) == 0) continue;
    const TimePoint old = Clock::now() - kHoldFor;
    for (const NodeRef& node : states_.files()) {
      std::shared_ptr<FileState> file;
      {
        std::lock_guard lock(nfs4_node(node).mutex);
        file = nfs4_node(node).file;
        if (!file) continue;
        if (file->held == nullptr || file->held->since > old) continue;
      }
      send_held(node, file);
    }
  }
}

}  // namespace nfsrdma::client

// The back of writing: small writes gathered, WRITE UNSTABLE, COMMIT, verifiers, errors (RFC 8881
// sections 18.3, 18.32).
//
// An extent is answered to the application when it is here. It is sent at once, unless it is small and may
// grow; it stays in memory until the server says FILE_SYNC, or until a COMMIT returns the verifier its WRITE
// returned. Another verifier means that the server lost what was unstable: it is written again. Extents that
// overlap are never under way at the same time, so the server cannot take them in another order than they
// were written in.
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

bool overlaps(const WriteExtent& e, uint64_t offset, uint64_t end) {
  return e.offset < end && offset < e.end();
}

}  // namespace

Task<Result<Nfs4Filesystem::Written>> Nfs4Filesystem::write_on_server(NodeRef node,
                                                                      std::shared_ptr<FileState> file,
                                                                      WriteUnder under, uint64_t offset,
                                                                      Slice data, nfs4::stable_how4 stable) {
  const nfs4::nfs_fh4 fh = nfs4_node(node).fh();
  Written result{nfs4::FILE_SYNC4, {}};
  for (size_t done = 0; done < data.size();) {
    const Slice piece = data.subslice(done, std::min<size_t>(data.size() - done, wsize_));
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
    if (attributes)
      co_await apply(node, std::move(attributes->resok4.obj_attributes), nodes_.next_start(), Cause::kOwn);
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

Task<> Nfs4Filesystem::write_extent(NodeRef node, std::shared_ptr<FileState> file, ExtentIterator extent,
                                    nfs4::stable_how4 stable) {
  auto written = co_await write_on_server(node, file, extent->under, extent->offset, extent->data, stable);
  const size_t size = extent->data.size();
  dirty_bytes_.fetch_sub(size, std::memory_order_relaxed);
  std::list<WriteExtent> finished;  // its memory goes after the lock
  std::lock_guard lock(nfs4_node(node).mutex);
  file->dirty_bytes -= size;
  if (!written) {
    if (!file->write_failed) {
      file->write_failed = true;
      file->write_error = std::move(written.error());
      log::warn("data of a file could not be written: {}; the next fsync or close reports it",
                describe(file->write_error));
    }
    finished.splice(finished.end(), file->writes, extent);
  } else if (written->committed == nfs4::UNSTABLE4) {
    extent->verifier = written->verifier;
    if (file->unstable.empty()) file->unstable_epoch = session_.epoch();
    file->unstable.splice(file->unstable.end(), file->writes, extent);
    file->unstable_bytes += size;
    unstable_bytes_.fetch_add(size, std::memory_order_relaxed);
  } else {
    finished.splice(finished.end(), file->writes, extent);
  }
  file->written.notify_all();
}

bool Nfs4Filesystem::gather(const NodeRef& node, const std::shared_ptr<FileState>& file,
                            const Nfs4File& handle, uint64_t offset, const Slice& data) {
  if (data.size() >= kGatherBytes) return false;
  const bool locked = handle.lock_used.load(std::memory_order_relaxed);
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    const auto held =
        std::find_if(file->writes.begin(), file->writes.end(), [](const WriteExtent& e) { return e.held; });
    if (held != file->writes.end() && held->under.state == handle.state && held->end() == offset) {
      const size_t used = held->data.size();
      MutableBytes room =
          held->data.buffer.bytes().first(std::min<size_t>(held->data.buffer->capacity(), wsize_));
      const bool clash = std::any_of(file->writes.begin(), file->writes.end(), [&](const WriteExtent& e) {
        return overlaps(e, offset, offset + data.size());
      });
      if (room.size() - used >= data.size() && !clash) {
        std::copy(data.bytes.begin(), data.bytes.end(), room.begin() + static_cast<std::ptrdiff_t>(used));
        held->data.bytes = room.first(used + data.size());
        held->serial = file->next_serial++;
        held->under.locked = held->under.locked || locked;
        file->dirty_bytes += data.size();
        dirty_bytes_.fetch_add(data.size(), std::memory_order_relaxed);
        return true;
      }
    }
  }
  send_held(node, file);
  std::lock_guard lock(nfs4_node(node).mutex);
  for (const WriteExtent& e : file->writes) {
    if (overlaps(e, offset, offset + data.size()) || e.held) return false;
  }
  WriteExtent extent;
  BufferRef buffer =
      buffers_.get(offset < kFirstHeldBytes ? kFirstHeldBytes : std::min<size_t>(wsize_, 1u << 20));
  if (!buffer) return false;
  extent.serial = file->next_serial++;
  extent.offset = offset;
  extent.data = {buffer, buffer.bytes().first(data.size())};
  std::copy(data.bytes.begin(), data.bytes.end(), extent.data.bytes.begin());
  extent.held = true;
  extent.under = {handle.state, handle.credential, locked};
  extent.since = Clock::now();
  file->writes.push_back(std::move(extent));
  file->dirty_bytes += data.size();
  dirty_bytes_.fetch_add(data.size(), std::memory_order_relaxed);
  return true;
}

void Nfs4Filesystem::send_pieces(const NodeRef& node, const std::shared_ptr<FileState>& file,
                                 const Nfs4File& handle, uint64_t offset, const Slice& data) {
  for (size_t at = 0; at < data.size(); at += wsize_) {
    const size_t n = std::min<size_t>(data.size() - at, wsize_);
    WriteExtent extent;
    extent.offset = offset + at;
    extent.data = data.subslice(at, n);
    extent.under = {handle.state, handle.credential, handle.lock_used.load(std::memory_order_relaxed)};
    ExtentIterator it;
    {
      std::lock_guard lock(nfs4_node(node).mutex);
      extent.serial = file->next_serial++;
      it = file->writes.insert(file->writes.end(), std::move(extent));
      file->dirty_bytes += n;
    }
    dirty_bytes_.fetch_add(n, std::memory_order_relaxed);
    Loop::current()->spawn(write_extent(node, file, it, nfs4::UNSTABLE4));
  }
}

void Nfs4Filesystem::send_held(const NodeRef& node, const std::shared_ptr<FileState>& file) {
  for (;;) {
    ExtentIterator it;
    {
      std::lock_guard lock(nfs4_node(node).mutex);
      it =
          std::find_if(file->writes.begin(), file->writes.end(), [](const WriteExtent& e) { return e.held; });
      if (it == file->writes.end()) return;
      it->held = false;
    }
    Loop::current()->spawn(write_extent(node, file, it, nfs4::UNSTABLE4));
  }
}

Task<> Nfs4Filesystem::settle(NodeRef node, std::shared_ptr<FileState> file, uint64_t offset, uint64_t end) {
  for (;;) {
    bool held = false;
    std::unique_lock lock(nfs4_node(node).mutex);
    const auto it = std::find_if(file->writes.begin(), file->writes.end(),
                                 [&](const WriteExtent& e) { return overlaps(e, offset, end); });
    if (it == file->writes.end()) co_return;
    held = it->held;
    if (!held) {
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
    const bool waiting = std::any_of(file->writes.begin(), file->writes.end(),
                                     [&](const WriteExtent& e) { return e.serial < next; });
    if (!waiting) co_return;
    co_await file->written.wait(lock);
  }
}

Task<> Nfs4Filesystem::settle_node(NodeRef node) {
  std::shared_ptr<FileState> file;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    file = nfs4_node(node).file;
    if (!file || file->writes.empty()) co_return;
  }
  co_await settle_all(node, file);
}

Task<Result<>> Nfs4Filesystem::throttle(NodeRef node, std::shared_ptr<FileState> file,
                                        rpc::CredentialPtr credential) {
  while (dirty_bytes_.load(std::memory_order_relaxed) > kDirtyLimitBytes) {
    bool idle = false;
    send_held(node, file);
    std::unique_lock lock(nfs4_node(node).mutex);
    idle = file->writes.empty();
    if (idle) break;  // others fill the limit; this file waits its turn at its next write
    co_await file->written.wait(lock);
  }
  if (unstable_bytes_.load(std::memory_order_relaxed) > kKeepLimitBytes)
    co_await commit(node, file, credential);
  bool spawn = false;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    if (file->unstable_bytes > kCommitAtBytes && !file->commit_spawned) spawn = file->commit_spawned = true;
  }
  if (spawn) Loop::current()->spawn(commit_in_background(node, file, credential));
  co_return Result<>{};
}

Task<> Nfs4Filesystem::commit_in_background(NodeRef node, std::shared_ptr<FileState> file,
                                            rpc::CredentialPtr credential) {
  co_await commit(node, file, std::move(credential));
  std::lock_guard lock(nfs4_node(node).mutex);
  file->commit_spawned = false;
}

Task<> Nfs4Filesystem::commit(NodeRef node, std::shared_ptr<FileState> file, rpc::CredentialPtr credential) {
  auto guard = co_await file->commit_mutex.lock();
  std::list<WriteExtent> batch;
  uint64_t bytes = 0;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    if (file->unstable.empty()) co_return;
    batch.swap(file->unstable);
    bytes = std::exchange(file->unstable_bytes, 0);
    file->committing_epoch = file->unstable_epoch;
  }
  const nfs4::nfs_fh4 fh = nfs4_node(node).fh();
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
    if (attributes)
      co_await apply(node, std::move(attributes->resok4.obj_attributes), nodes_.next_start(), Cause::kOwn);
    std::erase_if(batch, [&](const WriteExtent& e) { return e.verifier == committed->resok4.writeverf; });
  } else {
    std::lock_guard lock(nfs4_node(node).mutex);
    if (!file->write_failed) {
      file->write_failed = true;
      file->write_error = std::move(committed.error());
      log::warn("data of a file could not be committed: {}; the next fsync or close reports it",
                describe(file->write_error));
    }
    batch.clear();
  }
  unstable_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (!batch.empty()) co_await send_again(node, file, std::move(batch));
  std::lock_guard lock(nfs4_node(node).mutex);
  file->committing_epoch = 0;
  file->written.notify_all();
}

Task<> Nfs4Filesystem::send_again(NodeRef node, std::shared_ptr<FileState> file,
                                  std::list<WriteExtent> lost) {
  log::info("the server lost {} unstable writes of a file in a restart; writing them again", lost.size());
  // In the order of writing, one after the other: they may overlap each other, and younger writes wait for
  // them.
  while (!lost.empty()) {
    co_await settle(node, file, lost.front().offset, lost.front().end());
    const ExtentIterator extent = lost.begin();
    const size_t size = extent->data.size();
    {
      std::lock_guard lock(nfs4_node(node).mutex);
      file->writes.splice(file->writes.end(), lost, extent);
      file->dirty_bytes += size;
    }
    dirty_bytes_.fetch_add(size, std::memory_order_relaxed);
    co_await write_extent(node, file, extent, nfs4::FILE_SYNC4);
  }
}

Task<> Nfs4Filesystem::restore_lost_writes(NodeRef node, std::shared_ptr<FileState> file) {
  const uint64_t epoch = session_.epoch();
  for (;;) {
    rpc::CredentialPtr credential;
    {
      std::unique_lock lock(nfs4_node(node).mutex);
      if (file->committing_epoch != 0 && file->committing_epoch != epoch) {
        co_await file->written.wait(lock);
        continue;
      }
      if (file->unstable.empty() || file->unstable_epoch == epoch) co_return;
      credential = file->unstable.front().under.credential;
    }
    co_await commit(node, file, std::move(credential));
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

Task<Result<>> Nfs4Filesystem::write_back(NodeRef node, std::shared_ptr<FileState> file,
                                          rpc::CredentialPtr credential) {
  ExtentIterator only;
  bool single = false;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    // A small file that was written in one piece: one WRITE to stable storage instead of WRITE and COMMIT.
    single = file->writes.size() == 1 && file->writes.front().held && file->unstable.empty();
    if (single) {
      only = file->writes.begin();
      only->held = false;
    }
  }
  if (single) {
    co_await write_extent(node, file, only, nfs4::FILE_SYNC4);
  } else {
    co_await settle_all(node, file);
  }
  co_await commit(node, file, std::move(credential));
  std::lock_guard lock(nfs4_node(node).mutex);
  if (!std::exchange(file->write_failed, false)) co_return Result<>{};
  co_return fail(std::move(file->write_error));
}

Task<Result<>> Nfs4Filesystem::flush(RequestContext ctx, OpenFileRef open, uint64_t lock_owner) {
  Nfs4File& handle = nfs4_file(open);
  Result<> written;
  bool dirty = false;
  {
    std::lock_guard lock(nfs4_node(handle.node).mutex);
    dirty = !handle.file->writes.empty() || !handle.file->unstable.empty() || handle.file->write_failed;
  }
  if (dirty && (handle.access & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0) {
    written = co_await write_back(handle.node, handle.file, handle.credential);
  }
  Lock whole;
  (void)co_await unlock(open, posix_owner(lock_owner), whole);
  (void)ctx;
  co_return written;
}

Task<Result<>> Nfs4Filesystem::fsync(RequestContext, OpenFileRef open, bool) {
  Nfs4File& handle = nfs4_file(open);
  co_return co_await write_back(handle.node, handle.file, handle.credential);
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
        const bool due = std::any_of(file->writes.begin(), file->writes.end(),
                                     [&](const WriteExtent& e) { return e.held && e.since <= old; });
        if (!due) continue;
      }
      send_held(node, file);
    }
  }
}

}  // namespace nfsrdma::client

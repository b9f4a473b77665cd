// SPDX-License-Identifier: Apache-2.0
// O_APPEND: write() puts the data at the end of the file (RFC 8881 sections 10.3.1, 10.3.2). The front end
// passes an offset, which is its own idea of the end. It is wrong if another client changed the file since.
//
// If that offset equals the end known here, the server is not asked. If they differ, another client wrote,
// and the client saw that change at an open or a lock. Then all our data is sent first, and the server's size
// is the end.
//
// Only one write(2) at a time appends to a file. But with O_DIRECT it arrives in several parts at once, and
// several loops start them in any order. All parts are shifted by the same distance, from the front end's end
// to the real end. The first part determines it.
#include "client/core/writer.h"

#include <algorithm>
#include <cerrno>
#include <deque>

#include "client/core/io_limits.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {
namespace {

// Attempts of WRITE and COMMIT. An attempt fails if the server restarts between the two.
constexpr int kMostAttempts = 16;

}  // namespace

Task<Result<>> Writer::write(RequestContext ctx, OpenFileRef open, uint64_t offset, Slice data) {
  if (ctx.append) return write_at_end(std::move(ctx), std::move(open), offset, std::move(data));
  return write_at(std::move(ctx), std::move(open), offset, std::move(data));
}

Task<Result<>> Writer::write_at(RequestContext ctx, OpenFileRef open, uint64_t offset, Slice data) {
  CachedOpen& handle = cached_open(open);
  const NodeRef node = handle.node;
  const CachedFileRef file = handle.cached;
  if (data.bytes.empty()) co_return Result<>{};
  if ((handle.access & CachedOpen::kWrite) == 0) co_return fail(system_error(EBADF, "WRITE"));
  const uint64_t most = offset < kLeastFileLimit ? INT64_MAX : protocol_.limits_of(node).file_max;
  if (offset > most - data.size()) co_return fail(system_error(EFBIG, "WRITE"));
  // Wait before everything else: a waiting write has no WritePlace yet, so it is dropped if its caller is
  // cancelled. Appends have waited in write_at_end(), except for the parts of O_DIRECT ones.
  if ((!ctx.append || ctx.direct) && !room_.has_room())
    NFSRDMA_CO_TRY(co_await write_back_.wait_for_room(node, file, ctx.cancellation, data.size()));
  const IoAccount account = handle.account(ctx);
  NFSRDMA_CO_TRY(protocol_.usable(handle, account));
  bool through = handle.synchronous || ctx.direct;
  {
    MutexLock lock(cached_node(node).mutex);
    if ((offset | data.size()) % DataCache::kPageBytes != 0) cached_node(node).contents.partly = true;
    // While a write error is unreported, each write returns its own errors at once.
    through = through || file->writes.errors() != handle.errors_seen;
  }
  const uint64_t end = offset + data.size();
  Result<> written;
  if (through) {
    written = co_await write_through(open, account, offset, std::move(data));
  } else {
    if (!write_back_.gather(node, file, account, offset, data))
      co_await write_back_.send_pieces(open, account, offset, std::move(data));
    write_back_.commit_large(node, file);
  }
  if (written && !ctx.append) {
    MutexLock lock(cached_node(node).mutex);
    note_kernel_end(cached_node(node), end);
  }
  co_return written;
}

Task<Result<>> Writer::write_through(OpenFileRef open, IoAccount account, uint64_t offset, Slice data) {
  CachedOpen& handle = cached_open(open);
  const NodeRef node = handle.node;
  const CachedFileRef file = handle.cached;
  // Wait for every earlier write that overlaps, also for one whose caller was cancelled.
  WriteExtent extent;
  extent.offset = offset;
  extent.data = data;
  extent.account = account;
  WritePlace place(file, offset, offset + data.size());
  auto entering = write_back_.enter(node, place, std::move(extent));
  const FileWrites::Extent entered = co_await std::move(entering);
  place.leave();
  Result<> written = co_await write_stably(node, file, std::move(account), offset, std::move(data));
  if (!written) kept_.invalidate_data(node);
  // The caller reports an error now, so a later fsync(2) must not report it. The extent ends either way.
  write_back_.extent_answered(node, file, entered, 0, Written{nfs4::FILE_SYNC4, {}});
  co_return written;
}

// Combines the results of several WRITEs of one piece of data. False: their verifiers differ. Only WRITEs
// that were not FILE_SYNC4 have a verifier.
bool Writer::join(std::optional<Written>& all, const Written& one) {
  const bool unstable = all && all->committed != nfs4::FILE_SYNC4 && one.committed != nfs4::FILE_SYNC4;
  const bool one_server = !unstable || all->verifier == one.verifier;
  if (!all || one.committed < all->committed) all = one;
  return one_server;
}

Task<> Writer::write_part(NodeRef node, CachedFileRef file, const IoAccount& account, WritePart* part) {
  auto written =
      co_await write_back_.write_on_server(node, file, account, part->offset, part->data, nfs4::UNSTABLE4);
  part->done.set(std::move(written));
}

Task<Result<std::optional<Written>>> Writer::write_in_parts(NodeRef node, CachedFileRef file,
                                                            const IoAccount& account, uint64_t offset,
                                                            Slice data) {
  const size_t part_size = protocol_.limits_of(node).wsize;
  std::deque<WritePart> parts;
  unsigned connection = Loop::current()->index();
  for (size_t at = 0; at < data.size(); at += part_size) {
    const size_t size = std::min(data.size() - at, part_size);
    WritePart& part = parts.emplace_back(offset + at, data.subslice(at, size));
    loops_[connection++ % loops_.size()].spawn(write_part(node, file, account, &part));
  }
  Result<std::optional<Written>> whole = std::nullopt;
  bool one_server = true;
  for (WritePart& part : parts) {
    auto written = co_await part.done.wait();  // for every part, also after an error: they are in this frame
    if (!whole) continue;
    if (!written) {
      whole = fail(std::move(written.error()));
      continue;
    }
    one_server = join(*whole, *written) && one_server;
  }
  if (whole && !one_server) whole->reset();
  co_return whole;
}

// A single WRITE uses FILE_SYNC4. Several WRITEs use UNSTABLE4 and one COMMIT, which saves a disk write for
// each.
Task<Result<>> Writer::write_stably(NodeRef node, CachedFileRef file, IoAccount account, uint64_t offset,
                                    Slice data) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    std::optional<Written> written;
    if (data.size() > protocol_.limits_of(node).wsize) {
      auto parts = co_await write_in_parts(node, file, account, offset, data);
      if (!parts) {
        // The other parts may have overwritten earlier UNSTABLE4 data, which fsync(2) would have committed.
        // fsync(2) does not know of these parts, so commit them here.
        (void)co_await write_back_.commit_on_server(node, account.credential, offset, offset + data.size());
        co_return fail(std::move(parts.error()));
      }
      if (!*parts) continue;
      written = **parts;
    } else {
      auto whole = co_await write_back_.write_on_server(node, file, account, offset, data, nfs4::FILE_SYNC4);
      if (!whole) co_return fail(std::move(whole.error()));
      written = *whole;
    }
    if (written->committed == nfs4::FILE_SYNC4) co_return Result<>{};
    auto committed =
        co_await write_back_.commit_on_server(node, account.credential, offset, offset + data.size());
    if (!committed) co_return fail(std::move(committed.error()));
    if (*committed == written->verifier) co_return Result<>{};
  }
  co_return fail(system_error(EIO, "WRITE", "the server's write verifier is another one each time"));
}

Task<Result<uint64_t>> Writer::end_at_server(RequestContext ctx, NodeRef node, CachedFileRef file) {
  const std::shared_ptr<Cancellation> caller = ctx.cancellation;
  co_await write_back_.settle_all(node, file);
  NFSRDMA_CO_TRY(co_await attributes_.fetch(std::move(ctx), node));
  // After the cancellation, an unlock or close no longer waits for this write. A late write could overwrite
  // data of the next lock holder.
  if (caller && caller->cancelled()) co_return fail(system_error(EINTR, "WRITE"));
  MutexLock lock(cached_node(node).mutex);
  co_return known_end(*file);
}

Task<Result<uint64_t>> Writer::append_offset(RequestContext ctx, NodeRef node, CachedFileRef file,
                                             uint64_t expected) {
  {
    MutexLock lock(cached_node(node).mutex);
    if (expected == known_end(*file)) co_return expected;
  }
  co_return co_await end_at_server(std::move(ctx), node, file);
}

uint64_t Writer::known_end(const CachedFile& file) const {
  return std::max(file.cached.attributes.get().size, file.written_end(protocol_.epoch()));
}

Task<Result<uint64_t>> Writer::direct_append_offset(RequestContext ctx, NodeRef node, CachedFileRef file,
                                                    AppendPart part) {
  CachedNode& n = cached_node(node);
  DirectAppend& all = file->direct_append;
  MutexLock lock(n.mutex);
  // A part that overlaps this one belongs to an earlier write(2), which was interrupted. Wait for its end.
  while (DirectAppend::any_overlaps(all.parts, part)) {
    co_await file->writes.changed().wait(lock);
    lock.lock_again();
  }
  const bool first = all.parts.empty() && !all.belongs_to_done(part);
  all.parts.push_back(part);
  if (!first) {
    while (!all.shift) {
      co_await file->writes.changed().wait(lock);
      lock.lock_again();
    }
  } else {
    all.done.clear();
    all.shift.reset();
    // If the front end's end is right, a later part of the write begins beyond it.
    const uint64_t end = known_end(*file);
    const bool right = part.offset == end || (part.offset > end && n.kernel.size() == end);
    if (right) {
      all.shift = Result<int64_t>(0);
    } else {
      const uint64_t believed = std::min(part.offset, n.kernel.size());
      lock.unlock();
      auto asking = end_at_server(std::move(ctx), node, file);
      const Result<uint64_t> found = co_await std::move(asking);
      lock.lock();
      all.shift = found.map([&](uint64_t at) { return static_cast<int64_t>(at - believed); });
      file->writes.changed().notify_all();
    }
  }
  if (!*all.shift) co_return fail(all.shift->error());
  co_return part.offset + static_cast<uint64_t>(**all.shift);
}

Task<Result<>> Writer::write_at_end(RequestContext ctx, OpenFileRef open, uint64_t offset, Slice data) {
  const NodeRef node = cached_open(open).node;
  const CachedFileRef file = cached_open(open).cached;
  const AppendPart part{offset, offset + data.size()};
  const bool direct = ctx.direct;
  // Wait for room first, because the end may change meanwhile. Parts of an O_DIRECT write determine the end
  // first: if they waited, some could be finished before the others begin.
  if (!direct && !room_.has_room())
    NFSRDMA_CO_TRY(co_await write_back_.wait_for_room(node, file, ctx.cancellation, data.size()));
  Result<uint64_t> end = fail(Error{});
  if (direct) end = co_await direct_append_offset(ctx, node, file, part);
  if (!direct) end = co_await append_offset(ctx, node, file, offset);
  Result<> written;
  if (!end) written = fail(end.error());
  if (end) written = co_await write_at(std::move(ctx), std::move(open), *end, std::move(data));
  {
    MutexLock lock(cached_node(node).mutex);
    if (direct) std::erase(file->direct_append.parts, part);
    if (direct && written) file->direct_append.done.push_back(part);
    if (written) note_kernel_end(cached_node(node), part.end);
    if (direct) file->writes.changed().notify_all();
  }
  if (end && *end != offset) kept_.invalidate_data(node);  // the kernel's pages have the data at `offset`
  co_return written;
}

}  // namespace nfsrdma::client

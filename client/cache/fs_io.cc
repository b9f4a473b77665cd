// SPDX-License-Identifier: Apache-2.0
// Reading in pieces, and the front of writing. What happens to written data is in fs_write_back.cc.
#include <algorithm>
#include <cerrno>
#include <deque>
#include <iterator>

#include "client/cache/caching_filesystem.h"

namespace nfsrdma::client {
namespace {

// A larger read goes out as several READs at once: the server works on the second while the first one
// travels. nfs-ganesha 4.3 takes 1.6 times the CPU per byte for READs of 1 MiB (2026-11-20, loopback).
constexpr size_t kPartBytes = 512u << 10;
// Of WRITE and COMMIT, each with a restart of the server in between.
constexpr int kMostTurns = 16;

// Adjacent memory becomes one piece.
void append(ReadReply& reply, BulkData data) {
  reply.size += data.size();
  if (!reply.data.empty() && data.piped.empty()) {
    Slice& last = reply.data.back().slice;
    const bool same = last.buffer.operator->() == data.slice.buffer.operator->();
    if (same && reply.data.back().piped.empty() &&
        last.bytes.data() + last.size() == data.slice.bytes.data()) {
      last.bytes = {last.bytes.data(), last.size() + data.size()};
      return;
    }
  }
  reply.data.push_back(std::move(data));
}

// Of what is committed and dropped meanwhile.
constexpr int kTriesForMemory = 100;

}  // namespace

Task<Result<ReadReply>> CachingFilesystem::read_in_turn(OpenFileRef open, const IoAccount& account,
                                                        uint64_t offset, size_t size) {
  const uint32_t rsize = limits_of(cached_open(open).node).rsize;
  ReadReply reply;
  Slice room;
  while (reply.size < size) {
    // What a short READ left is the next one's.
    if (room.bytes.empty()) room = buffers_.slice(std::min<size_t>(size - reply.size, rsize));
    for (int tries = 0; !room.buffer && tries < kTriesForMemory; ++tries) {
      memory_refused();
      co_await Loop::current()->sleep(std::chrono::milliseconds(20));
      room = buffers_.slice(std::min<size_t>(size - reply.size, rsize));
    }
    if (!room.buffer) co_return fail(system_error(ENOMEM, "READ"));
    const ReadPace::Sent sent = pace_.sending(Clock::now());
    auto piece = co_await read_piece(open, account, offset + reply.size, room, ReadFor::kAnswering);
    // Not what came before it: to the kernel, which fills whole pages, a short answer is the file's end.
    if (!piece) co_return fail(std::move(piece.error()));
    const size_t got = piece->data.size();
    pace_.answered(sent, got, Clock::now());
    if (got != 0) append(reply, std::move(piece->data));
    room.bytes = room.bytes.subspan(got);
    // Section 18.22.4: a short READ without eof is legal; the next turn asks for the rest.
    if (piece->eof) break;
  }
  co_return reply;
}

Task<> CachingFilesystem::read_part(OpenFileRef open, const IoAccount& account, ReadPart* part) {
  auto reply = co_await read_in_turn(std::move(open), account, part->offset, part->size);
  part->done.set(std::move(reply));
}

Task<Result<ReadReply>> CachingFilesystem::read_range(OpenFileRef open, const IoAccount& account,
                                                      uint64_t offset, size_t size) {
  const size_t part_size = std::min<size_t>(kPartBytes, limits_of(cached_open(open).node).rsize);
  if (size <= part_size) co_return co_await read_in_turn(std::move(open), account, offset, size);
  std::deque<ReadPart> parts;
  unsigned connection = Loop::current()->index();  // the first part goes over our own
  for (size_t at = 0; at < size; at += part_size) {
    ReadPart& part = parts.emplace_back(offset + at, std::min(size - at, part_size));
    loops_[connection++ % loops_.size()].spawn(read_part(open, account, &part));
  }
  Result<ReadReply> whole = ReadReply{};
  bool complete = true;
  for (ReadPart& part : parts) {
    auto reply = co_await part.done.wait();  // also of parts that are not wanted any more
    if (!complete) continue;
    if (!reply) {
      whole = fail(std::move(reply.error()));
      complete = false;
      continue;
    }
    whole->size += reply->size;
    std::move(reply->data.begin(), reply->data.end(), std::back_inserter(whole->data));
    complete = reply->size == part.size;
  }
  co_return whole;
}

TimePoint CachingFilesystem::oldest_believed(const NodeRef& node) const {
  const CachedNode& n = cached_node(node);
  std::lock_guard lock(n.mutex);
  return promised(n) ? TimePoint::min() : Clock::now() - options_.acregmax;
}

Task<Result<ReadReply>> CachingFilesystem::read_kept(OpenFileRef open, const IoAccount& account,
                                                     uint64_t offset, size_t size) {
  const NodeRef& node = cached_open(open).node;
  DataCache& data = table_.data();
  ReadReply whole;
  while (whole.size < size) {
    const uint64_t at = offset + whole.size;
    DataCache::Found found = data.find(*node.get(), at, size - whole.size, oldest_believed(node));
    for (Slice& slice : found.data) append(whole, {std::move(slice), {}, nullptr});
    if (found.end || whole.size == size) break;
    if (found.awaited) {
      co_await data.wait(*node.get(), offset + whole.size);
      continue;
    }
    if (at == offset && found.size == 0) cached_open(open).reads.missed(offset, size);
    auto rest = co_await read_range(open, account, offset + whole.size, found.missing);
    if (!rest || found.missing == size) co_return rest;
    whole.size += rest->size;
    std::move(rest->data.begin(), rest->data.end(), std::back_inserter(whole.data));
    if (rest->size < found.missing) break;
  }
  co_return whole;
}

Task<> CachingFilesystem::read_kept_part(OpenFileRef open, const IoAccount& account, ReadPart* part) {
  auto reply = co_await read_kept(std::move(open), account, part->offset, part->size);
  part->done.set(std::move(reply));
}

Task<Result<ReadReply>> CachingFilesystem::read_and_ahead(OpenFileRef open, const IoAccount& account,
                                                          uint64_t offset, size_t size) {
  if (!cached_open(open).reads.foretells() || ahead_window(cached_open(open)) == 0)
    co_return co_await read_kept(std::move(open), account, offset, size);
  // What was asked for is sent first.
  ReadPart part(offset, size);
  Loop::current()->spawn(read_kept_part(open, account, &part));
  read_ahead(open, account);
  co_return co_await part.done.wait();
}

Task<Result<ReadReply>> CachingFilesystem::read(RequestContext ctx, OpenFileRef open, uint64_t offset,
                                                size_t size) {
  CachedOpen& handle = cached_open(open);
  if ((handle.access & CachedOpen::kRead) == 0) co_return fail(system_error(EBADF, "READ"));
  const IoAccount account = handle.account(ctx);
  NFSRDMA_CO_TRY(usable(handle, account));
  if (size == 0) co_return ReadReply{};
  if (handle.unread.load(std::memory_order_relaxed) && handle.unread.exchange(false)) opened_unread_ = 0;
  std::optional<ReadHistory::Turn> turn;
  if (!ctx.direct && keeps_data()) turn.emplace(handle.reads, offset, size);
  for (;;) {
    co_await settle(handle.node, handle.cached, offset, offset + size);
    const uint64_t before = epoch();
    co_await restore_lost_writes(handle.node, handle.cached);
    uint64_t end_on_its_way = 0;
    {
      std::lock_guard lock(cached_node(handle.node).mutex);
      end_on_its_way = handle.cached->writes.unanswered_end();
    }
    Result<ReadReply> reply = fail(Error{});
    if (turn) {
      note_server_epoch(before);
      reply = co_await read_and_ahead(open, account, offset, size);
    } else {
      reply = co_await read_range(open, account, offset, size);
    }
    // The end may lie further out, in data that is on its way, or was when this was asked for: then it was a
    // hole, or the READ has overtaken the WRITE.
    if (reply && reply->size < size) {
      const bool settled = co_await settle_beyond(handle.node, handle.cached, offset + reply->size);
      if (settled || end_on_its_way > offset + reply->size) continue;
    }
    // A server that restarted meanwhile may have answered without what it lost and has not got again yet.
    if (epoch() == before) co_return reply;
  }
}

Task<Result<>> CachingFilesystem::write(RequestContext ctx, OpenFileRef open, uint64_t offset, Slice data) {
  if (ctx.append) return write_at_end(std::move(ctx), std::move(open), offset, std::move(data));
  return write_at(std::move(ctx), std::move(open), offset, std::move(data));
}

Task<Result<>> CachingFilesystem::write_at(RequestContext ctx, OpenFileRef open, uint64_t offset,
                                           Slice data) {
  CachedOpen& handle = cached_open(open);
  const NodeRef node = handle.node;
  const CachedFileRef file = handle.cached;
  if (data.bytes.empty()) co_return Result<>{};
  if ((handle.access & CachedOpen::kWrite) == 0) co_return fail(system_error(EBADF, "WRITE"));
  const uint64_t most = offset < kLeastFileLimit ? INT64_MAX : limits_of(node).file_max;
  if (offset > most - data.size()) co_return fail(system_error(EFBIG, "WRITE"));
  // In front of everything else: what waits has no place in the file yet, and is dropped if nobody waits for
  // it any more. An append has waited before it asked for its place; not its parts (fs_append.cc).
  if ((!ctx.append || ctx.direct) && !has_room())
    NFSRDMA_CO_TRY(co_await wait_for_room(node, file, ctx.cancellation, data.size()));
  const IoAccount account = handle.account(ctx);
  NFSRDMA_CO_TRY(usable(handle, account));
  bool through = handle.synchronous || ctx.direct;
  {
    std::lock_guard lock(cached_node(node).mutex);
    if ((offset | data.size()) % DataCache::kPageBytes != 0) cached_node(node).contents.partly = true;
    // After an error the application is told at once, until it has seen the first one.
    through = through || file->writes.errors() != handle.errors_seen;
  }
  const uint64_t end = offset + data.size();
  Result<> written;
  if (through) {
    written = co_await write_through(open, account, offset, std::move(data));
  } else {
    if (!gather(node, file, account, offset, data))
      co_await send_pieces(open, account, offset, std::move(data));
    commit_large(node, file);
  }
  if (written && !ctx.append) {
    std::lock_guard lock(cached_node(node).mutex);
    note_kernel_end(cached_node(node), end);
  }
  co_return written;
}

Task<Result<>> CachingFilesystem::write_through(OpenFileRef open, IoAccount account, uint64_t offset,
                                                Slice data) {
  CachedOpen& handle = cached_open(open);
  const NodeRef node = handle.node;
  const CachedFileRef file = handle.cached;
  // It waits for every earlier write of these bytes, also for one whose program stopped waiting.
  WriteExtent extent;
  extent.offset = offset;
  extent.data = data;
  extent.account = account;
  WritePlace place(file, offset, offset + data.size());
  auto entering = enter(node, place, std::move(extent));
  const FileWrites::Extent entered = co_await std::move(entering);
  place.leave();
  Result<> written = co_await write_stably(node, file, std::move(account), offset, std::move(data));
  if (!written) invalidate_data(node);
  // The caller reports an error, no later fsync(2). Either way the extent is done.
  extent_answered(node, file, entered, 0, Written{nfs4::FILE_SYNC4, {}});
  co_return written;
}

// What WRITEs of one piece of data come to together; false: two verifiers, of which what is stable has none.
bool CachingFilesystem::join(std::optional<Written>& all, const Written& one) {
  const bool unstable = all && all->committed != nfs4::FILE_SYNC4 && one.committed != nfs4::FILE_SYNC4;
  const bool one_server = !unstable || all->verifier == one.verifier;
  if (!all || one.committed < all->committed) all = one;
  return one_server;
}

Task<> CachingFilesystem::write_part(NodeRef node, CachedFileRef file, const IoAccount& account,
                                     WritePart* part) {
  auto written = co_await write_on_server(node, file, account, part->offset, part->data, nfs4::UNSTABLE4);
  part->done.set(std::move(written));
}

Task<Result<std::optional<CachingFilesystem::Written>>> CachingFilesystem::write_in_parts(
    NodeRef node, CachedFileRef file, const IoAccount& account, uint64_t offset, Slice data) {
  const size_t part_size = limits_of(node).wsize;
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
    auto written = co_await part.done.wait();  // all of them: they are on this stack
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

// One WRITE brings its data to stable storage itself. Several of them would do so one by one: they are
// committed together.
Task<Result<>> CachingFilesystem::write_stably(NodeRef node, CachedFileRef file, IoAccount account,
                                               uint64_t offset, Slice data) {
  for (int turn = 0; turn < kMostTurns; ++turn) {
    std::optional<Written> written;
    if (data.size() > limits_of(node).wsize) {
      auto parts = co_await write_in_parts(node, file, account, offset, data);
      if (!parts) {
        // What the others have brought has taken the place of what a later fsync would have committed.
        (void)co_await commit_on_server(node, account.credential, offset, offset + data.size());
        co_return fail(std::move(parts.error()));
      }
      if (!*parts) continue;
      written = **parts;
    } else {
      auto whole = co_await write_on_server(node, file, account, offset, data, nfs4::FILE_SYNC4);
      if (!whole) co_return fail(std::move(whole.error()));
      written = *whole;
    }
    if (written->committed == nfs4::FILE_SYNC4) co_return Result<>{};
    auto committed = co_await commit_on_server(node, account.credential, offset, offset + data.size());
    if (!committed) co_return fail(std::move(committed.error()));
    if (*committed == written->verifier) co_return Result<>{};
  }
  co_return fail(system_error(EIO, "WRITE", "the server's write verifier is another one each time"));
}

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
#include "client/core/reader.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <iterator>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {
namespace {

// A larger read is sent as several READs at once: the server processes the second one while the first reply
// is on the network. nfs-ganesha 4.3 uses 1.6 times the CPU per byte for READs of 1 MiB (2026-11-20,
// loopback).
constexpr size_t kPartBytes = 512u << 10;

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

// Attempts to get a buffer, while memory_refused() commits and drops data.
constexpr int kTriesForMemory = 100;

}  // namespace

Task<Result<ReadReply>> Reader::read_one_by_one(OpenFileRef open, const IoAccount& account, uint64_t offset,
                                                size_t size) {
  ReadReply reply;
  Slice room;
  while (reply.size < size) {
    // After a short READ, the next READ uses the rest of the buffer.
    if (room.bytes.empty()) room = buffers_.slice(size - reply.size);
    for (int tries = 0; !room.buffer && tries < kTriesForMemory; ++tries) {
      write_back_.memory_refused();
      co_await Loop::current()->sleep(std::chrono::milliseconds(20));
      room = buffers_.slice(size - reply.size);
    }
    if (!room.buffer) co_return fail(system_error(ENOMEM, "READ"));
    const ReadPace::Sent sent = ahead_.pace().sending(Clock::now());
    auto piece = co_await protocol_.read_piece(open, account, offset + reply.size, room, ReadFor::kAnswering);
    // Do not return the data before the error: the kernel would take a short reply for the end of the file.
    if (!piece) co_return fail(attributes_.gone(cached_open(open).node, std::move(piece.error())));
    const size_t got = piece->data.size();
    ahead_.pace().answered(sent, got, Clock::now());
    if (got != 0) append(reply, std::move(piece->data));
    room.bytes = room.bytes.subspan(got);
    // Section 18.22.4: a short READ without eof is legal; the next READ asks for the rest.
    if (piece->eof) break;
  }
  co_return reply;
}

Task<> Reader::read_part(OpenFileRef open, const IoAccount& account, ReadPart* part) {
  auto reply = co_await read_one_by_one(std::move(open), account, part->offset, part->size);
  part->done.set(std::move(reply));
}

Task<Result<ReadReply>> Reader::read_range(OpenFileRef open, const IoAccount& account, uint64_t offset,
                                           size_t size) {
  const size_t part_size = std::min<size_t>(kPartBytes, protocol_.limits_of(cached_open(open).node).rsize);
  if (size <= part_size) return read_one_by_one(std::move(open), account, offset, size);
  return read_in_parts(std::move(open), account, offset, size, part_size);
}

Task<Result<ReadReply>> Reader::read_in_parts(OpenFileRef open, const IoAccount& account, uint64_t offset,
                                              size_t size, size_t part_size) {
  std::deque<ReadPart> parts;
  unsigned connection = Loop::current()->index();  // the first part goes over our own
  for (size_t at = 0; at < size; at += part_size) {
    ReadPart& part = parts.emplace_back(offset + at, std::min(size - at, part_size));
    loops_[connection++ % loops_.size()].spawn(read_part(open, account, &part));
  }
  Result<ReadReply> whole = ReadReply{};
  bool complete = true;
  for (ReadPart& part : parts) {
    auto reply = co_await part.done.wait();  // for every part, also after an error: they are in this frame
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

TimePoint Reader::oldest_believed(const CachedNode& n) const {
  return attributes_.promised(n) ? TimePoint::min() : Clock::now() - options_.acregmax;
}

TimePoint Reader::oldest_believed_now(const CachedNode& n) const {
  MutexLock lock(n.mutex);
  return oldest_believed(n);
}

std::optional<Reader::Beginning> Reader::begin(CachedFile& file, uint64_t offset, uint64_t end,
                                               uint64_t epoch) {
  MutexLock lock(file.cached.mutex);
  if (!file.writes.readable(offset, end, epoch)) return std::nullopt;
  return Beginning{file.writes.unanswered_end(), oldest_believed(file.cached)};
}

Task<Result<ReadReply>> Reader::read_kept(OpenFileRef open, const IoAccount& account, uint64_t offset,
                                          size_t size, TimePoint oldest) {
  const NodeRef& node = cached_open(open).node;
  DataCache& data = table_.data();
  ReadReply whole;
  while (whole.size < size) {
    const uint64_t at = offset + whole.size;
    DataCache::Found found = data.find(*node.get(), at, size - whole.size, oldest);
    for (Slice& slice : found.data) append(whole, {std::move(slice), {}, nullptr});
    if (found.end || whole.size == size) break;
    if (found.awaited) {
      co_await data.wait(*node.get(), offset + whole.size);
      oldest = oldest_believed_now(cached_node(node));
      continue;
    }
    if (at == offset && found.size == 0) cached_open(open).reads.missed(offset, size);
    auto rest = co_await read_range(open, account, offset + whole.size, found.missing);
    if (!rest || found.missing == size) co_return rest;
    whole.size += rest->size;
    std::move(rest->data.begin(), rest->data.end(), std::back_inserter(whole.data));
    if (rest->size < found.missing) break;
    oldest = oldest_believed_now(cached_node(node));
  }
  co_return whole;
}

Task<> Reader::read_kept_part(OpenFileRef open, const IoAccount& account, ReadPart* part, TimePoint oldest) {
  auto reply = co_await read_kept(std::move(open), account, part->offset, part->size, oldest);
  part->done.set(std::move(reply));
}

Task<Result<ReadReply>> Reader::read_cached(OpenFileRef open, const IoAccount& account, uint64_t offset,
                                            size_t size, TimePoint oldest) {
  const CachedOpen& handle = cached_open(open);
  if (!handle.reads.foretells() || ahead_.ahead_window(handle) == 0)
    return read_kept(std::move(open), account, offset, size, oldest);
  return read_and_ahead(std::move(open), account, offset, size, oldest);
}

Task<Result<ReadReply>> Reader::read_and_ahead(OpenFileRef open, const IoAccount& account, uint64_t offset,
                                               size_t size, TimePoint oldest) {
  // The application's READ is sent before the read-ahead.
  ReadPart part(offset, size);
  Loop::current()->spawn(read_kept_part(open, account, &part, oldest));
  ahead_.read_ahead(open, account);
  co_return co_await part.done.wait();
}

Task<Result<ReadReply>> Reader::read(RequestContext ctx, OpenFileRef open, uint64_t offset, size_t size) {
  CachedOpen& handle = cached_open(open);
  if ((handle.access & CachedOpen::kRead) == 0) co_return fail(system_error(EBADF, "READ"));
  const IoAccount account = handle.account(ctx);
  NFSRDMA_CO_TRY(protocol_.usable(handle, account));
  if (size == 0) co_return ReadReply{};
  ahead_.note_read(handle);
  std::optional<ReadHistory::UnderWay> under_way;
  if (!ctx.direct && kept_.keeps_data()) under_way.emplace(handle.reads, offset, size);
  for (;;) {
    const uint64_t before = protocol_.epoch();
    const std::optional<Beginning> beginning = begin(*handle.cached, offset, offset + size, before);
    if (!beginning) {
      co_await write_back_.settle(handle.node, handle.cached, offset, offset + size);
      co_await write_back_.restore_lost_writes(handle.node, handle.cached);
      continue;
    }
    if (under_way) kept_.note_server_epoch(before);
    auto reading = under_way ? read_cached(open, account, offset, size, beginning->oldest)
                             : read_range(open, account, offset, size);
    Result<ReadReply> reply = co_await std::move(reading);
    // The reply ended early, but the file may be longer: a WRITE behind that place is in progress. Or it was
    // in progress when the READ was sent, and the server executed the READ first. Then read again.
    if (reply && reply->size < size) {
      const bool settled =
          co_await write_back_.settle_beyond(handle.node, handle.cached, offset + reply->size);
      if (settled || beginning->unanswered_end > offset + reply->size) continue;
    }
    // If the server restarted meanwhile, the data may lack UNSTABLE4 writes that it lost. Then read again.
    if (protocol_.epoch() == before) co_return reply;
  }
}

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// Read-ahead, and reads answered from the cached data (read_ahead.h, read_pace.h, data_cache.h).
//
// Cached data belongs to one version of the file. A READ whose data will be cached is followed by a GETATTR
// of the change attribute in its COMPOUND. If the value equals the one known before the READ was sent,
// nothing changed the file in between, and the data belongs to the version of the kernel's pages
// (ContentState::change). Every event that makes those pages old also drops the file's cached data (record(),
// invalidate_data(), a lock after which the file has changed). Our own writes remove the data that they
// overlap before they are answered (note_written()). A server restart drops all cached data. Data that was
// not confirmed for acregmax is not used.
//
// Application reads have priority. Read-ahead leaves half of the slots free, and over RDMA half of the
// credits. No read-ahead is queued: each time there is room the next range is computed anew, so a seek
// cancels the rest.
#include "client/core/read_ahead_service.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "client/core/attribute_service.h"
#include "client/core/read/keep_decision.h"
#include "client/core/read/read_ahead.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {
namespace {

constexpr size_t kSmallestPiece = 64u << 10;

constexpr size_t kLargestPiece = 512u << 10;

// Small files up to this size are read with their OPEN.
constexpr uint64_t kSmallFileBytes = 64u << 10;

constexpr unsigned kOpenedUnread = 32, kTriedAgain = 16;

// READs per window, so that the server processes one while another is on the network.
constexpr uint64_t kPiecesOfWindow = 4;

}  // namespace

uint64_t ReadAheadService::ahead_window(const CachedOpen& handle) {
  // Read-ahead data must not be evicted before it is read: neither for other descriptors' read-ahead, of this
  // file or others, nor because it exceeds the file's share.
  const TimePoint now = Clock::now();
  const DataCache& data = table_.data();
  const uint64_t part = data.limit() / 2 / ahead_readers_.count_with(&handle, now);
  const uint64_t most = std::min({options_.read_ahead_bytes, part, data.share()});
  if (!options_.read_ahead_measured || most == 0) return most;
  return std::min(most, pace_.window(now));
}

void ReadAheadService::read_ahead(const OpenFileRef& open, const IoAccount& account) {
  CachedOpen& handle = cached_open(open);
  if (stopping_ || !handle.reads.foretells()) return;
  const uint64_t window = ahead_window(handle);
  if (window == 0) return;
  const size_t largest =
      std::min<size_t>(kLargestPiece, std::bit_floor(protocol_.limits_of(handle.node).rsize));
  const size_t piece = std::clamp<size_t>(std::bit_floor(window / kPiecesOfWindow),
                                          std::min(kSmallestPiece, largest), largest);
  const uint64_t end = AttributeService::known_attributes(handle.node).size;
  ReadRange rest;
  for (;;) {
    std::optional<unsigned> loop;
    {
      MutexLock lock(ahead_mutex_);
      if (!handle.ahead_over) loop = loop_for_ahead();
    }
    if (!loop) break;
    if (rest.size == 0) rest = handle.reads.next(window, piece, end).value_or(ReadRange{});
    if (rest.size == 0 || !send_ahead(open, account, rest, *loop)) break;
  }
  if (rest.size != 0) handle.reads.put_back(rest);
}

std::optional<unsigned> ReadAheadService::loop_for_ahead() const {
  if (!protocol_.may_read_ahead(ahead_under_way_)) return std::nullopt;
  const auto loops = static_cast<unsigned>(ahead_on_.size());
  for (unsigned i = 0; i < loops; ++i) {
    const unsigned loop = (ahead_next_ + i) % loops;
    if (ahead_on_[loop] < protocol_.most_ahead_on(loop)) return loop;
  }
  return std::nullopt;
}

bool ReadAheadService::send_ahead(const OpenFileRef& open, const IoAccount& account, ReadRange& range,
                                  unsigned loop) {
  CachedOpen& handle = cached_open(open);
  CachedNode& n = cached_node(handle.node);
  Ahead ahead;
  ahead.loop = loop;
  ahead.epoch = protocol_.epoch();
  {
    MutexLock lock(n.mutex);
    // While we write the file, each of our WRITEs changes it under the READ.
    if (!n.contents.known || n.kernel.dropping() || handle.cached->writing()) return false;
    if (handle.outdated_change == n.contents.change) return false;
    ahead.change = n.contents.change;
    auto fill = table_.data().begin(n, range.offset, range.size, buffers_);
    if (!fill) {
      if (!table_.data().covers(n, range.offset, range.size)) return false;  // there is no room
      range = {};
      return true;
    }
    ahead.fill = std::move(*fill);
  }
  const uint64_t sent_to = ahead.fill.offset + ahead.fill.room.size();
  {
    MutexLock lock(ahead_mutex_);
    if (handle.ahead_over) {
      lock.unlock();
      table_.data().abandon(ahead.fill);
      return false;
    }
    ++handle.ahead_under_way;
    ++ahead_under_way_;
    ++ahead_on_[loop];
    ahead_next_ = loop + 1;
  }
  ahead_readers_.sent(&handle, Clock::now());
  loops_[loop].spawn(fetch_ahead(open, account, std::move(ahead)));
  range = {sent_to, range.offset + range.size - sent_to};
  return true;
}

Task<> ReadAheadService::fetch_ahead(OpenFileRef open, IoAccount account, Ahead ahead) {
  CachedOpen& handle = cached_open(open);
  const ReadPace::Sent sent = pace_.sending(Clock::now());
  auto piece =
      co_await protocol_.read_piece(open, account, ahead.fill.offset, ahead.fill.room, ReadFor::kKeeping);
  if (piece) pace_.answered(sent, piece->data.size(), Clock::now());
  finish_ahead(handle, ahead, piece);
  ahead.fill.room = {};
  const bool more = piece.has_value();
  piece = fail(Error{});
  {
    MutexLock lock(ahead_mutex_);
    --ahead_under_way_;
    --ahead_on_[ahead.loop];
    if (--handle.ahead_under_way == 0) ahead_ended_.notify_all();
  }
  if (more) read_ahead(open, account);
}

void ReadAheadService::finish_ahead(CachedOpen& handle, const Ahead& ahead, const Result<ReadPiece>& piece) {
  CachedNode& n = cached_node(handle.node);
  DataCache& data = table_.data();
  const size_t bytes = piece ? piece->data.size() : 0;
  MutexLock lock(n.mutex);
  switch (keep({.answered = piece.has_value(),
                .pages_are_of = n.pages_are_of(ahead.change),
                .same_change = piece && piece->change == ahead.change,
                .same_epoch = protocol_.epoch() == ahead.epoch,
                .writing = handle.cached->writing()})) {
    case Keep::kKeep: data.complete(ahead.fill, bytes, piece->eof, Clock::now()); break;
    case Keep::kForget: data.abandon(ahead.fill, bytes); break;
    case Keep::kFileChanged:
      data.abandon(ahead.fill, bytes);
      data.drop(n);
      handle.outdated_change = ahead.change;
      n.attributes.expire(table_.next_start());
  }
}

size_t ReadAheadService::worth_reading_with_open(const NodeRef& node, int flags) {
  if (CachedOpen::access_of(flags) != CachedOpen::kRead || (flags & O_DIRECT) != 0 || !kept_.keeps_data())
    return 0;
  const CachedNode& n = cached_node(node);
  uint64_t size = 0;
  {
    MutexLock lock(n.mutex);
    const Attributes& a = n.attributes.get();
    const CachedFileRef file = n.cached_file();
    if (!S_ISREG(a.mode) || (file && file->unsaved())) return 0;
    // The kernel's pages are still valid, so it will probably not read.
    if (n.contents.are_of(a.change) && !n.contents.partly) return 0;
    size = a.size;
  }
  if (size == 0 || size > kSmallFileBytes || size > table_.data().limit()) return 0;
  // If the data of the last kOpenedUnread or more OPENs that had a READ was never read, leave the READ out of
  // this OPEN's COMPOUND. Every kTriedAgain-th such OPEN still has one, to find out whether that has changed.
  if (opened_unread_ >= kOpenedUnread && ++opened_plain_ % kTriedAgain != 0) return 0;
  return size;
}

void ReadAheadService::keep_read_with_open(CachedOpen& handle, const ReadPiece& piece, uint64_t change,
                                           uint64_t epoch_before, uint32_t touched_before) {
  CachedNode& n = cached_node(handle.node);
  kept_.note_server_epoch(epoch_before);
  MutexLock lock(n.mutex);
  if (!n.pages_are_of(change) || piece.change != change || handle.cached->writing() ||
      protocol_.epoch() != epoch_before || n.data_touched != touched_before)
    return;
  // The file is empty: older cached data is invalid, whatever the change attribute says.
  if (piece.data.size() == 0) return table_.data().drop(n);
  const auto fill = table_.data().begin(n, 0, piece.data.slice);
  if (!fill || !table_.data().complete(*fill, piece.data.size(), piece.eof, Clock::now())) return;
  n.contents.partly = false;
  handle.unread = true;
  ++opened_unread_;
}

Task<> ReadAheadService::end_read_ahead(OpenFileRef open) {
  CachedOpen& handle = cached_open(open);
  for (;;) {
    MutexLock lock(ahead_mutex_);
    handle.ahead_over = true;
    if (handle.ahead_under_way == 0) break;
    co_await ahead_ended_.wait(lock);
  }
  ahead_readers_.closed(&handle);
}

Task<> ReadAheadService::end_all_read_ahead() {
  for (;;) {
    MutexLock lock(ahead_mutex_);
    if (ahead_under_way_ == 0) co_return;
    co_await ahead_ended_.wait(lock);
  }
}

}  // namespace nfsrdma::client

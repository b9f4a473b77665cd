// SPDX-License-Identifier: Apache-2.0
// Write-back: joined writes, WRITE UNSTABLE4, COMMIT, verifiers, errors (RFC 8881 sections 18.3, 18.32; RFC
// 1813 sections 3.3.7, 3.3.21).
//
// write(2) returns when its data is in memory here. FileWrites (file_writes.h) decides what is sent and when,
// and keeps the data until it is on stable storage; the functions here send the requests.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "client/cache/caching_filesystem.h"
#include "transport/runtime/log.h"
#include "transport/runtime/suspension.h"

namespace nfsrdma::client {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHoldFor = 500ms;
// The write limit of a container that has less memory than WriteLimits::kLeast.
constexpr uint64_t kLeastOfSmall = 4u << 20;
// Memory counts as short for so long after it was refused.
constexpr Duration kMemoryShortFor = 2s;
// COMMITs of one fsync(2) that each find another write verifier.
constexpr int kMaxCommits = 16;

}  // namespace

void CachingFilesystem::note_refused(CachedFile& file, uint64_t bytes, const char* verb) {
  const Error& error = file.writes.latest_error();
  refused_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (error.errnum == ENOSPC || error.errnum == EDQUOT) room_errors_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t ino = file.cached.attributes.get().ino;
  log::warn("server {}: data of {} could not be {}: {}; the next fsync or close reports it{}", options_.host,
            called(file.cached, ino), verb, describe(error), how_to_find(file.cached, ino));
}

std::string CachingFilesystem::called(Node& node, uint64_t ino) const {
  const auto found = log::on(log::Level::kDebug) ? table_.names().name_of(node) : std::nullopt;
  return found ? fmt::format("\"{}\" (inode {})", found->name, ino) : fmt::format("inode {}", ino);
}

std::string CachingFilesystem::how_to_find(Node& node, uint64_t ino) const {
  if (log::on(log::Level::kDebug) && table_.names().name_of(node)) return {};
  return fmt::format("; which file: run 'find -inum {}' in the mount", ino);
}

void CachingFilesystem::note_written(CachedFile& file, uint64_t offset, uint64_t end) {
  ++file.cached.data_touched;
  table_.data().punch(file.cached, offset, end);
}

Task<> CachingFilesystem::write_extent(NodeRef node, CachedFileRef file, FileWrites::Extent extent,
                                       nfs4::stable_how4 stable) {
  const WriteExtent& e = extent->second;
  const uint64_t sent_in = epoch();  // the server may have restarted when the reply is booked
  auto written = co_await write_on_server(node, file, e.account, e.offset, e.data, stable);
  extent_answered(node, file, extent, sent_in, std::move(written));
}

void CachingFilesystem::send(const NodeRef& node, const CachedFileRef& file,
                             const FileWrites::Sends& extents) {
  for (const FileWrites::Extent extent : extents)
    Loop::current()->spawn(write_extent(node, file, extent, nfs4::UNSTABLE4));
}

void CachingFilesystem::extent_answered(const NodeRef& node, const CachedFileRef& file,
                                        FileWrites::Extent extent, uint64_t sent_in,
                                        Result<Written> written) {
  if (!written) invalidate_data(node);  // data that the server refused must not be read
  FileWrites::Answered answered;
  bool others_changed = false;
  {
    LockedWrites writes = locked_writes(file);
    answered = writes->answered(extent, std::move(written), sent_in, Clock::now());
    if (answered.refused) note_refused(*file, *answered.refused, "written");
    others_changed = others_changed_too(*file);
  }
  send(node, file, answered.send);
  if (others_changed) Loop::current()->spawn(kernel_.drop_counted(node));
}

bool CachingFilesystem::gather(const NodeRef& node, const CachedFileRef& file, const IoAccount& account,
                               uint64_t offset, const Slice& data) {
  const uint32_t wsize = limits_of(node).wsize;
  if (data.size() >= wsize) return false;
  const FileWrites::NewData arrived{account, offset, data, wsize};
  BufferRef larger;
  for (bool memory = true; memory;) {
    FileWrites::Joined join;
    {
      LockedWrites writes = locked_writes(file);
      join = writes->join(arrived, std::move(larger));
      if (join.result == FileWrites::Joined::Result::kJoined) note_written(*file, offset, arrived.end());
    }
    send(node, file, join.send);
    if (join.result == FileWrites::Joined::Result::kJoined) return true;
    if (join.result == FileWrites::Joined::Result::kApart) break;
    larger = buffers_.get(join.room);
    memory = static_cast<bool>(larger);
  }
  FileWrites::Held hold;
  {
    LockedWrites writes = locked_writes(file);
    hold = writes->hold(arrived, Clock::now());
    if (hold.held) note_written(*file, offset, arrived.end());
  }
  send(node, file, hold.send);
  return hold.held;
}

Task<> CachingFilesystem::send_pieces(OpenFileRef open, IoAccount account, uint64_t offset, Slice data) {
  const CachedOpen& handle = cached_open(open);
  const uint32_t wsize = limits_of(handle.node).wsize;
  WritePlace place(handle.cached, offset, offset + data.size());
  for (size_t at = 0; at < data.size();) {
    const size_t size = std::min<size_t>(data.size() - at, wsize);
    WriteExtent extent;
    extent.offset = offset + at;
    extent.data = data.subslice(at, size);
    extent.account = account;
    auto entering = enter(handle.node, place, std::move(extent));
    const FileWrites::Extent entered = co_await std::move(entering);
    Loop::current()->spawn(write_extent(handle.node, handle.cached, entered, nfs4::UNSTABLE4));
    at += size;
  }
}

Task<FileWrites::Extent> CachingFilesystem::enter(NodeRef node, WritePlace& place, WriteExtent extent) {
  const CachedFileRef& file = place.file();
  const uint64_t offset = extent.offset, end = extent.end();
  for (;;) {
    LockedWrites writes = locked_writes(file);
    const FileWrites::Admission admission = writes->admit(place.get(), extent);
    if (admission.gate == FileWrites::Gate::kOpen) {
      note_written(*file, offset, end);
      co_return admission.extent;
    }
    if (admission.gate == FileWrites::Gate::kWait) {
      co_await writes.changed();
      continue;
    }
    writes.unlock();
    send(node, file, admission.send);
  }
}

uint64_t CachingFilesystem::send_held(const NodeRef& node, const CachedFileRef& file) {
  LockedWrites writes = locked_writes(file);
  const uint64_t next = writes->next_serial();
  const FileWrites::Sends extents = writes->take_held();
  writes.unlock();
  send(node, file, extents);
  return next;
}

Task<> CachingFilesystem::settle(NodeRef node, CachedFileRef file, uint64_t offset, uint64_t end) {
  for (;;) {
    LockedWrites writes = locked_writes(file);
    const FileWrites::Clearance clearance = writes->clearance(offset, end);
    if (clearance.gate == FileWrites::Gate::kOpen) co_return;
    if (clearance.gate == FileWrites::Gate::kWait) {
      co_await writes.changed();
      continue;
    }
    writes.unlock();
    send(node, file, clearance.send);
  }
}

Task<> CachingFilesystem::settle_all(NodeRef node, CachedFileRef file) {
  const uint64_t next = send_held(node, file);  // data that is written later need not be waited for
  for (;;) {
    LockedWrites writes = locked_writes(file);
    if (writes->answered_before(next)) co_return;
    co_await writes.changed();
  }
}

Task<bool> CachingFilesystem::settle_beyond(NodeRef node, CachedFileRef file, uint64_t offset) {
  {
    std::lock_guard lock(cached_node(node).mutex);
    if (file->writes.unanswered_end() <= offset) co_return false;
  }
  co_await settle_all(node, file);
  co_return true;
}

Task<> CachingFilesystem::settle_node(NodeRef node) {
  CachedFileRef file;
  std::optional<FileWrites::Extent> whole;
  {
    std::lock_guard lock(cached_node(node).mutex);
    file = cached_node(node).cached_file();
    if (!file || !file->writing()) co_return;
    // git and tar ask for or set attributes between the last write and close: that write is most often the
    // whole file, and a WRITE to stable storage saves its COMMIT.
    whole = file->writes.take_whole_file();
  }
  if (whole) Loop::current()->spawn(write_extent(node, file, *whole, nfs4::FILE_SYNC4));
  co_await settle_all(node, file);
}

uint64_t CachingFilesystem::bytes_beside_data() const {
  const uint64_t all = buffers_.outstanding_bytes();
  return all - std::min(all, table_.data().bytes());
}

WriteLimits CachingFilesystem::fit_writes(uint64_t available) {
  const uint64_t kept = bytes_beside_data() + buffers_.idle_bytes();
  WriteLimits limits = WriteLimits::fitting(available, kept);
  // The least that a machine may keep is more than a small container has.
  if (const uint64_t total = options_.memory().total; total != 0 && total / 4 < limits.buffers())
    limits = WriteLimits(std::clamp((available + kept) / 4, kLeastOfSmall, limits.buffers()));
  write_limit_.store(limits.buffers(), std::memory_order_relaxed);
  return limits;
}

WriteLimits CachingFilesystem::write_limits() {
  const uint64_t known = write_limit_.load(std::memory_order_relaxed);
  return known != 0 ? WriteLimits(known) : fit_writes(options_.memory().available);
}

bool CachingFilesystem::keeps_too_much_memory() {
  // Writes that wait for room do not count: there is one of each caller at most.
  const uint64_t waiting = waiting_bytes_.load(std::memory_order_relaxed);
  return bytes_beside_data() > write_limits().buffers() + waiting;
}

bool CachingFilesystem::awaits_answers() {
  return written_.unanswered.load(std::memory_order_relaxed) > write_limits().unanswered() ||
         keeps_too_much_memory() || memory_is_short();
}

bool CachingFilesystem::keeps_too_much() {
  const uint64_t uncommitted = written_.uncommitted.load(std::memory_order_relaxed);
  return uncommitted > write_limits().uncommitted() ||
         (uncommitted != 0 && (keeps_too_much_memory() || memory_is_short()));
}

bool CachingFilesystem::memory_is_short() const {
  const int64_t until = short_until_.load(std::memory_order_relaxed);
  return until != 0 && Clock::now().time_since_epoch().count() < until;
}

// RLIMIT_AS or a control group's limit refuses memory although the machine has some. Uncommitted data keeps
// its buffers until a COMMIT, and no program can write on to cause one.
void CachingFilesystem::memory_refused() {
  const TimePoint until = Clock::now() + kMemoryShortFor;
  if (short_until_.exchange(until.time_since_epoch().count()) == 0) {
    log::warn(
        "server {}: no memory for requests (see 'ulimit -v' and the control group's limit); committing {} "
        "KiB of written data, dropping {} KiB of read data",
        options_.host, (written_.unanswered + written_.uncommitted) / 1024, table_.data().bytes() / 1024);
  }
  if (!stopping_ && !freeing_.exchange(true)) Loop::current()->spawn(free_memory());
}

Task<> CachingFilesystem::free_memory() {
  table_.data().drop_all();
  for (const NodeRef& node : files_in_use()) {
    CachedFileRef file;
    {
      std::lock_guard lock(cached_node(node).mutex);
      file = cached_node(node).cached_file();
    }
    if (!file) continue;
    send_held(node, file);
    commit_soon(node, file, [&] { return file->writes.uncommitted(); });
  }
  buffers_.trim(0, 0);
  co_await Loop::current()->sleep(10ms);
  freeing_ = false;
}

void CachingFilesystem::note_memory_is_back() {
  int64_t until = short_until_.load();
  if (until == 0 || memory_is_short()) return;
  if (short_until_.compare_exchange_strong(until, 0))
    log::info("server {}: there is memory for requests again", options_.host);
}

void CachingFilesystem::make_room(const NodeRef& node, const CachedFileRef& file) {
  if (awaits_answers()) send_held(node, file);
  if (!keeps_too_much()) return;
  commit_everything_soon();
  commit_soon(node, file, [&] { return file->writes.uncommitted(); });
}

// Waits for replies to requests of this file only: the server of another file may be silent, or its COMMIT
// may take long. So one write of each file may be beyond the limit, and no write waits for ever.
Task<Result<>> CachingFilesystem::wait_for_room(NodeRef node, CachedFileRef file,
                                                std::shared_ptr<Cancellation> caller, size_t bytes) {
  const auto gone = [&caller] { return caller && caller->cancelled(); };
  waiting_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (caller) {
    caller->on_cancel([node, file] {
      std::lock_guard lock(cached_node(node).mutex);
      file->writes.changed().notify_all();
    });
  }
  for (;;) {
    make_room(node, file);
    LockedWrites writes = locked_writes(file);
    const bool answers = writes->writing() && awaits_answers();
    const bool commit = writes->uncommitted() && keeps_too_much();
    if (gone() || (!answers && !commit)) break;
    // Never wait for a request that was not sent: nothing would wake this write.
    if ((answers && writes->holding()) || (commit && !writes->background_commit())) continue;
    co_await writes.changed();
  }
  if (caller) caller->on_cancel(nullptr);
  waiting_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (gone()) co_return fail(system_error(EINTR, "WRITE"));
  co_return Result<>{};
}

void CachingFilesystem::commit_large(const NodeRef& node, const CachedFileRef& file) {
  commit_soon(node, file, [&] { return file->writes.unstable_bytes() > write_limits().commit_at(); });
}

template <class Due>
void CachingFilesystem::commit_soon(const NodeRef& node, const CachedFileRef& file, const Due& due) {
  {
    std::lock_guard lock(cached_node(node).mutex);
    if (file->writes.background_commit() || !due() || !file->writes.begin_background_commit()) return;
  }
  Loop::current()->spawn(commit_in_background(node, file));
}

void CachingFilesystem::commit_old() {
  const TimePoint now = Clock::now(), old = now - options_.uncommitted_for;
  if (now < look_for_old_at_) return;
  look_for_old_at_ = now + options_.uncommitted_for / 6;
  for (const NodeRef& node : files_in_use()) {
    CachedFileRef file;
    {
      std::lock_guard lock(cached_node(node).mutex);
      file = cached_node(node).cached_file();
    }
    if (file) commit_soon(node, file, [&] { return file->writes.unstable_since(old); });
  }
}

void CachingFilesystem::commit_everything_soon() {
  if (!committing_everything_.exchange(true)) Loop::current()->spawn(commit_everything());
}

// One file after the other, until the mount keeps less than its limit.
Task<> CachingFilesystem::commit_everything() {
  for (const NodeRef& node : files_in_use()) {
    if (!keeps_too_much()) break;
    CachedFileRef file;
    {
      std::lock_guard lock(cached_node(node).mutex);
      file = cached_node(node).cached_file();
    }
    if (file) co_await commit(node, file);
  }
  committing_everything_ = false;
}

Task<> CachingFilesystem::commit_in_background(NodeRef node, CachedFileRef file) {
  co_await commit(node, file);
  std::lock_guard lock(cached_node(node).mutex);
  file->writes.end_background_commit();
}

Task<> CachingFilesystem::commit(NodeRef node, CachedFileRef file) {
  auto guard = co_await file->commit_mutex.lock();
  // Lost data is written again as FILE_SYNC4, so a second attempt is needed only if the server answers that
  // with less.
  for (int attempt = 0; attempt < kMaxCommits; ++attempt) {
    auto again = commit_once(node, file);
    if (!co_await std::move(again)) co_return;
  }
  invalidate_data(node);
  LockedWrites writes = locked_writes(file);
  if (const auto bytes = writes->give_up_commit()) note_refused(*file, *bytes, "committed");
}

Task<bool> CachingFilesystem::commit_once(NodeRef node, CachedFileRef file) {
  std::optional<FileWrites::Commit> request;
  {
    LockedWrites writes = locked_writes(file);
    request = writes->begin_commit();
  }
  if (!request) co_return false;
  auto reply = co_await commit_on_server(node, request->credential, request->offset, request->end);
  if (!reply) invalidate_data(node);
  FileWrites::Committed committed;
  {
    LockedWrites writes = locked_writes(file);
    committed = writes->committed(std::move(reply));
    if (committed.refused) note_refused(*file, *committed.refused, "committed");
  }
  if (committed.lost) co_await send_again(node, file);
  std::lock_guard lock(cached_node(node).mutex);
  file->writes.end_commit();
  co_return committed.lost;
}

Task<> CachingFilesystem::send_again(NodeRef node, CachedFileRef file) {
  size_t count = 0;
  for (;; ++count) {
    std::optional<FileWrites::Extent> lost;
    {
      LockedWrites writes = locked_writes(file);
      lost = writes->take_lost();
      if (!lost) break;
      // Data that was read since the restart is from before the write.
      note_written(*file, (*lost)->second.offset, (*lost)->second.end());
    }
    Loop::current()->spawn(write_extent(node, file, *lost, nfs4::FILE_SYNC4));
  }
  log::info("the server may have lost {} unstable writes of a file; writing them again", count);
  co_await settle_all(node, file);
}

Task<> CachingFilesystem::restore_lost_writes(NodeRef node, CachedFileRef file) {
  const uint64_t present = epoch();
  for (;;) {
    LockedWrites writes = locked_writes(file);
    const FileWrites::Restored restored = writes->restored(present);
    if (restored == FileWrites::Restored::kYes) co_return;
    if (restored == FileWrites::Restored::kWait) {
      co_await writes.changed();
      continue;
    }
    writes.unlock();
    co_await commit(node, file);
  }
}

std::optional<FileWrites::Extent> CachingFilesystem::take_only_extent(const CachedFileRef& file,
                                                                      const rpc::Credential& user) {
  return locked_writes(file)->take_only(&user);
}

Task<> CachingFilesystem::write_back(NodeRef node, CachedFileRef file) {
  // The only extent of a small file: one WRITE to stable storage instead of WRITE and COMMIT.
  if (const auto only = locked_writes(file)->take_only()) {
    co_await write_extent(node, file, *only, nfs4::FILE_SYNC4);
  } else {
    co_await settle_all(node, file);
  }
  co_await commit(node, file);
}

Result<> CachingFilesystem::unreported_error(CachedOpen& handle) {
  std::lock_guard lock(handle.cached->cached.mutex);
  const FileWrites& writes = handle.cached->writes;
  if (handle.errors_seen == writes.errors()) return {};
  return fail(writes.latest_error());
}

std::optional<Error> CachingFilesystem::take_error(const OpenFileRef& file) {
  CachedOpen& handle = cached_open(file);
  std::lock_guard lock(handle.cached->cached.mutex);
  const FileWrites& writes = handle.cached->writes;
  if (handle.errors_seen == writes.errors()) return std::nullopt;
  handle.errors_seen = writes.errors();
  return writes.latest_error();
}

Task<Result<>> CachingFilesystem::fsync(RequestContext, OpenFileRef open, bool) {
  CachedOpen& handle = cached_open(open);
  co_await write_back(handle.node, handle.cached);
  co_return unreported_error(handle);
}

Task<> CachingFilesystem::send_held_periodically() {
  Suspension suspension{since_boot(), Clock::now()};
  while (!stopping_) {
    const Duration boot = since_boot();
    if (suspension.noticed(boot, Clock::now())) doubt_ages();
    note_memory_is_back();
    give_memory_back();
    take_back_old_listings();
    co_await held_timer_.wait_for(kHoldFor);
    if (stopping_) continue;
    if (written_.uncommitted.load(std::memory_order_relaxed) != 0) {
      // Memory may have become short while no program writes and waits for room.
      if (keeps_too_much()) commit_everything_soon();
      commit_old();
    }
    if (written_.unanswered.load(std::memory_order_relaxed) == 0) continue;
    const TimePoint old = Clock::now() - kHoldFor;
    for (const NodeRef& node : files_in_use()) {
      CachedFileRef file;
      FileWrites::Sends extents;
      {
        std::lock_guard lock(cached_node(node).mutex);
        file = cached_node(node).cached_file();
        if (file) extents = file->writes.take_held_since(old);
      }
      if (file) send(node, file, extents);
    }
  }
}

}  // namespace nfsrdma::client

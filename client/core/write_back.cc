// SPDX-License-Identifier: Apache-2.0
// Write-back: joined writes, WRITE UNSTABLE4, COMMIT, verifiers, errors (RFC 8881 sections 18.3, 18.32; RFC
// 1813 sections 3.3.7, 3.3.21).
//
// write(2) returns when its data is in memory here. FileWrites (file_writes.h) decides what is sent and when,
// and keeps the data until it is on stable storage; the functions here send the requests.
#include "client/core/write_back.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "client/core/names/name_in_log.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHoldFor = 500ms;

// COMMITs of one fsync(2), if each one returns another write verifier.
constexpr int kMaxCommits = 16;
// A server that restarts between the pieces of one write changes the write verifier, and the write starts
// again. With so many verifiers it fails.
constexpr int kMostVerifiers = 16;

}  // namespace

WriteBack::Refusal WriteBack::note_refused(const CachedFile& file, uint64_t bytes) {
  const Error& error = file.writes.latest_error();
  refused_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (error.errnum == ENOSPC || error.errnum == EDQUOT) room_errors_.fetch_add(1, std::memory_order_relaxed);
  return {error, file.cached.attributes.get().ino};
}

void WriteBack::log_refused(CachedFile& file, const Refusal& refusal, const char* verb) {
  log::warn("server {}: data of {} could not be {}: {}; the next fsync or close reports it{}", options_.host,
            called(table_.names(), file.cached, refusal.ino), verb, describe(refusal.error),
            how_to_find(table_.names(), file.cached, refusal.ino));
}

Task<Result<Written>> WriteBack::write_on_server(NodeRef node, CachedFileRef file, IoAccount account,
                                                 uint64_t offset, Slice data, nfs4::stable_how4 stable) {
  Written result{nfs4::FILE_SYNC4, {}};
  int verifiers = 0;
  for (size_t done = 0; done < data.size();) {
    const size_t wsize = protocol_.limits_of(node).wsize;
    const Slice piece = data.subslice(done, std::min(data.size() - done, wsize));
    Result<WriteOutcome> answer = co_await protocol_.write(node, file, account, offset + done, piece, stable);
    if (!answer) co_return fail(attributes_.gone(node, std::move(answer.error())));
    // Without attributes the old size expires: it must not be reported or used for appending.
    co_await attributes_.record(node, answer->after);
    // If the pieces got different verifiers, the server may have lost the earlier pieces: write all again.
    const Written& written = answer->written;
    if (done != 0 && result.committed == nfs4::UNSTABLE4 && written.verifier != result.verifier) {
      if (++verifiers == kMostVerifiers)
        co_return fail(system_error(EIO, "WRITE", "the server's write verifier is another one each time"));
      result = {nfs4::FILE_SYNC4, {}};
      done = 0;
      continue;
    }
    result = {std::min(result.committed, written.committed), written.verifier};
    done += answer->bytes;
  }
  co_return result;
}

Task<Result<nfs4::verifier4>> WriteBack::commit_on_server(NodeRef node, rpc::CredentialPtr credential,
                                                          uint64_t offset, uint64_t end) {
  Result<CommitOutcome> answer = co_await protocol_.commit(node, std::move(credential), offset, end);
  if (!answer) co_return fail(attributes_.gone(node, std::move(answer.error())));
  co_await attributes_.record(node, answer->after);
  co_return answer->verifier;
}

Task<> WriteBack::write_extent(NodeRef node, CachedFileRef file, FileWrites::Extent extent,
                               nfs4::stable_how4 stable) {
  const WriteExtent& e = extent->second;
  const uint64_t sent_in = protocol_.epoch();  // the server may restart before the reply is handled
  auto written = co_await write_on_server(node, file, e.account, e.offset, e.data, stable);
  extent_answered(node, file, extent, sent_in, std::move(written));
}

void WriteBack::send(const NodeRef& node, const CachedFileRef& file, const FileWrites::Sends& extents) {
  for (const FileWrites::Extent extent : extents)
    Loop::current()->spawn(write_extent(node, file, extent, nfs4::UNSTABLE4));
}

void WriteBack::extent_answered(const NodeRef& node, const CachedFileRef& file, FileWrites::Extent extent,
                                uint64_t sent_in, Result<Written> written) {
  if (!written) kept_.invalidate_data(node);  // data that the server refused must not be read
  FileWrites::Answered answered;
  std::optional<Refusal> refusal;
  bool others_changed = false;
  {
    LockedWrites writes(*file, room_.written());
    answered = writes->answered(extent, std::move(written), sent_in, Clock::now());
    if (answered.refused) refusal = note_refused(*file, *answered.refused);
    others_changed = AttributeService::others_changed_too(*file);
  }
  if (refusal) log_refused(*file, *refusal, "written");
  send(node, file, answered.send);
  if (others_changed) Loop::current()->spawn(kernel_.drop_counted(node));
}

bool WriteBack::gather(const NodeRef& node, const CachedFileRef& file, const IoAccount& account,
                       uint64_t offset, const Slice& data) {
  const uint32_t wsize = protocol_.limits_of(node).wsize;
  if (data.size() >= wsize) return false;
  const FileWrites::NewData arrived{account, offset, data, wsize};
  BufferRef larger;
  for (bool memory = true; memory;) {
    FileWrites::Joined join;
    {
      LockedWrites writes(*file, room_.written());
      join = writes->join(arrived, std::move(larger));
      if (join.result == FileWrites::Joined::Result::kJoined)
        kept_.note_written(*file, offset, arrived.end());
    }
    send(node, file, join.send);
    if (join.result == FileWrites::Joined::Result::kJoined) return true;
    if (join.result == FileWrites::Joined::Result::kApart) break;
    larger = buffers_.get(join.room);
    memory = static_cast<bool>(larger);
  }
  FileWrites::Held hold;
  {
    LockedWrites writes(*file, room_.written());
    hold = writes->hold(arrived, Clock::now());
    if (hold.held) kept_.note_written(*file, offset, arrived.end());
  }
  send(node, file, hold.send);
  return hold.held;
}

Task<> WriteBack::send_pieces(OpenFileRef open, IoAccount account, uint64_t offset, Slice data) {
  const CachedOpen& handle = cached_open(open);
  const uint32_t wsize = protocol_.limits_of(handle.node).wsize;
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

Task<FileWrites::Extent> WriteBack::enter(NodeRef node, WritePlace& place, WriteExtent extent) {
  const CachedFileRef& file = place.file();
  const uint64_t offset = extent.offset, end = extent.end();
  for (;;) {
    LockedWrites writes(*file, room_.written());
    const FileWrites::Admission admission = writes->admit(place.get(), extent);
    if (admission.gate == FileWrites::Gate::kOpen) {
      kept_.note_written(*file, offset, end);
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

uint64_t WriteBack::send_held(const NodeRef& node, const CachedFileRef& file) {
  LockedWrites writes(*file, room_.written());
  const uint64_t next = writes->next_serial();
  const FileWrites::Sends extents = writes->take_held();
  writes.unlock();
  send(node, file, extents);
  return next;
}

Task<> WriteBack::settle(NodeRef node, CachedFileRef file, uint64_t offset, uint64_t end) {
  for (;;) {
    LockedWrites writes(*file, room_.written());
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

Task<> WriteBack::settle_all(NodeRef node, CachedFileRef file) {
  const uint64_t next = send_held(node, file);  // data that is written later need not be waited for
  for (;;) {
    LockedWrites writes(*file, room_.written());
    if (writes->answered_before(next)) co_return;
    co_await writes.changed();
  }
}

Task<bool> WriteBack::settle_beyond(NodeRef node, CachedFileRef file, uint64_t offset) {
  {
    MutexLock lock(cached_node(node).mutex);
    if (file->writes.unanswered_end() <= offset) co_return false;
  }
  co_await settle_all(node, file);
  co_return true;
}

Task<> WriteBack::settle_node(NodeRef node) {
  CachedFileRef file;
  std::optional<FileWrites::Extent> whole;
  {
    MutexLock lock(cached_node(node).mutex);
    file = cached_node(node).cached_file();
    if (!file || !file->writing()) co_return;
    // git and tar get or set attributes between the last write and close. That write is usually the whole
    // file, and a FILE_SYNC4 WRITE saves its COMMIT.
    whole = file->writes.take_whole_file();
  }
  if (whole) Loop::current()->spawn(write_extent(node, file, *whole, nfs4::FILE_SYNC4));
  co_await settle_all(node, file);
}

// RLIMIT_AS or a control group's limit can make allocations fail although the machine has free memory.
// Uncommitted data keeps its buffers until a COMMIT, and without memory no further write can cause one.
void WriteBack::memory_refused() {
  if (room_.note_memory_is_short()) {
    log::warn(
        "server {}: no memory for requests (see 'ulimit -v' and the control group's limit); committing {} "
        "KiB of written data, dropping {} KiB of read data",
        options_.host, (room_.written().unanswered + room_.written().uncommitted) / 1024,
        table_.data().bytes() / 1024);
  }
  if (!stopping_ && !freeing_.exchange(true)) Loop::current()->spawn(free_memory());
}

Task<> WriteBack::free_memory() {
  table_.data().drop_all();
  for (const NodeRef& node : protocol_.files_in_use()) {
    CachedFileRef file;
    {
      MutexLock lock(cached_node(node).mutex);
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

void WriteBack::make_room(const NodeRef& node, const CachedFileRef& file) {
  if (room_.awaits_answers()) send_held(node, file);
  if (!room_.keeps_too_much()) return;
  commit_everything_soon();
  commit_soon(node, file, [&] { return file->writes.uncommitted(); });
}

// Waits for replies to requests of this file only: the server of another file may be silent, or its COMMIT
// may take long. So each file may have one write beyond the limit, and no write waits for ever.
Task<Result<>> WriteBack::wait_for_room(NodeRef node, CachedFileRef file,
                                        std::shared_ptr<Cancellation> caller, size_t bytes) {
  const auto gone = [&caller] { return caller && caller->cancelled(); };
  room_.wait_begins(bytes);
  if (caller) {
    caller->on_cancel([node, file] {
      MutexLock lock(cached_node(node).mutex);
      file->writes.changed().notify_all();
    });
  }
  for (;;) {
    make_room(node, file);
    LockedWrites writes(*file, room_.written());
    const bool answers = writes->writing() && room_.awaits_answers();
    const bool commit = writes->uncommitted() && room_.keeps_too_much();
    if (gone() || (!answers && !commit)) break;
    // Never wait for a request that was not sent: nothing would wake this write.
    if ((answers && writes->holding()) || (commit && !writes->background_commit())) continue;
    co_await writes.changed();
  }
  if (caller) caller->on_cancel(nullptr);
  room_.wait_ends(bytes);
  if (gone()) co_return fail(system_error(EINTR, "WRITE"));
  co_return Result<>{};
}

void WriteBack::commit_large(const NodeRef& node, const CachedFileRef& file) {
  commit_soon(node, file, [&] { return file->writes.unstable_bytes() > room_.write_limits().commit_at(); });
}

template <class Due>
void WriteBack::commit_soon(const NodeRef& node, const CachedFileRef& file, const Due& due) {
  {
    MutexLock lock(cached_node(node).mutex);
    if (file->writes.background_commit() || !due() || !file->writes.begin_background_commit()) return;
  }
  Loop::current()->spawn(commit_in_background(node, file));
}

void WriteBack::commit_old() {
  const TimePoint now = Clock::now(), old = now - options_.uncommitted_for;
  if (now < look_for_old_at_) return;
  look_for_old_at_ = now + options_.uncommitted_for / 6;
  for (const NodeRef& node : protocol_.files_in_use()) {
    CachedFileRef file;
    {
      MutexLock lock(cached_node(node).mutex);
      file = cached_node(node).cached_file();
    }
    if (file) commit_soon(node, file, [&] { return file->writes.unstable_since(old); });
  }
}

void WriteBack::commit_everything_soon() {
  if (!committing_everything_.exchange(true)) Loop::current()->spawn(commit_everything());
}

// One file after the other, until the mount keeps less than its limit.
Task<> WriteBack::commit_everything() {
  for (const NodeRef& node : protocol_.files_in_use()) {
    if (!room_.keeps_too_much()) break;
    CachedFileRef file;
    {
      MutexLock lock(cached_node(node).mutex);
      file = cached_node(node).cached_file();
    }
    if (file) co_await commit(node, file);
  }
  committing_everything_ = false;
}

Task<> WriteBack::commit_in_background(NodeRef node, CachedFileRef file) {
  co_await commit(node, file);
  MutexLock lock(cached_node(node).mutex);
  file->writes.end_background_commit();
}

Task<> WriteBack::commit(NodeRef node, CachedFileRef file) {
  auto guard = co_await file->commit_mutex.lock();
  // Lost data is written again as FILE_SYNC4, so a second attempt is needed only if the server answers that
  // with less.
  for (int attempt = 0; attempt < kMaxCommits; ++attempt) {
    auto again = commit_once(node, file);
    if (!co_await std::move(again)) co_return;
  }
  kept_.invalidate_data(node);
  std::optional<Refusal> refusal;
  {
    LockedWrites writes(*file, room_.written());
    if (const auto bytes = writes->give_up_commit()) refusal = note_refused(*file, *bytes);
  }
  if (refusal) log_refused(*file, *refusal, "committed");
}

Task<bool> WriteBack::commit_once(NodeRef node, CachedFileRef file) {
  std::optional<FileWrites::Commit> request;
  {
    LockedWrites writes(*file, room_.written());
    request = writes->begin_commit();
  }
  if (!request) co_return false;
  auto reply = co_await commit_on_server(node, request->credential, request->offset, request->end);
  if (!reply) kept_.invalidate_data(node);
  FileWrites::Committed committed;
  std::optional<Refusal> refusal;
  {
    LockedWrites writes(*file, room_.written());
    committed = writes->committed(std::move(reply));
    if (committed.refused) refusal = note_refused(*file, *committed.refused);
  }
  if (refusal) log_refused(*file, *refusal, "committed");
  if (committed.lost) co_await send_again(node, file);
  MutexLock lock(cached_node(node).mutex);
  file->writes.end_commit();
  co_return committed.lost;
}

Task<> WriteBack::send_again(NodeRef node, CachedFileRef file) {
  size_t count = 0;
  for (;; ++count) {
    std::optional<FileWrites::Extent> lost;
    {
      LockedWrites writes(*file, room_.written());
      lost = writes->take_lost();
      if (!lost) break;
      // Data that was read since the restart does not contain the lost write.
      kept_.note_written(*file, (*lost)->second.offset, (*lost)->second.end());
    }
    Loop::current()->spawn(write_extent(node, file, *lost, nfs4::FILE_SYNC4));
  }
  log::info("the server may have lost {} unstable writes of a file; writing them again", count);
  co_await settle_all(node, file);
}

Task<> WriteBack::restore_lost_writes(NodeRef node, CachedFileRef file) {
  const uint64_t present = protocol_.epoch();
  for (;;) {
    LockedWrites writes(*file, room_.written());
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

std::optional<FileWrites::Extent> WriteBack::take_only_extent(const CachedFileRef& file,
                                                              const rpc::Credential& user) {
  LockedWrites writes(*file, room_.written());
  return writes->take_only(&user);
}

Task<> WriteBack::write_back(NodeRef node, CachedFileRef file) {
  // The only extent of a small file: one FILE_SYNC4 WRITE instead of WRITE and COMMIT.
  std::optional<FileWrites::Extent> only;
  {
    LockedWrites writes(*file, room_.written());
    only = writes->take_only();
  }
  if (only) {
    co_await write_extent(node, file, *only, nfs4::FILE_SYNC4);
  } else {
    co_await settle_all(node, file);
  }
  co_await commit(node, file);
}

Result<> WriteBack::unreported_error(CachedOpen& handle) {
  MutexLock lock(handle.cached->cached.mutex);
  const FileWrites& writes = handle.cached->writes;
  if (handle.errors_seen == writes.errors()) return {};
  return fail(writes.latest_error());
}

std::optional<Error> WriteBack::take_error(const OpenFileRef& file) {
  CachedOpen& handle = cached_open(file);
  MutexLock lock(handle.cached->cached.mutex);
  const FileWrites& writes = handle.cached->writes;
  if (handle.errors_seen == writes.errors()) return std::nullopt;
  handle.errors_seen = writes.errors();
  return writes.latest_error();
}

void WriteBack::send_old_writes() {
  if (room_.written().uncommitted.load(std::memory_order_relaxed) != 0) {
    // Memory may have become short while no program writes and waits for room.
    if (room_.keeps_too_much()) commit_everything_soon();
    commit_old();
  }
  if (room_.written().unanswered.load(std::memory_order_relaxed) == 0) return;
  const TimePoint old = Clock::now() - kHoldFor;
  for (const NodeRef& node : protocol_.files_in_use()) {
    CachedFileRef file;
    FileWrites::Sends extents;
    {
      MutexLock lock(cached_node(node).mutex);
      file = cached_node(node).cached_file();
      if (file) extents = file->writes.take_held_since(old);
    }
    if (file) send(node, file, extents);
  }
}

}  // namespace nfsrdma::client

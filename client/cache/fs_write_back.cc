// SPDX-License-Identifier: Apache-2.0
// The back of writing: small writes gathered, WRITE UNSTABLE, COMMIT, verifiers, errors (RFC 8881
// sections 18.3, 18.32; RFC 1813 sections 3.3.7, 3.3.21).
//
// An extent is answered to the application when it is here. It is sent at once, unless it is small and may
// grow, or others of the file keep the server busy and it may grow in place; it stays in memory until the
// server says FILE_SYNC, or until a COMMIT returns the verifier its WRITE returned. Another verifier means
// that the server lost what was unstable: it is written again. A write waits for those under way that it
// overlaps, so the server cannot take them in another order.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <optional>
#include <utility>

#include "client/cache/caching_filesystem.h"
#include "transport/runtime/log.h"
#include "transport/runtime/suspension.h"

namespace nfsrdma::client {
namespace {

using namespace std::chrono_literals;

// A write below this size is worth a copy if its neighbour can then go in the same WRITE.
constexpr size_t kGatherBytes = 64u << 10;
constexpr size_t kMostHeldBytes = 1u << 20;
// WRITEs of a file that keep the server busy: what is written meanwhile may wait for its neighbours.
constexpr size_t kBusyWrites = 2;
constexpr Duration kHoldFor = 500ms;
// Of a container that has less than WriteLimits::kLeast: some writes under way.
constexpr uint64_t kLeastOfSmall = 4u << 20;
// For so long after memory was refused.
constexpr Duration kMemoryShortFor = 2s;
constexpr int kMostCommits = 16;  // of one fsync, each finding that the server restarted since the last

// As the payloads of a stream do that the front end reads one behind the other into one buffer.
bool follows_in_memory(const WriteExtent& held, const Slice& data) {
  return held.data.buffer.operator->() == data.buffer.operator->() &&
         held.data.bytes.data() + held.data.size() == data.bytes.data();
}

}  // namespace

void CachingFilesystem::write_failed(CachedFile& file, Error error, uint64_t bytes, const char* verb) {
  refused_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (error.errnum == ENOSPC || error.errnum == EDQUOT) room_errors_.fetch_add(1, std::memory_order_relaxed);
  ++file.write_errors;
  file.write_error = std::move(error);
  const uint64_t ino = file.cached.attributes.get().ino;
  log::warn("server {}: data of {} could not be {}: {}; the next fsync or close reports it{}", options_.host,
            called(file.cached, ino), verb, describe(file.write_error), how_to_find(file.cached, ino));
}

std::string CachingFilesystem::called(Node& node, uint64_t ino) const {
  const auto found = log::on(log::Level::kDebug) ? table_.names().name_of(node) : std::nullopt;
  return found ? fmt::format("\"{}\" (inode {})", found->name, ino) : fmt::format("inode {}", ino);
}

std::string CachingFilesystem::how_to_find(Node& node, uint64_t ino) const {
  if (log::on(log::Level::kDebug) && table_.names().name_of(node)) return {};
  return fmt::format("; which file: run 'find -inum {}' in the mount", ino);
}

Task<> CachingFilesystem::write_extent(NodeRef node, CachedFileRef file, ExtentMap::iterator entry,
                                       nfs4::stable_how4 stable) {
  const WriteExtent& extent = entry->second;
  const uint64_t before = epoch();  // the server that answers may be gone when the answer is booked
  auto written = co_await write_on_server(node, file, extent.account, extent.offset, extent.data, stable);
  extent_answered(node, file, entry, before, std::move(written));
}

void CachingFilesystem::extent_answered(const NodeRef& node, const CachedFileRef& file,
                                        ExtentMap::iterator entry, uint64_t before, Result<Written> written) {
  if (!written) invalidate_data(node);  // what the server did not take is not to be read
  WriteExtent& extent = entry->second;
  const size_t size = extent.data.size();
  ExtentMap finished;  // its memory goes after the lock
  std::unique_lock lock(cached_node(node).mutex);
  const bool foreign = sent(*file, extent);
  // Also of one that was to be FILE_SYNC: a server that answers less (section 18.3.3: it must not) gets its
  // COMMIT.
  if (written && written->committed != nfs4::FILE_SYNC4) {
    extent.verifier = written->verifier;
    if (file->unstable.empty()) file->unstable_since = Clock::now();
    file->unstable_epoch = file->unstable.empty() ? before : std::min(file->unstable_epoch, before);
    file->unstable.take(file->writes, entry);
    file->unstable_bytes += size;
    unstable_bytes_.fetch_add(size, std::memory_order_relaxed);
  } else {
    finished.take(file->writes, entry);
    if (!written) write_failed(*file, std::move(written.error()), size, "written");
  }
  const bool held = !file->held.empty();
  file->written.notify_all();
  lock.unlock();
  if (held) send_held_until_answer(node, file);
  if (foreign) Loop::current()->spawn(kernel_.drop_counted(node));
}

bool CachingFilesystem::sent(CachedFile& file, const WriteExtent& extent) {
  dirty_bytes_.fetch_sub(extent.data.size(), std::memory_order_relaxed);
  file.dirty_bytes -= extent.data.size();
  file.no_longer_under_way(extent.serial);
  return others_changed_too(file);
}

void CachingFilesystem::supersede(CachedFile& file, uint64_t offset, uint64_t end) {
  ++file.cached.data_touched;
  table_.data().punch(file.cached, offset, end);
  const uint64_t unstable = file.unstable.punch(offset, end);
  file.unstable_bytes -= unstable;
  const uint64_t removed = unstable + file.committing.punch(offset, end);
  if (removed != 0) unstable_bytes_.fetch_sub(removed, std::memory_order_relaxed);
}

ExtentMap::iterator CachingFilesystem::add_extent(CachedFile& file, WriteExtent extent,
                                                  std::optional<uint64_t> serial) {
  extent.serial = serial ? *serial : file.next_serial++;
  file.under_way.insert(extent.serial);
  const size_t size = extent.data.size();
  file.dirty_bytes += size;
  dirty_bytes_.fetch_add(size, std::memory_order_relaxed);
  supersede(file, extent.offset, extent.end());
  return file.writes.insert(std::move(extent));
}

std::optional<size_t> CachingFilesystem::grow_held(CachedFile& file, const IoAccount& account,
                                                   uint64_t offset, const Slice& data, uint32_t wsize,
                                                   BufferRef larger) {
  WriteExtent* held = file.held.continued_at(offset);
  if (held == nullptr || !(held->account == account)) return std::nullopt;
  const uint64_t end = offset + data.size();
  const size_t used = held->data.size(), size = std::max(held->end(), end) - held->offset;
  // wsize may have become smaller than what is in it: a new session, granted less.
  if (size > wsize || (end > held->end() && file.writes.overlaps(held->end(), end))) return std::nullopt;
  if (!file.turns.empty()) return std::nullopt;  // it may belong behind one of them
  if (offset == held->end() && follows_in_memory(*held, data)) {
    supersede(file, offset, end);
    held->data.bytes = {held->data.bytes.data(), size};
    grown(file, *held, data.size());
    return 0;
  }
  if (data.size() >= kGatherBytes) return std::nullopt;  // not worth a copy
  if (!held->growing || held->data.buffer->capacity() < size) {
    const size_t most = std::min<size_t>(wsize, kMostHeldBytes);
    if (size > most) return std::nullopt;
    // Room that grows with what is in it: writes scattered over a file keep little more memory than data.
    if (!larger || larger->capacity() < size) return std::min(most, 2 * std::bit_ceil(size));
    std::copy(held->data.bytes.begin(), held->data.bytes.end(), larger.bytes().begin());
    held->data.buffer = std::move(larger);
    held->growing = true;
  }
  supersede(file, offset, end);
  held->data.bytes = held->data.buffer.bytes().first(size);
  std::copy(data.bytes.begin(), data.bytes.end(),
            held->data.bytes.begin() + static_cast<std::ptrdiff_t>(offset - held->offset));
  grown(file, *held, size - used);
  return 0;
}

void CachingFilesystem::grown(CachedFile& file, WriteExtent& held, size_t bytes) {
  file.held.touch(held);
  file.no_longer_under_way(held.serial);
  held.serial = file.next_serial++;
  file.under_way.insert(held.serial);
  file.dirty_bytes += bytes;
  dirty_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

bool CachingFilesystem::gather(const NodeRef& node, const CachedFileRef& file, const IoAccount& account,
                               uint64_t offset, const Slice& data) {
  const uint32_t wsize = limits_of(node).wsize;
  if (data.size() >= wsize) return false;
  BufferRef larger;
  for (bool memory = true; memory;) {
    std::optional<size_t> needed;
    {
      std::lock_guard lock(cached_node(node).mutex);
      needed = grow_held(*file, account, offset, data, wsize, larger);
    }
    if (needed == 0u) {
      send_held_unless_busy(node, file, offset);
      return true;
    }
    if (!needed) break;
    larger = buffers_.get(*needed);
    memory = static_cast<bool>(larger);
  }
  const bool large = data.size() >= kGatherBytes;
  const uint64_t end = offset + data.size();
  // A large one is of a stream, and others of the file go before it. A small one may be an append to another
  // place: what it is no neighbour of may still have its own.
  send_held_if(node, file, [&](const WriteExtent& held) {
    const bool neighbour = held.offset <= end && offset <= held.end();
    return large || neighbour || (file->held.full() && &held == &file->held.oldest());
  });
  std::lock_guard lock(cached_node(node).mutex);
  if (file->held.full() || !file->turns.empty() || file->writes.overlaps(offset, end)) return false;
  if (large && (!file->held.empty() || file->writes_sent() < kBusyWrites)) return false;
  WriteExtent extent;
  extent.offset = offset;
  extent.data = data;
  extent.account = account;
  extent.since = Clock::now();
  extent.until_answer = large;
  file->held.hold(add_extent(*file, std::move(extent))->second);
  return true;
}

// A small write that a large one has joined is held no longer than a large one is.
void CachingFilesystem::send_held_unless_busy(const NodeRef& node, const CachedFileRef& file,
                                              uint64_t offset) {
  {
    std::lock_guard lock(cached_node(node).mutex);
    WriteExtent* held = file->held.continued_at(offset);
    if (held == nullptr || held->growing || held->data.size() < kGatherBytes) return;
    held->until_answer = true;
    if (file->writes_sent() >= kBusyWrites) return;
  }
  send_held_until_answer(node, file);
}

Task<> CachingFilesystem::send_pieces(OpenFileRef open, IoAccount account, uint64_t offset, Slice data) {
  const CachedOpen& handle = cached_open(open);
  const uint32_t wsize = limits_of(handle.node).wsize;
  WriteTurn turn(handle.cached, offset, offset + data.size());
  for (size_t at = 0; at < data.size();) {
    const size_t size = std::min<size_t>(data.size() - at, wsize);
    WriteExtent extent;
    extent.offset = offset + at;
    extent.data = data.subslice(at, size);
    extent.account = account;
    auto entering = enter(handle.node, turn, std::move(extent));
    const ExtentMap::iterator entry = co_await std::move(entering);
    Loop::current()->spawn(write_extent(handle.node, handle.cached, entry, nfs4::UNSTABLE4));
    at += size;
  }
}

Task<ExtentMap::iterator> CachingFilesystem::enter(NodeRef node, WriteTurn& turn, WriteExtent extent) {
  CachedFile& file = *turn.file();
  for (;;) {
    {
      std::unique_lock lock(cached_node(node).mutex);
      const auto in_the_way = file.writes.overlapping(extent.offset, extent.end());
      const bool others = turn.others_first();
      if (!others && in_the_way == file.writes.end())
        co_return add_extent(file, std::move(extent), turn.serial());
      turn.begin();
      if (others || !file.held.holds(in_the_way->second)) {
        co_await file.written.wait(lock);
        continue;
      }
    }
    send_held(node, turn.file());
  }
}

template <class Which>
uint64_t CachingFilesystem::send_held_if(const NodeRef& node, const CachedFileRef& file, const Which& which) {
  std::array<ExtentMap::iterator, HeldExtents::kMost> entries;
  size_t count = 0;
  uint64_t next = 0;
  {
    std::lock_guard lock(cached_node(node).mutex);
    next = file->next_serial;
    for (const WriteExtent* held : file->held.take_if(which))
      entries[count++] = file->writes.overlapping(held->offset, held->end());
  }
  for (size_t i = 0; i < count; ++i)
    Loop::current()->spawn(write_extent(node, file, entries[i], nfs4::UNSTABLE4));
  return next;
}

uint64_t CachingFilesystem::send_held(const NodeRef& node, const CachedFileRef& file) {
  return send_held_if(node, file, [](const WriteExtent&) { return true; });
}

void CachingFilesystem::send_held_until_answer(const NodeRef& node, const CachedFileRef& file) {
  send_held_if(node, file, [](const WriteExtent& held) { return held.until_answer; });
}

void CachingFilesystem::send_whole_file(const NodeRef& node, const CachedFileRef& file) {
  CachedNode& n = cached_node(node);
  bool whole = false;
  {
    std::lock_guard lock(n.mutex);
    whole = !file->held.empty() && file->held.oldest().offset == 0;
  }
  const auto only = whole ? take_only_extent(n, *file) : std::nullopt;
  if (only) Loop::current()->spawn(write_extent(node, file, *only, nfs4::FILE_SYNC4));
}

Task<> CachingFilesystem::settle(NodeRef node, CachedFileRef file, uint64_t offset, uint64_t end) {
  for (;;) {
    std::unique_lock lock(cached_node(node).mutex);
    const auto entry = file->writes.overlapping(offset, end);
    if (entry == file->writes.end()) co_return;
    if (!file->held.holds(entry->second)) {
      co_await file->written.wait(lock);
      continue;
    }
    lock.unlock();
    send_held(node, file);
  }
}

Task<> CachingFilesystem::settle_all(NodeRef node, CachedFileRef file) {
  const uint64_t next = send_held(node, file);  // what is written after that need not be waited for
  for (;;) {
    std::unique_lock lock(cached_node(node).mutex);
    if (file->under_way.empty() || *file->under_way.begin() >= next) co_return;
    co_await file->written.wait(lock);
  }
}

Task<bool> CachingFilesystem::settle_beyond(NodeRef node, CachedFileRef file, uint64_t offset) {
  {
    std::lock_guard lock(cached_node(node).mutex);
    if (file->writes.end_offset() <= offset) co_return false;
  }
  co_await settle_all(node, file);
  co_return true;
}

Task<> CachingFilesystem::settle_node(NodeRef node) {
  CachedFileRef file;
  {
    std::lock_guard lock(cached_node(node).mutex);
    file = cached_node(node).cached_file();
    if (!file || file->writes.empty()) co_return;
  }
  // git and tar ask for or set attributes between the last write and close: that write is most often the
  // whole file, and WRITE to stable storage saves its COMMIT.
  send_whole_file(node, file);
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
  // What waits for room is in nobody's way; one write of each caller.
  const uint64_t waiting = roomless_bytes_.load(std::memory_order_relaxed);
  return bytes_beside_data() > write_limits().buffers() + waiting;
}

bool CachingFilesystem::awaits_answers() {
  return dirty_bytes_.load(std::memory_order_relaxed) > write_limits().unanswered() ||
         keeps_too_much_memory() || memory_is_short();
}

bool CachingFilesystem::keeps_too_much() {
  const uint64_t unstable = unstable_bytes_.load(std::memory_order_relaxed);
  return unstable > write_limits().uncommitted() ||
         (unstable != 0 && (keeps_too_much_memory() || memory_is_short()));
}

bool CachingFilesystem::memory_is_short() const {
  const int64_t until = short_until_.load(std::memory_order_relaxed);
  return until != 0 && Clock::now().time_since_epoch().count() < until;
}

// A limit that is reached (RLIMIT_AS, a control group's) says so by refusing memory, however much the machine
// has. What was written and is not committed holds buffers until a COMMIT; nobody can write on to cause one.
void CachingFilesystem::memory_refused() {
  const TimePoint until = Clock::now() + kMemoryShortFor;
  if (short_until_.exchange(until.time_since_epoch().count()) == 0) {
    log::warn(
        "server {}: no memory for requests (see 'ulimit -v' and the control group's limit); committing {} "
        "KiB of written data, dropping {} KiB of read data",
        options_.host, (dirty_bytes_ + unstable_bytes_) / 1024, table_.data().bytes() / 1024);
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
    commit_soon(node, file, [&] { return file->uncommitted(); });
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
  commit_soon(node, file, [&] { return file->uncommitted(); });
}

// Only for what is under way of this file: others' may be at a server that is silent, or whose COMMIT takes
// long. So one write of each file may be beyond the limit, and whatever fills it, nothing waits for ever.
Task<Result<>> CachingFilesystem::wait_for_room(NodeRef node, CachedFileRef file,
                                                std::shared_ptr<Cancellation> caller, size_t bytes) {
  const auto gone = [&caller] { return caller && caller->cancelled(); };
  roomless_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (caller) {
    caller->on_cancel([node, file] {
      std::lock_guard lock(cached_node(node).mutex);
      file->written.notify_all();
    });
  }
  for (;;) {
    make_room(node, file);
    std::unique_lock lock(cached_node(node).mutex);
    const bool answers = !file->writes.empty() && awaits_answers();
    const bool commit = file->uncommitted() && keeps_too_much();
    if (gone() || (!answers && !commit)) break;
    // Of what is not under way no end would be told.
    if ((answers && !file->held.empty()) || (commit && !file->commit_spawned)) continue;
    co_await file->written.wait(lock);
  }
  if (caller) caller->on_cancel(nullptr);
  roomless_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (gone()) co_return fail(system_error(EINTR, "WRITE"));
  co_return Result<>{};
}

void CachingFilesystem::commit_large(const NodeRef& node, const CachedFileRef& file) {
  commit_soon(node, file, [&] { return file->unstable_bytes > write_limits().commit_at(); });
}

template <class Due>
void CachingFilesystem::commit_soon(const NodeRef& node, const CachedFileRef& file, const Due& due) {
  {
    std::lock_guard lock(cached_node(node).mutex);
    if (file->commit_spawned || !due()) return;
    file->commit_spawned = true;
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
    if (file) commit_soon(node, file, [&] { return !file->unstable.empty() && file->unstable_since <= old; });
  }
}

void CachingFilesystem::commit_everything_soon() {
  if (!committing_everything_.exchange(true)) Loop::current()->spawn(commit_everything());
}

// Until no more is kept than there is room for.
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
  file->commit_spawned = false;
  file->written.notify_all();
}

Task<> CachingFilesystem::commit(NodeRef node, CachedFileRef file) {
  auto guard = co_await file->commit_mutex.lock();
  // What was lost is written again as FILE_SYNC, so a second turn is for a server that answers that with
  // less.
  for (int turn = 0; turn < kMostCommits; ++turn) {
    auto again = commit_once(node, file);
    if (!co_await std::move(again)) co_return;
  }
  invalidate_data(node);
  std::lock_guard lock(cached_node(node).mutex);
  if (file->unstable.empty()) co_return;
  const uint64_t lost = std::exchange(file->unstable_bytes, 0);
  unstable_bytes_.fetch_sub(lost, std::memory_order_relaxed);
  file->unstable.clear();
  write_failed(*file, system_error(EIO, "COMMIT", "the server's write verifier is another one each time"),
               lost, "committed");
}

Task<bool> CachingFilesystem::commit_once(NodeRef node, CachedFileRef file) {
  rpc::CredentialPtr credential;  // a writer's: whoever asks for the COMMIT may not be allowed to
  uint64_t offset = 0, end = 0;
  {
    std::lock_guard lock(cached_node(node).mutex);
    if (file->unstable.empty()) co_return false;
    file->committing.swap(file->unstable);
    credential = file->committing.begin()->second.account.credential;
    offset = file->committing.begin()->first;
    end = file->committing.end_offset();
    file->unstable_bytes = 0;
    file->committing_epoch = file->unstable_epoch;
  }
  Result<nfs4::verifier4> committed = co_await commit_on_server(node, credential, offset, end);
  if (!committed) invalidate_data(node);
  bool lost = false;
  {
    std::lock_guard lock(cached_node(node).mutex);
    const uint64_t before = file->committing.bytes();
    if (committed) {
      const nfs4::verifier4& verifier = *committed;
      file->committing.erase_if([&](const WriteExtent& e) { return e.verifier == verifier; });
    } else {
      write_failed(*file, std::move(committed.error()), before, "committed");
      file->committing.clear();
    }
    unstable_bytes_.fetch_sub(before - file->committing.bytes(), std::memory_order_relaxed);
    lost = !file->committing.empty();
  }
  if (lost) co_await send_again(node, file);
  std::lock_guard lock(cached_node(node).mutex);
  file->committing_epoch = 0;
  file->written.notify_all();
  co_return lost;
}

Task<> CachingFilesystem::send_again(NodeRef node, CachedFileRef file) {
  size_t count = 0;
  for (;; ++count) {
    ExtentMap::iterator entry;
    {
      std::lock_guard lock(cached_node(node).mutex);
      if (file->committing.empty()) break;
      entry = file->writes.take(file->committing, file->committing.begin());
      WriteExtent& extent = entry->second;
      extent.serial = file->next_serial++;
      file->under_way.insert(extent.serial);
      supersede(*file, extent.offset, extent.end());  // what was read meanwhile is of before the write
      const size_t size = extent.data.size();
      file->dirty_bytes += size;
      dirty_bytes_.fetch_add(size, std::memory_order_relaxed);
      unstable_bytes_.fetch_sub(size, std::memory_order_relaxed);
    }
    Loop::current()->spawn(write_extent(node, file, entry, nfs4::FILE_SYNC4));
  }
  log::info("the server may have lost {} unstable writes of a file; writing them again", count);
  co_await settle_all(node, file);
}

Task<> CachingFilesystem::restore_lost_writes(NodeRef node, CachedFileRef file) {
  const uint64_t present = epoch();
  for (;;) {
    {
      std::unique_lock lock(cached_node(node).mutex);
      if (file->committing_epoch != 0 && file->committing_epoch != present) {
        co_await file->written.wait(lock);
        continue;
      }
      if (file->unstable.empty() || file->unstable_epoch == present) co_return;
    }
    co_await commit(node, file);
  }
}

std::optional<ExtentMap::iterator> CachingFilesystem::take_only_extent(CachedNode& n, CachedFile& file,
                                                                       const rpc::Credential* user) {
  std::lock_guard lock(n.mutex);
  if (file.writes.size() != 1 || file.held.empty() || !file.turns.empty() || !file.unstable.empty())
    return std::nullopt;
  const bool together = user == nullptr || (file.committing_epoch == 0 &&
                                            user->same_user(*file.held.oldest().account.credential) &&
                                            file.held.oldest().data.size() <= kGatherBytes);
  if (!together) return std::nullopt;
  file.held = {};
  return file.writes.begin();
}

Task<> CachingFilesystem::write_back(NodeRef node, CachedFileRef file) {
  // A small file that was written in one piece: one WRITE to stable storage instead of WRITE and COMMIT.
  if (const auto only = take_only_extent(cached_node(node), *file)) {
    co_await write_extent(node, file, *only, nfs4::FILE_SYNC4);
  } else {
    co_await settle_all(node, file);
  }
  co_await commit(node, file);
}

Result<> CachingFilesystem::unreported_error(CachedOpen& handle) {
  std::lock_guard lock(handle.cached->cached.mutex);
  if (handle.errors_seen == handle.cached->write_errors) return {};
  return fail(handle.cached->write_error);
}

std::optional<Error> CachingFilesystem::take_error(const OpenFileRef& file) {
  CachedOpen& handle = cached_open(file);
  std::lock_guard lock(handle.cached->cached.mutex);
  if (handle.errors_seen == handle.cached->write_errors) return std::nullopt;
  handle.errors_seen = handle.cached->write_errors;
  return handle.cached->write_error;
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
    if (unstable_bytes_.load(std::memory_order_relaxed) != 0) {
      // Nobody may write any more, and wait for it, where memory has become little.
      if (keeps_too_much()) commit_everything_soon();
      commit_old();
    }
    if (dirty_bytes_.load(std::memory_order_relaxed) == 0) continue;
    const TimePoint old = Clock::now() - kHoldFor;
    for (const NodeRef& node : files_in_use()) {
      CachedFileRef file;
      {
        std::lock_guard lock(cached_node(node).mutex);
        file = cached_node(node).cached_file();
      }
      if (file) send_held_if(node, file, [&](const WriteExtent& held) { return held.since <= old; });
    }
  }
}

}  // namespace nfsrdma::client

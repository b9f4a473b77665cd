// SPDX-License-Identifier: Apache-2.0
#include "fuse/caller_table.h"

#include <algorithm>

namespace nfsrdma::fuse {
namespace {

uint64_t ms_before(TimePoint now, uint64_t ns) {
  const auto now_ns = static_cast<uint64_t>(std::chrono::nanoseconds(now.time_since_epoch()).count());
  return now_ns > ns ? (now_ns - ns) / 1'000'000 : 0;
}

}  // namespace

CallerTable::CallerTable() {
  heads_.fill(kNone);
  for (Index i = 0; i < kThreads; ++i) {
    links_[i].newer = i == 0 ? kNone : static_cast<Index>(i - 1);
    links_[i].older = i + 1 == kThreads ? kNone : static_cast<Index>(i + 1);
  }
}

CallerTable::Entry& CallerTable::find(pid_t tid, TimePoint now) {
  Index index = heads_[hash(tid)];
  while (index != kNone && entries_[index].tid.load(std::memory_order_relaxed) != tid)
    index = links_[index].next;
  if (index == kNone) {
    index = oldest_;
    if (entries_[index].tid.load(std::memory_order_relaxed) != kUnused) unhash(index);
    replace(entries_[index], tid, now);
    links_[index].next = heads_[hash(tid)];
    heads_[hash(tid)] = index;
  }
  make_newest(index);
  return entries_[index];
}

void CallerTable::retire(const Entry& e) {
  add(gone_requests_, e.requests.load(std::memory_order_relaxed));
  add(gone_read_bytes_, e.read_bytes.load(std::memory_order_relaxed));
  add(gone_write_bytes_, e.write_bytes.load(std::memory_order_relaxed));
  add(gone_ns_, e.total_ns.load(std::memory_order_relaxed));
}

void CallerTable::replace(Entry& e, pid_t tid, TimePoint now) {
  const uint32_t version = e.version.load(std::memory_order_relaxed);
  e.version.store(version + 1, std::memory_order_relaxed);
  retire(e);
  e.tid.store(tid, std::memory_order_release);
  for (Number* number : {&e.requests, &e.read_bytes, &e.write_bytes, &e.total_ns})
    number->store(0, std::memory_order_release);
  e.first_ns.store(since_epoch(now), std::memory_order_release);
  e.last_ns.store(since_epoch(now), std::memory_order_release);
  e.version.store(version + 2, std::memory_order_release);
}

void CallerTable::unhash(Index index) {
  Index* at = &heads_[hash(entries_[index].tid.load(std::memory_order_relaxed))];
  while (*at != index) at = &links_[*at].next;
  *at = links_[index].next;
}

void CallerTable::make_newest(Index index) {
  if (index == newest_) return;
  Links& own = links_[index];
  links_[own.newer].older = own.older;
  (own.older == kNone ? oldest_ : links_[own.older].newer) = own.newer;
  own.newer = kNone;
  own.older = newest_;
  links_[newest_].newer = index;
  newest_ = index;
}

bool CallerTable::read(const Entry& e, CallerStatistics& out, TimePoint now) {
  const uint32_t version = e.version.load(std::memory_order_acquire);
  if (version % 2 != 0) return false;
  out.tid = e.tid.load(std::memory_order_acquire);
  out.requests = e.requests.load(std::memory_order_acquire);
  out.read_bytes = e.read_bytes.load(std::memory_order_acquire);
  out.write_bytes = e.write_bytes.load(std::memory_order_acquire);
  out.total_us = e.total_ns.load(std::memory_order_acquire) / 1000;
  out.seen_ms = ms_before(now, e.first_ns.load(std::memory_order_acquire));
  out.idle_ms = ms_before(now, e.last_ns.load(std::memory_order_acquire));
  return e.version.load(std::memory_order_relaxed) == version;
}

void CallerTable::add_to(std::vector<CallerStatistics>& sum, CallerStatistics& replaced,
                         TimePoint now) const {
  // If the writer replaces an entry in each of kTries reads, the thread is missing in this snapshot only.
  constexpr int kTries = 16;
  for (const Entry& e : entries_) {
    CallerStatistics c;
    bool whole = false;
    for (int n = 0; n < kTries && !whole; ++n) whole = read(e, c, now);
    if (!whole || c.tid == kUnused) continue;
    const auto same =
        std::find_if(sum.begin(), sum.end(), [&](const CallerStatistics& s) { return s.tid == c.tid; });
    if (same == sum.end()) {
      sum.push_back(c);
      continue;
    }
    same->requests += c.requests;
    same->read_bytes += c.read_bytes;
    same->write_bytes += c.write_bytes;
    same->total_us += c.total_us;
    same->seen_ms = std::max(same->seen_ms, c.seen_ms);
    same->idle_ms = std::min(same->idle_ms, c.idle_ms);
  }
  replaced.requests += gone_requests_.load(std::memory_order_relaxed);
  replaced.read_bytes += gone_read_bytes_.load(std::memory_order_relaxed);
  replaced.write_bytes += gone_write_bytes_.load(std::memory_order_relaxed);
  replaced.total_us += gone_ns_.load(std::memory_order_relaxed) / 1000;
}

}  // namespace nfsrdma::fuse

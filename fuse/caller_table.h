// SPDX-License-Identifier: Apache-2.0
// CallerTable: which threads made the requests of one loop, and the requests, bytes and time of each.
//
// FUSE gives the thread ID of the caller. 0 is the kernel itself (read-ahead, write-back) or a thread of a
// PID namespace that the daemon cannot see. The table holds 256 threads. A new thread takes the place of the
// least recently used one, whose numbers are added to a common sum; only its ID is lost. Linux reuses thread
// IDs: `seen_ms` tells a later thread with the same ID apart.
//
// One writer, the loop's thread, which never waits and needs no locked instruction; any number of readers. An
// entry's fields are written with release stores. A reader that sees a field as it is after a replacement
// therefore also sees an odd or changed version, and reads again.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/runtime/loop.h"

namespace nfsrdma::fuse {

// A snapshot of one thread's numbers.
struct CallerStatistics {
  pid_t tid = 0;
  uint64_t requests = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
  uint64_t total_us = 0;
  uint64_t seen_ms = 0;  // since its first request
  uint64_t idle_ms = 0;  // since its last answer
};

class CallerTable {
 public:
  static constexpr size_t kThreads = 256;

  CallerTable();

  // Owner loop's thread only.
  void answered(pid_t tid, TimePoint now, std::chrono::nanoseconds took) {
    Entry& e = entry_of(tid, now);
    add(e.requests, 1);
    add(e.total_ns, static_cast<uint64_t>(took.count()));
    e.last_ns.store(since_epoch(now), std::memory_order_release);
  }
  void has_read(pid_t tid, TimePoint started, size_t bytes) { add(entry_of(tid, started).read_bytes, bytes); }
  void has_written(pid_t tid, TimePoint started, size_t bytes) {
    add(entry_of(tid, started).write_bytes, bytes);
  }

  // Any thread. Adds each thread's numbers to the entry of the same thread in `sum`, and those of replaced
  // threads to `replaced`. A thread that is replaced during the call, or comes back, can be counted twice or
  // not at all in this sum.
  void add_to(std::vector<CallerStatistics>& sum, CallerStatistics& replaced, TimePoint now) const;

 private:
  using Number = std::atomic<uint64_t>;
  using Index = uint16_t;
  static constexpr Index kNone = UINT16_MAX;
  static constexpr pid_t kUnused = -1;

  struct Entry {
    std::atomic<uint32_t> version{0};  // odd while it is being replaced
    std::atomic<pid_t> tid{kUnused};
    Number requests{0}, read_bytes{0}, write_bytes{0}, total_ns{0}, first_ns{0}, last_ns{0};
  };
  // The writer's own: hash chains and the order of use.
  struct Links {
    Index newer = kNone, older = kNone;
    Index next = kNone;  // with the same hash
  };

  static uint64_t since_epoch(TimePoint t) {
    return static_cast<uint64_t>(std::chrono::nanoseconds(t.time_since_epoch()).count());
  }
  static void add(Number& number, uint64_t n) {
    number.store(number.load(std::memory_order_relaxed) + n, std::memory_order_release);
  }
  static size_t hash(pid_t tid) { return static_cast<uint32_t>(tid) % kThreads; }

  Entry& entry_of(pid_t tid, TimePoint now) {
    Entry& newest = entries_[newest_];
    return newest.tid.load(std::memory_order_relaxed) == tid ? newest : find(tid, now);
  }
  Entry& find(pid_t tid, TimePoint now);
  void replace(Entry& entry, pid_t tid, TimePoint now);
  void retire(const Entry& entry);
  void unhash(Index index);
  void make_newest(Index index);
  static bool read(const Entry& entry, CallerStatistics& out, TimePoint now);

  std::array<Entry, kThreads> entries_;
  Number gone_requests_{0}, gone_read_bytes_{0}, gone_write_bytes_{0}, gone_ns_{0};
  std::array<Links, kThreads> links_;
  std::array<Index, kThreads> heads_;
  Index newest_ = 0, oldest_ = kThreads - 1;
};

}  // namespace nfsrdma::fuse

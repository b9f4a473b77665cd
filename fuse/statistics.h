// SPDX-License-Identifier: Apache-2.0
// The FUSE side's counters: counts and latencies per operation, and notable events. FuseStatistics is a
// snapshot for `status` and `stats`; each loop keeps an OperationCounters.
//
// Each counter has one writer, the loop's thread, and any number of readers: relaxed atomics without a locked
// instruction. Latency is from reading the request to writing its reply.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fuse/caller_table.h"
#include "transport/runtime/latency_histogram.h"

namespace nfsrdma::fuse {

enum class Operation : uint8_t {
  kLookup,
  kForget,
  kGetattr,
  kSetattr,
  kAccess,
  kReadlink,
  kMknod,
  kMkdir,
  kUnlink,
  kRmdir,
  kSymlink,
  kRename,
  kLink,
  kOpen,
  kCreate,
  kRead,
  kWrite,
  kFlush,
  kFsync,
  kRelease,
  kOpendir,
  kReaddir,
  kReaddirplus,
  kReleasedir,
  kFsyncdir,
  kStatfs,
  kGetlk,
  kSetlk,
  kFlock,
  kIoctl,
  kCount
};
inline constexpr size_t kOperations = static_cast<size_t>(Operation::kCount);

std::string_view name_of(Operation operation);  // "LOOKUP", as the kernel calls them

struct FuseOperationStatistics {
  std::string_view name;
  uint64_t count = 0;   // answered
  uint64_t errors = 0;  // answered with an errno
  uint64_t total_us = 0;
  uint64_t max_us = 0;
  LatencyCounts latency{};
};

struct FuseStatistics {
  std::vector<FuseOperationStatistics> operations;  // those that occurred
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
  uint64_t in_flight = 0;      // requests whose work has not ended, including those answered early
  uint64_t interrupts = 0;     // INTERRUPT messages that met a waiting request
  uint64_t early_answers = 0;  // replies sent while the work went on: interrupt, soft mount, unmount
  uint64_t undone = 0;         // results given back because their request had been answered early
  uint64_t unanswered = 0;     // requests dropped without a reply: each is a bug
  uint64_t kernel_inodes = 0;  // inodes the kernel holds
  uint64_t invalidations = 0;  // notifications sent to the kernel
  uint64_t invalidations_merged = 0;
  std::vector<CallerStatistics> callers;  // by thread
  CallerStatistics replaced_callers;      // sum of the threads that were replaced in the table
  uint64_t invalidation_floods = 0;       // times the queue overflowed and everything was invalidated instead
};

class Counter {
 public:
  void add(uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void sub(uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) - n, std::memory_order_relaxed);
  }
  void raise_to(uint64_t n) {
    if (n > value()) value_.store(n, std::memory_order_relaxed);
  }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class OperationCounters {
 public:
  // Owner loop's thread only.
  void answered(Operation operation, int errnum, std::chrono::nanoseconds took);
  Counter read_bytes, write_bytes, in_flight, interrupts, early_answers, undone, unanswered;

  // Any thread: adds this loop's numbers to `sum`, whose operations are indexed by Operation.
  void add_to(FuseStatistics& sum) const;

 private:
  struct PerOperation {
    Counter errors, total_ns, max_ns;
    LatencyHistogram latency;  // its sum is the number of answered requests
  };
  std::array<PerOperation, kOperations> operations_;
};

// Zeros for add_to(), and the removal of operations that never occurred.
FuseStatistics empty_statistics();
void drop_unused(FuseStatistics& statistics);

}  // namespace nfsrdma::fuse

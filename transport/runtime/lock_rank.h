// SPDX-License-Identifier: Apache-2.0
// LockRank: where a mutex stands in the lock order (docs/dev/threads-and-locks.md). A thread that holds a
// mutex may only lock mutexes of a higher rank, so two of one rank are never held together.
//
// Under a sanitizer each thread counts the mutexes that it holds, and a program that breaks the order ends
// with both ranks on standard error. Other programs do not pay for it.
#pragma once

#include <cstdint>
#ifdef NFSRDMA_SANITIZED
#include <array>
#include <cstdio>
#include <cstdlib>
#endif

namespace nfsrdma {

enum class LockRank : uint8_t {
  kOuter,   // held while other parts are called
  kTable,   // guards a table in which objects are found
  kObject,  // belongs to one object, such as a Node
  kMemory,  // held while the watchers of a BufferPool are called
  kLeaf,    // nothing is locked while it is held
};

#ifdef NFSRDMA_SANITIZED
class HeldRanks {
 public:
  // Ends the program unless this thread may lock a mutex of the rank now.
  static void check(LockRank rank) {
    for (size_t held = index(rank); held < counts_.size(); ++held) {
      if (counts_[held] == 0) continue;
      std::fprintf(stderr, "lock order: a mutex of rank %zu is locked while one of rank %zu is held\n",
                   index(rank), held);
      std::abort();
    }
  }
  static void locked(LockRank rank) { ++counts_[index(rank)]; }
  static void unlocked(LockRank rank) { --counts_[index(rank)]; }

 private:
  static size_t index(LockRank rank) { return static_cast<size_t>(rank); }
  inline static thread_local std::array<uint32_t, 5> counts_{};
};
#endif

}  // namespace nfsrdma

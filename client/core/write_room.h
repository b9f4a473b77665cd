// SPDX-License-Identifier: Apache-2.0
// WriteRoom: limits how much written data the mount may hold, depending on the available memory. No I/O. One
// per mount; any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/core/mount_parts.h"
#include "client/core/write/write_limits.h"
#include "client/core/written_bytes.h"

namespace nfsrdma::client {

class WriteRoom {
 public:
  explicit WriteRoom(const MountParts& parts)
      : buffers_(parts.buffers), options_(parts.options), table_(parts.table) {}
  WriteRoom(const WriteRoom&) = delete;
  WriteRoom& operator=(const WriteRoom&) = delete;

  // A write need not wait.
  bool has_room() { return !awaits_answers() && !keeps_too_much(); }
  // Computes the limits from the available memory. Called twice a second while there is written data, else by
  // the first write.
  WriteLimits fit_writes(uint64_t available);
  WriteLimits write_limits();
  bool awaits_answers();  // too much data is unanswered, or memory is short
  bool keeps_too_much();  // too much data is uncommitted, or memory is short
  void note_memory_is_back();
  // Of all files.
  WrittenBytes& written() { return written_; }
  const WrittenBytes& written() const { return written_; }
  // A write of `bytes` begins to wait for room, or its wait ends.
  void wait_begins(size_t bytes) { waiting_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void wait_ends(size_t bytes) { waiting_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // The limit is computed anew when data is written next.
  void forget_limit() { write_limit_.store(0, std::memory_order_relaxed); }
  // An allocation failed, so memory counts as short for a while. False: it counted as short already.
  bool note_memory_is_short();

 private:
  uint64_t bytes_beside_data() const;  // bytes in buffers outside the data cache
  bool keeps_too_much_memory();        // the mount's buffers exceed the limit
  // An allocation failed recently. Then each write waits until the earlier data of its file is committed.
  bool memory_is_short() const;

  BufferPool& buffers_;
  const ClientOptions& options_;
  CachedNodeTable& table_;
  WrittenBytes written_;                    // sums over all files
  std::atomic<uint64_t> waiting_bytes_{0};  // of writes that wait for room
  std::atomic<uint64_t> write_limit_{0};    // WriteLimits::buffers(); 0: not known
  std::atomic<int64_t> short_until_{0};     // steady clock ticks; 0: memory is not short
};

}  // namespace nfsrdma::client

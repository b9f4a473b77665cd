// SPDX-License-Identifier: Apache-2.0
// ReadAheadService: data that is requested before anybody reads it. One per mount; any loop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "client/core/kept_data.h"
#include "client/core/mount_parts.h"
#include "client/core/read/ahead_readers.h"
#include "client/core/read/read_ahead.h"
#include "client/core/read/read_pace.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

class ReadAheadService {
 public:
  ReadAheadService(const MountParts& parts, KeptData& kept)
      : loops_(parts.loops),
        buffers_(parts.buffers),
        options_(parts.options),
        table_(parts.table),
        protocol_(parts.protocol),
        stopping_(parts.stopping),
        kept_(kept),
        ahead_on_(parts.loops.size()) {}
  ReadAheadService(const ReadAheadService&) = delete;
  ReadAheadService& operator=(const ReadAheadService&) = delete;

  // How far to read ahead through one descriptor, in bytes.
  uint64_t ahead_window(const CachedOpen& handle);
  // Sends the READs that follow from the descriptor's read pattern, as far as there is room.
  void read_ahead(const OpenFileRef& open, const IoAccount& account);
  struct Ahead {
    DataCache::Fill fill;
    uint64_t change = 0, epoch = 0;  // when the READ was sent
    unsigned loop = 0;               // the loop whose connection carries it
  };
  // How many bytes to read with the file's OPEN: the whole file if it is small and its data is not cached;
  // 0: do not read.
  size_t worth_reading_with_open(const NodeRef& node, int flags);
  // Caches data that came with an OPEN. `change` comes from the OPEN's attributes; `epoch` and `touched` (of
  // CachedNode::data_touched) are from before the OPEN was sent.
  void keep_read_with_open(CachedOpen& handle, const ReadPiece& piece, uint64_t change, uint64_t epoch,
                           uint32_t touched);
  // Stops the descriptor's read-ahead and waits for its READs in progress. Then the file may be closed on the
  // server.
  Task<> end_read_ahead(OpenFileRef open);
  // Waits for all READs in progress; stopping_ is already set.
  Task<> end_all_read_ahead();
  ReadPace& pace() { return pace_; }
  // The descriptor is read: data that came with its OPEN was worth it.
  void note_read(CachedOpen& handle) {
    if (handle.unread.load(std::memory_order_relaxed) && handle.unread.exchange(false)) opened_unread_ = 0;
  }

 private:
  // The loop whose connection may carry one more READ; nothing: there is no room. ahead_mutex_ held.
  std::optional<unsigned> loop_for_ahead() const NFSRDMA_REQUIRES(ahead_mutex_);
  // Sends a READ for the first part of `range` that is not cached. `range` becomes the rest. False:
  // read-ahead is not possible now.
  bool send_ahead(const OpenFileRef& open, const IoAccount& account, ReadRange& range, unsigned loop);
  Task<> fetch_ahead(OpenFileRef open, IoAccount account, Ahead ahead);
  // The READ was answered: caches its data or not, see keep_decision.h.
  void finish_ahead(CachedOpen& handle, const Ahead& ahead, const Result<ReadPiece>& piece);

  LoopPool& loops_;
  BufferPool& buffers_;
  const ClientOptions& options_;
  CachedNodeTable& table_;
  Protocol& protocol_;
  const std::atomic<bool>& stopping_;
  KeptData& kept_;
  ReadPace pace_;
  AheadReaders ahead_readers_;
  // The number of OPENs in a row whose data was fetched and not read; and of OPENs since then without data.
  std::atomic<unsigned> opened_unread_{0}, opened_plain_{0};
  Mutex ahead_mutex_{LockRank::kTable};
  unsigned ahead_under_way_ NFSRDMA_GUARDED_BY(ahead_mutex_) = 0;
  std::vector<unsigned> ahead_on_ NFSRDMA_GUARDED_BY(ahead_mutex_);  // the same by loop
  unsigned ahead_next_ NFSRDMA_GUARDED_BY(ahead_mutex_) = 0;         // the loop to try first
  WaitQueue ahead_ended_ NFSRDMA_GUARDED_BY(ahead_mutex_);
};

}  // namespace nfsrdma::client

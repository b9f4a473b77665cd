// SPDX-License-Identifier: Apache-2.0
// DataCache: clean file data in the daemon: read-ahead data, and data that was read again after it had been
// answered once.
//
// One per mount, any thread, one short lock. The lock is a leaf: nothing is called while it is held, so it
// may be taken with a Node's mutex held. Files are identified by their Node, which calls forget() before it
// is destroyed.
//
// An extent is one buffer of the BufferPool, in memory that an RDMA fabric registers: READ data lands in it,
// and the reply to the kernel is written from it. It has a place in one file from the moment its READ is sent
// (kFilling) until it is dropped. Each of its 4 KiB pages is valid or not. Extents of a file are disjoint.
//
// The owner decides when a file's data is out of date and must be dropped. An extent that is dropped while it
// is being filled is not kept when its data arrives, and nobody waits for it. Data that a reply uses stays in
// memory until the reply is sent, whatever happens to the extent.
//
// limit() bounds the bytes of buffers. Eviction starts with extents whose every page has been answered,
// because the kernel has these pages, too. They get kAnsweredShare of the room and at most kAnsweredMost:
// memory that is used again soon is still in the processor's cache, and new memory has to be faulted in page
// by page. Then the least recently used extents go: those of the largest file if it exceeds its share, else
// those of all files. A share is the room divided by the number of files with data in it, but at least
// 1/kMostSharers of the room, so that a cache full of small files has room for a new one. Extents that are
// being filled or replied from stay.
#pragma once

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/memory/buffer.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::client {

class Node;

class DataCache {
 public:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kMaxExtentBytes = 1u << 20;
  // 1/kAnsweredShare of the room is for data that the kernel has, too.
  static constexpr uint64_t kAnsweredShare = 16;
  static constexpr uint64_t kAnsweredMost = 32u << 20;
  static constexpr uint64_t kMostSharers = 8;

  // In bytes. Data beyond the limit is dropped at once. 0: no data is cached.
  void set_limit(uint64_t bytes);
  uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // The limit for a machine with `available` memory while the cache holds `kept` bytes: half of what would be
  // available without the cache. So the cache shrinks when other programs need memory, and grows again later.
  // kLeastRoom is always allowed: a lack of memory is often short, and read-ahead needs some room.
  static constexpr uint64_t kLeastRoom = 4u << 20;
  static uint64_t fitting(uint64_t wanted, uint64_t available, uint64_t kept) {
    return std::min(wanted, std::max((available + kept) / 2, kLeastRoom));
  }
  // The room of one file while other files have data, too.
  uint64_t share() const { return limit() / sharers(sharing_.load(std::memory_order_relaxed)); }

  // --- reading ---
  // The cached data at the beginning of a range.
  struct Found {
    std::vector<Slice> data;
    size_t size = 0;       // of `data`
    bool end = false;      // the file ends there
    bool awaited = false;  // the following bytes are being filled: wait()
    size_t missing = 0;    // otherwise, the number of following bytes that no READ was sent for
  };
  // Marks the data as answered. Drops data that was last confirmed before `oldest`.
  Found find(const Node& file, uint64_t offset, size_t size, TimePoint oldest);
  // Waits until the extent at `offset` is filled or dropped. `file` must outlive the call.
  Task<> wait(const Node& file, uint64_t offset);
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }  // of buffers
  bool empty() const { return bytes() == 0; }

  // --- filling ---
  struct Fill {
    const Node* file = nullptr;
    uint64_t offset = 0;
    uint64_t id = 0;
    Slice room;
  };
  // Makes the first uncached part of [offset, offset + size) kFilling, at most kMaxExtentBytes. Nothing if
  // all of it is cached, or if there is no room. complete() or abandon() must end each Fill.
  std::optional<Fill> begin(const Node& file, uint64_t offset, size_t size, BufferPool& buffers);
  // As above with the caller's memory, for [offset, offset + room.size()). Nothing if any of it is cached.
  std::optional<Fill> begin(const Node& file, uint64_t offset, Slice room);
  // True: every byte of the range is cached or being filled.
  bool covers(const Node& file, uint64_t offset, size_t size) const;
  // The READ brought the first `bytes` of the room, which are the server's data as of `now`. `end`: the file
  // ends there. Returns false if the data is not kept.
  bool complete(const Fill& fill, size_t bytes, bool end, TimePoint now);
  // The READ's `bytes` are not kept.
  void abandon(const Fill& fill, size_t bytes = 0);

  // --- validity ---
  // The file's cached data was the server's as of `now`.
  void confirm(const Node& file, TimePoint now);
  // Forgets when each file's data was confirmed.
  void doubt_all();
  // [offset, end) was written, so cached data there is invalid, and the end of the file may have moved.
  void punch(const Node& file, uint64_t offset, uint64_t end);
  void drop(const Node& file);
  void drop_all();
  // As drop(); the Node is about to be destroyed.
  void forget(const Node& file);

  // --- memory ---
  // Call it periodically: moves cached data out of slabs that are leaving (BufferPool), a few MiB at a time.
  // Memory that a reply uses stays until the reply is sent.
  void leave_slabs(BufferPool& buffers);

  struct Numbers {
    uint64_t bytes = 0;  // of buffers, with kFilling
    uint64_t extents = 0;
    uint64_t hits = 0, hit_bytes = 0;  // reads answered from here, wholly or in part
    uint64_t filled_bytes = 0;         // read ahead and kept
    uint64_t wasted_bytes = 0;         // of these: dropped before any read
    uint64_t refused_bytes = 0;        // read ahead and dropped on arrival
    uint64_t evicted_bytes = 0;        // dropped for lack of room
  };
  Numbers numbers() const;

 private:
  static constexpr size_t kPages = kMaxExtentBytes / kPageBytes;
  using Pages = std::bitset<kPages>;
  static Pages range(size_t first, size_t last);  // pages [first, last)
  struct File;
  struct Extent;
  using Extents = std::map<uint64_t, Extent>;
  enum class Class : uint8_t { kFilling, kAnswered, kKept };
  // Of all files, or of one; least recently used first.
  struct Queue {
    std::list<Extent*> extents;
    uint64_t bytes = 0;
  };
  using Place = std::list<Extent*>::iterator;
  // All extents of kAnswered, or of kKept.
  struct Room {
    Queue all;
    std::set<std::pair<uint64_t, File*>> by_bytes;  // files with extents of this class
  };
  struct Extent {
    File* file = nullptr;
    uint64_t offset = 0;
    uint64_t end = 0;
    Slice data;
    uint64_t id = 0;
    Class in = Class::kFilling;
    bool again = false;  // read again after it had been answered
    Pages valid, answered;
    Place place, place_in_file, place_in_all;
  };
  struct File {
    const Node* node = nullptr;
    Extents extents;
    Queue answered, kept;
    std::optional<uint64_t> size;  // where a READ found the file's end
    uint64_t size_since = 0;  // the first Fill whose READ may set `size`; earlier ones began before a write
    TimePoint confirmed = TimePoint::min();
    WaitQueue filled;  // woken when an extent is filled or dropped
  };

  File* find_file(const Node& file) const NFSRDMA_REQUIRES(mutex_);
  static Extents::iterator at_or_after(File& file, uint64_t offset);
  static uint64_t first_not_here(File& file, uint64_t from);
  size_t take_valid(Extent& extent, uint64_t offset, uint64_t end, std::vector<Slice>& into)
      NFSRDMA_REQUIRES(mutex_);
  void note_answered(Extent& extent, size_t first, size_t last) NFSRDMA_REQUIRES(mutex_);
  void set_class(Extent& extent, Class to) NFSRDMA_REQUIRES(mutex_);
  Room& room(Class c) { return c == Class::kAnswered ? answered_ : kept_; }
  static Queue& queue(File& file, Class c) { return c == Class::kAnswered ? file.answered : file.kept; }
  void enter(Extent& extent) NFSRDMA_REQUIRES(mutex_);
  void leave(Extent& extent) NFSRDMA_REQUIRES(mutex_);
  void recount(File& file, Class c, uint64_t bytes) NFSRDMA_REQUIRES(mutex_);
  // remove() and the functions below move an extent's memory to `going`, which is freed after the lock is
  // released.
  using Going = std::vector<Slice>;
  void remove(Extents::iterator extent, Going& going) NFSRDMA_REQUIRES(mutex_);
  void remove_all(File& file, Going& going) NFSRDMA_REQUIRES(mutex_);
  void drop_if_idle(File& file) NFSRDMA_REQUIRES(mutex_);
  // Locks mutex_. Looks at the next extents, at most `left`, and returns those in leaving slabs. Reduces
  // `left`.
  std::vector<Fill> look_for_leaving(size_t& left);
  void replace(const Fill& old, Slice data, Going& going) NFSRDMA_REQUIRES(mutex_);
  bool make_room(uint64_t limit, Going& going) NFSRDMA_REQUIRES(mutex_);
  bool evict_one(Class from, Going& going) NFSRDMA_REQUIRES(mutex_);
  void trim_answered(Going& going) NFSRDMA_REQUIRES(mutex_);
  uint64_t bytes_of(Class c) const;  // the limit of this class
  static uint64_t sharers(size_t files) { return std::clamp<uint64_t>(files, 1, kMostSharers); }

  mutable Mutex mutex_;
  std::unordered_map<const Node*, std::unique_ptr<File>> files_ NFSRDMA_GUARDED_BY(mutex_);
  Room answered_ NFSRDMA_GUARDED_BY(mutex_), kept_ NFSRDMA_GUARDED_BY(mutex_);
  std::list<Extent*> all_ NFSRDMA_GUARDED_BY(mutex_);  // in order of begin()
  // In all_: where the search for leaving slabs continues.
  Place look_next_ NFSRDMA_GUARDED_BY(mutex_){all_.end()};
  std::atomic<size_t> sharing_{0};  // files in kept_
  uint64_t next_id_ NFSRDMA_GUARDED_BY(mutex_) = 1;
  std::atomic<uint64_t> limit_{0};
  std::atomic<uint64_t> bytes_{0};  // kFilling included
  Numbers numbers_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// Buffers for bulk data: where a FUSE request is read, where READ data lands, what a WRITE is sent from.
//
// A Buffer is page-aligned memory of one power-of-two size class, 4 KiB...2 MiB, reference-counted by
// BufferRef (any thread) and returned to its BufferPool when the last reference goes. Pools are shared by all
// loops; a short lock per get and put.
//
// Buffers are cut from slabs: 2 MiB of memory aligned to 2 MiB, one huge page where the system gives one, all
// buffers of one size until nothing of it is in use; another size may have it then. A slab is what an RDMA
// fabric registers, once, with the first buffer of it that it is given; slab_of() tells which one that is,
// and a SlabWatcher hears of a slab before it goes.
//
// A slab with one buffer of it in use is all there. Where what is in use would lie in far fewer slabs, trim()
// marks the emptiest as leaving: nothing is taken from them while others of their size have room, and who
// keeps buffers for long moves what is_leaving() elsewhere.
//
// Slice: a reference with a window; copying one shares the memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/memory/pipe.h"
#include "xdr/support/bytes.h"

namespace nfsrdma {

class BufferPool;
struct Slab;

class Buffer {
 public:
  std::byte* data() { return data_; }
  size_t capacity() const { return capacity_; }

 private:
  friend class BufferPool;
  friend class BufferRef;
  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
  std::atomic<uint32_t> references_{0};
  Slab* slab_ = nullptr;
};

class BufferRef {
 public:
  BufferRef() = default;
  BufferRef(const BufferRef& o) noexcept : buffer_(o.buffer_) {
    if (buffer_ != nullptr) buffer_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  BufferRef(BufferRef&& o) noexcept : buffer_(std::exchange(o.buffer_, nullptr)) {}
  BufferRef& operator=(BufferRef o) noexcept {
    std::swap(buffer_, o.buffer_);
    return *this;
  }
  ~BufferRef() { reset(); }
  void reset();
  bool unique() const {
    return buffer_ != nullptr && buffer_->references_.load(std::memory_order_acquire) == 1;
  }

  explicit operator bool() const { return buffer_ != nullptr; }
  Buffer* operator->() const { return buffer_; }
  MutableBytes bytes() const { return {buffer_->data(), buffer_->capacity()}; }

 private:
  friend class BufferPool;
  explicit BufferRef(Buffer* b) : buffer_(b) { buffer_->references_.store(1, std::memory_order_relaxed); }
  Buffer* buffer_ = nullptr;
};

struct Slice {
  BufferRef buffer;
  MutableBytes bytes;

  size_t size() const { return bytes.size(); }
  Slice first(size_t n) const { return {buffer, bytes.first(n)}; }
  Slice subslice(size_t offset, size_t n) const { return {buffer, bytes.subspan(offset, n)}; }
};

// Who keeps something by slab. Called by whichever thread gives the last buffer of the slab back, which
// nobody has any more; when it returns, the memory goes back to the system.
class SlabWatcher {
 public:
  virtual void on_slab_going(const std::byte* slab) = 0;

 protected:
  ~SlabWatcher() = default;
};

class BufferPool {
 public:
  static constexpr size_t kMinBytes = 4096;
  static constexpr size_t kMaxBytes = 2u << 20;

  static constexpr size_t kSlabBytes = kMaxBytes;

  // Slabs of which nothing is in use are kept up to `keep_bytes`; then the one not used for longest goes back
  // to the system. Not the last one used, and what is idle is cut anew for another size only where there is
  // one for each: sizes that are used in turn would have a slab cut for every buffer. What was used of late
  // is kept up to `lately_bytes`, if that is more, for who calls trim(): where a virtual machine's host takes
  // free pages back, the first touch of one costs 1.5 CPU s/GiB and more (docs/PERFORMANCE.md), four times
  // all else that a write costs.
  explicit BufferPool(size_t keep_bytes = 64u << 20, size_t lately_bytes = 0);
  ~BufferPool();  // every reference must be gone
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A buffer of at least `bytes` (<= kMaxBytes); contents undefined. Null only when memory is exhausted.
  BufferRef get(size_t bytes);
  // A slice of exactly `bytes`.
  Slice slice(size_t bytes);

  // For data that need not be in memory at all.
  PipePool& pipes() { return pipes_; }

  // To be called periodically: slabs that have been idle for `calls` of them go, down to `keep_bytes`, some
  // at a time. And of each size of buffers slabs leave until what is in use fills eight of nine of the rest,
  // but one.
  void trim(unsigned calls, size_t keep_bytes);
  void trim(unsigned calls) { trim(calls, keep_bytes_); }
  size_t idle_bytes() const;
  bool anything_leaving() const { return leaving_slabs_.load(std::memory_order_relaxed) != 0; }
  static bool is_leaving(const BufferRef& buffer);

  size_t outstanding_bytes() const { return outstanding_bytes_.load(std::memory_order_relaxed); }

  // The slab that all of `bytes` is in, kSlabBytes long; null: this memory is not of this pool.
  const std::byte* slab_of(ConstBytes bytes) const;
  size_t slabs() const;
  // Watchers outlive neither the pool nor their own removal.
  void add_watcher(SlabWatcher& watcher);
  void remove_watcher(SlabWatcher& watcher);

 private:
  friend class BufferRef;
  static constexpr unsigned kClasses = 10;  // 4 KiB << 0 ... 4 KiB << 9
  void put(Buffer* b);
  Slab* add_slab(unsigned size_class);
  void cut(Slab& slab, unsigned size_class);
  std::unique_ptr<Slab> take_out(Slab* idle);
  void let_go(std::unique_ptr<Slab> slab);
  Slab* stay(Slab* slab);
  void leave_emptiest(unsigned size_class);

  const size_t keep_bytes_;
  const size_t lately_bytes_;
  unsigned trims_ = 0;
  PipePool pipes_;
  mutable std::mutex mutex_;
  // Slabs with a free buffer, the one to take from last; those leaving apart.
  std::array<std::vector<Slab*>, kClasses> partial_, leaving_;
  std::unordered_map<const std::byte*, std::unique_ptr<Slab>> slabs_;
  std::list<Slab*> busy_;  // something of them is in use
  std::list<Slab*> idle_;  // nothing is; the one used last is last

  std::mutex watching_;  // held while watchers are told: who is removed hears no more
  std::vector<SlabWatcher*> watchers_;
  std::atomic<size_t> outstanding_bytes_{0};
  std::atomic<size_t> leaving_slabs_{0};
};

}  // namespace nfsrdma

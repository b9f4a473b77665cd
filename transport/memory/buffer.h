// SPDX-License-Identifier: Apache-2.0
// Buffers for bulk data. FUSE requests and READ data are received into them, and WRITE data is sent from
// them.
//
// A Buffer is page-aligned memory of one power-of-two size class, 4 KiB to 2 MiB. BufferRef counts references
// (any thread). The last reference returns the buffer to its BufferPool. All loops share a pool; each get and
// put takes a short lock.
//
// Buffers are cut from slabs: 2 MiB of memory aligned to 2 MiB, in one huge page if the system provides one.
// All buffers of a slab have one size. A slab can be cut for another size only when none of its buffers is in
// use. An RDMA fabric registers whole slabs, each one once, when it first gets a buffer from it. slab_of()
// returns a buffer's slab, and a SlabWatcher is told before a slab is freed.
//
// A slab with a single buffer in use stays allocated as a whole. When the buffers in use would fit into far
// fewer slabs, trim() marks the emptiest slabs as leaving. get() takes no buffer from a leaving slab while
// others of its size have room. Owners that keep buffers for long move those for which is_leaving() is true
// to another slab.
//
// Slice: a reference and a part of its buffer's memory. A copy shares the memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/memory/pipe.h"
#include "transport/runtime/mutex.h"
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
  void reset() {
    if (Buffer* b = std::exchange(buffer_, nullptr)) let_go(b);
  }
  bool unique() const {
    return buffer_ != nullptr && buffer_->references_.load(std::memory_order_acquire) == 1;
  }

  explicit operator bool() const { return buffer_ != nullptr; }
  Buffer* operator->() const { return buffer_; }
  MutableBytes bytes() const { return {buffer_->data(), buffer_->capacity()}; }

 private:
  friend class BufferPool;
  static void let_go(Buffer* b);
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

// For an owner of data per slab, such as a registration. Called on the thread that returned the slab's last
// buffer or called trim(), when nobody has a buffer of the slab any more. After the call returns, the memory
// is freed.
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

  // A slab without a buffer in use is idle. The pool keeps idle slabs up to max(`keep_bytes`,
  // `lately_bytes`); beyond that it frees the slab that was unused for longest. trim() also frees slabs that
  // stayed idle, down to `keep_bytes`. `lately_bytes` is for virtual machines whose host takes free pages
  // back: there the first touch of a page costs 1.5 CPU s/GiB and more (docs/bench/read-ahead.md), four times
  // all other costs of a write. An idle slab is cut for another size only when there are more idle slabs than
  // sizes: otherwise sizes that are used in turn would cut a slab for every buffer.
  explicit BufferPool(size_t keep_bytes = 64u << 20, size_t lately_bytes = 0);
  ~BufferPool();  // no reference may be left
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A buffer of at least `bytes` (<= kMaxBytes); contents undefined. Null only when memory is exhausted.
  BufferRef get(size_t bytes);
  // A slice of exactly `bytes`.
  Slice slice(size_t bytes);

  // Pipes, for data that need not reach our memory.
  PipePool& pipes() { return pipes_; }

  // To be called periodically. Frees slabs that were idle for `calls` calls, down to `keep_bytes`, a few at a
  // time. For each buffer size it keeps 9/8 of the slabs that the buffers in use need, plus one, and marks
  // the emptiest of the others as leaving.
  void trim(unsigned calls, size_t keep_bytes);
  void trim(unsigned calls) { trim(calls, keep_bytes_); }
  size_t idle_bytes() const;
  bool anything_leaving() const { return leaving_slabs_.load(std::memory_order_relaxed) != 0; }
  static bool is_leaving(const BufferRef& buffer);

  size_t outstanding_bytes() const { return outstanding_bytes_.load(std::memory_order_relaxed); }

  // The start of the slab, kSlabBytes long, that contains all of `bytes`. Null: not memory of this pool.
  const std::byte* slab_of(ConstBytes bytes) const;
  size_t slabs() const;
  // A watcher is removed before it or the pool is destroyed. remove_watcher() returns only after its
  // callbacks finished.
  void add_watcher(SlabWatcher& watcher);
  void remove_watcher(SlabWatcher& watcher);

 private:
  friend class BufferRef;
  static constexpr unsigned kClasses = 10;  // 4 KiB << 0 ... 4 KiB << 9
  void put(Buffer* b);
  Slab* add_slab(unsigned size_class) NFSRDMA_REQUIRES(mutex_);
  void cut(Slab& slab, unsigned size_class) NFSRDMA_REQUIRES(mutex_);
  std::unique_ptr<Slab> take_out(Slab* idle) NFSRDMA_REQUIRES(mutex_);
  void let_go(std::unique_ptr<Slab> slab);
  Slab* stay(Slab* slab) NFSRDMA_REQUIRES(mutex_);
  void leave_emptiest(unsigned size_class) NFSRDMA_REQUIRES(mutex_);

  const size_t keep_bytes_;
  const size_t lately_bytes_;
  unsigned trims_ = 0;
  PipePool pipes_;
  mutable Mutex mutex_;
  // Slabs with a free buffer; get() takes from the last one. Leaving slabs are kept apart.
  std::array<std::vector<Slab*>, kClasses> partial_ NFSRDMA_GUARDED_BY(mutex_), leaving_
      NFSRDMA_GUARDED_BY(mutex_);
  std::unordered_map<const std::byte*, std::unique_ptr<Slab>> slabs_ NFSRDMA_GUARDED_BY(mutex_);
  std::list<Slab*> busy_ NFSRDMA_GUARDED_BY(mutex_);  // with a buffer in use
  std::list<Slab*> idle_ NFSRDMA_GUARDED_BY(mutex_);  // without; the last one was used most recently

  Mutex watching_{
      LockRank::kMemory};  // held while watchers are called, so that remove_watcher() waits for them
  std::vector<SlabWatcher*> watchers_ NFSRDMA_GUARDED_BY(watching_);
  std::atomic<size_t> outstanding_bytes_{0};
  std::atomic<size_t> leaving_slabs_{0};
};

}  // namespace nfsrdma

// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/buffer.h"
#include "transport/runtime/check.h"
#include "transport/runtime/mutex.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>

namespace nfsrdma {

struct Slab {
  Slab(BufferPool& p, std::byte* m) : pool(p), memory(m) {}
  ~Slab() { std::free(memory); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  BufferPool& pool;
  std::byte* const memory;
  unsigned size_class = 0;
  size_t count = 0;
  std::unique_ptr<Buffer[]> buffers;
  std::vector<Buffer*> free;         // the buffer returned last is taken first
  unsigned idle_since = 0;           // the value of trims_ when the slab became idle
  std::atomic<bool> leaving{false};  // changed with the pool's lock held
  std::list<Slab*>::iterator place;  // in the pool's busy_ or idle_
};

namespace {

constexpr unsigned kTrimmedAtOnce = 16;  // slabs freed by one trim(): returning their pages takes time

const std::byte* slab_address(const std::byte* at) {
  return reinterpret_cast<const std::byte*>(reinterpret_cast<uintptr_t>(at) & ~(BufferPool::kSlabBytes - 1));
}

}  // namespace

void BufferRef::let_go(Buffer* b) {
  if (b->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) b->slab_->pool.put(b);
}

BufferPool::BufferPool(size_t keep_bytes, size_t lately_bytes)
    : keep_bytes_(keep_bytes), lately_bytes_(std::max(keep_bytes, lately_bytes)) {}

BufferPool::~BufferPool() {
  NFSRDMA_CHECK(outstanding_bytes() == 0);
  NFSRDMA_CHECK(watchers_.empty());
}

// Called with the lock held. Null: no memory. If there are more idle slabs than sizes, cuts the oldest idle
// slab anew instead of allocating one: its pages are resident and registered.
Slab* BufferPool::add_slab(unsigned size_class) {
  const auto cut_anew = [&]() NFSRDMA_REQUIRES(mutex_) {
    Slab* oldest = idle_.front();
    std::erase(partial_[oldest->size_class], oldest);
    cut(*oldest, size_class);
    return oldest;
  };
  if (idle_.size() > kClasses) return cut_anew();
  void* memory = std::aligned_alloc(kSlabBytes, kSlabBytes);
  if (memory == nullptr) return idle_.empty() ? nullptr : cut_anew();
  (void)::madvise(memory, kSlabBytes, MADV_DONTDUMP);  // a core dump holds no file data
  auto slab = std::make_unique<Slab>(*this, static_cast<std::byte*>(memory));
  slab->place = idle_.insert(idle_.end(), slab.get());
  cut(*slab, size_class);
  return slabs_.emplace(slab->memory, std::move(slab)).first->second.get();
}

// Called with the lock held.
void BufferPool::cut(Slab& slab, unsigned size_class) {
  const size_t capacity = kMinBytes << size_class;
  // With small buffers, a huge page would make the whole slab resident for a few pages.
  if (capacity >= kSlabBytes / 8) (void)::madvise(slab.memory, kSlabBytes, MADV_HUGEPAGE);
  slab.size_class = size_class;
  slab.count = kSlabBytes / capacity;
  slab.buffers = std::make_unique<Buffer[]>(slab.count);
  slab.free.clear();
  for (size_t i = slab.count; i-- > 0;) {
    Buffer& b = slab.buffers[i];
    b.data_ = slab.memory + i * capacity;
    b.capacity_ = capacity;
    b.slab_ = &slab;
    slab.free.push_back(&b);
  }
  partial_[size_class].push_back(&slab);
}

BufferRef BufferPool::get(size_t bytes) {
  NFSRDMA_CHECK(bytes <= kMaxBytes);
  const size_t capacity = std::bit_ceil(std::max(bytes, kMinBytes));
  const auto size_class = static_cast<unsigned>(std::countr_zero(capacity / kMinBytes));
  MutexLock lock(mutex_);
  auto& partial = partial_[size_class];
  if (partial.empty() && !leaving_[size_class].empty()) partial.push_back(stay(leaving_[size_class].back()));
  Slab* slab = partial.empty() ? add_slab(size_class) : partial.back();
  if (slab == nullptr) return {};
  if (slab->free.size() == slab->count) busy_.splice(busy_.end(), idle_, slab->place);
  Buffer* b = slab->free.back();
  slab->free.pop_back();
  if (slab->free.empty()) partial.pop_back();
  outstanding_bytes_.fetch_add(capacity, std::memory_order_relaxed);
  return BufferRef(b);
}

Slice BufferPool::slice(size_t bytes) {
  BufferRef b = get(bytes);
  if (!b) return {};
  const MutableBytes window = b.bytes().first(bytes);
  return {std::move(b), window};
}

void BufferPool::put(Buffer* b) {
  outstanding_bytes_.fetch_sub(b->capacity_, std::memory_order_relaxed);
  std::unique_ptr<Slab> going;
  {
    MutexLock lock(mutex_);
    Slab* slab = b->slab_;
    slab->free.push_back(b);
    if (slab->free.size() == 1) partial_[slab->size_class].push_back(slab);
    if (slab->free.size() == slab->count) {
      // Insert it where get() takes last: otherwise buffers moved from the next leaving slab would come here.
      auto& partial = partial_[slab->size_class];
      if (slab->leaving) partial.insert(partial.begin(), stay(slab));
      idle_.splice(idle_.end(), busy_, slab->place);
      slab->idle_since = trims_;
      if (idle_.size() * kSlabBytes > lately_bytes_) going = take_out(idle_.front());
    }
  }
  if (going) let_go(std::move(going));
}

void BufferPool::let_go(std::unique_ptr<Slab> slab) {
  MutexLock lock(watching_);
  for (SlabWatcher* w : watchers_) w->on_slab_going(slab->memory);
}

void BufferPool::trim(unsigned calls, size_t keep_bytes) {
  std::vector<std::unique_ptr<Slab>> going;
  {
    MutexLock lock(mutex_);
    ++trims_;
    while (going.size() < kTrimmedAtOnce && idle_.size() * kSlabBytes > keep_bytes &&
           trims_ - idle_.front()->idle_since >= calls)
      going.push_back(take_out(idle_.front()));
    for (unsigned c = 0; c < kClasses; ++c) leave_emptiest(c);
  }
  for (auto& slab : going) let_go(std::move(slab));
}

// Called with the lock held.
Slab* BufferPool::stay(Slab* slab) {
  std::erase(leaving_[slab->size_class], slab);
  slab->leaving = false;
  leaving_slabs_.fetch_sub(1, std::memory_order_relaxed);
  return slab;
}

// Called with the lock held. Neither full nor idle slabs are counted.
void BufferPool::leave_emptiest(unsigned size_class) {
  auto &partial = partial_[size_class], &leaving = leaving_[size_class];
  const auto is_idle = [](const Slab* s) { return s->free.size() == s->count; };
  size_t slabs = 0, used = 0;
  for (const auto* of : {&partial, &leaving}) {
    for (const Slab* s : *of) {
      slabs += is_idle(s) ? 0 : 1;
      used += s->count - s->free.size();
    }
  }
  const size_t count = kSlabBytes / (kMinBytes << size_class);
  const size_t full = (used + count - 1) / count;
  const size_t enough = full + full / 8 + 1 + leaving.size();
  if (slabs <= enough) return;
  std::ranges::sort(partial, std::greater(), [](const Slab* s) { return s->free.size(); });
  const auto first = std::ranges::find_if_not(partial, is_idle);
  const auto last = first + static_cast<std::ptrdiff_t>(slabs - enough);
  for (auto s = first; s != last; ++s) (*s)->leaving = true;
  // The fullest is last: get() takes the last one back when it needs a slab.
  leaving.insert(leaving.begin(), first, last);
  std::ranges::sort(leaving, std::greater(), [](const Slab* s) { return s->free.size(); });
  partial.erase(first, last);
  leaving_slabs_.fetch_add(slabs - enough, std::memory_order_relaxed);
}

bool BufferPool::is_leaving(const BufferRef& buffer) {
  return buffer && buffer.buffer_->slab_->leaving.load(std::memory_order_relaxed);
}

size_t BufferPool::idle_bytes() const {
  MutexLock lock(mutex_);
  return idle_.size() * kSlabBytes;
}

// Called with the lock held. Nobody finds the slab after this.
std::unique_ptr<Slab> BufferPool::take_out(Slab* slab) {
  idle_.erase(slab->place);
  std::erase(partial_[slab->size_class], slab);
  const auto at = slabs_.find(slab->memory);
  std::unique_ptr<Slab> taken = std::move(at->second);
  slabs_.erase(at);
  return taken;
}

const std::byte* BufferPool::slab_of(ConstBytes bytes) const {
  const std::byte* address = slab_address(bytes.data());
  if (bytes.data() + bytes.size() > address + kSlabBytes) return nullptr;
  MutexLock lock(mutex_);
  return slabs_.contains(address) ? address : nullptr;
}

size_t BufferPool::slabs() const {
  MutexLock lock(mutex_);
  return slabs_.size();
}

void BufferPool::add_watcher(SlabWatcher& watcher) {
  MutexLock lock(watching_);
  watchers_.push_back(&watcher);
}

void BufferPool::remove_watcher(SlabWatcher& watcher) {
  MutexLock lock(watching_);
  std::erase(watchers_, &watcher);
}

}  // namespace nfsrdma

#include "transport/memory/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>

namespace nfsrdma {

struct Slab {
  Slab(BufferPool& p, std::byte* m, unsigned c) : pool(p), memory(m), size_class(c) {}
  ~Slab() { std::free(memory); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  BufferPool& pool;
  std::byte* const memory;
  const unsigned size_class;
  size_t count = 0;
  std::unique_ptr<Buffer[]> buffers;
  std::vector<Buffer*> free;         // the one used last is taken first
  unsigned idle_since = 0;           // trims_ of then
  std::list<Slab*>::iterator place;  // in the pool's busy_ or idle_
};

namespace {

constexpr unsigned kTrimmedAtOnce = 16;  // slabs: their pages take a while to be given back

const std::byte* slab_address(const std::byte* at) {
  return reinterpret_cast<const std::byte*>(reinterpret_cast<uintptr_t>(at) & ~(BufferPool::kSlabBytes - 1));
}

}  // namespace

void BufferRef::reset() {
  Buffer* b = std::exchange(buffer_, nullptr);
  if (b != nullptr && b->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) b->slab_->pool.put(b);
}

BufferPool::BufferPool(size_t keep_bytes, size_t lately_bytes)
    : keep_bytes_(keep_bytes), lately_bytes_(std::max(keep_bytes, lately_bytes)) {}

BufferPool::~BufferPool() {
  assert(outstanding_bytes() == 0);
  assert(watchers_.empty());
}

// With the lock held. Null: no memory.
Slab* BufferPool::add_slab(unsigned size_class) {
  void* memory = std::aligned_alloc(kSlabBytes, kSlabBytes);
  if (memory == nullptr) return nullptr;
  // Small buffers would make all of it resident for a few pages.
  const size_t capacity = kMinBytes << size_class;
  if (capacity >= kSlabBytes / 8) (void)::madvise(memory, kSlabBytes, MADV_HUGEPAGE);
  auto slab = std::make_unique<Slab>(*this, static_cast<std::byte*>(memory), size_class);
  slab->count = kSlabBytes / capacity;
  slab->buffers = std::make_unique<Buffer[]>(slab->count);
  for (size_t i = slab->count; i-- > 0;) {
    Buffer& b = slab->buffers[i];
    b.data_ = slab->memory + i * capacity;
    b.capacity_ = capacity;
    b.slab_ = slab.get();
    slab->free.push_back(&b);
  }
  slab->place = idle_.insert(idle_.end(), slab.get());
  partial_[size_class].push_back(slab.get());
  return slabs_.emplace(slab->memory, std::move(slab)).first->second.get();
}

BufferRef BufferPool::get(size_t bytes) {
  assert(bytes <= kMaxBytes);
  const size_t capacity = std::bit_ceil(std::max(bytes, kMinBytes));
  const auto size_class = static_cast<unsigned>(std::countr_zero(capacity / kMinBytes));
  std::lock_guard lock(mutex_);
  auto& partial = partial_[size_class];
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
    std::lock_guard lock(mutex_);
    Slab* slab = b->slab_;
    slab->free.push_back(b);
    if (slab->free.size() == 1) partial_[slab->size_class].push_back(slab);
    if (slab->free.size() == slab->count) {
      idle_.splice(idle_.end(), busy_, slab->place);
      slab->idle_since = trims_;
      if (idle_.size() * kSlabBytes > lately_bytes_) going = take_out(idle_.front());
    }
  }
  if (going) let_go(std::move(going));
}

void BufferPool::let_go(std::unique_ptr<Slab> slab) {
  std::lock_guard lock(watching_);
  for (SlabWatcher* w : watchers_) w->on_slab_going(slab->memory);
}

void BufferPool::trim(unsigned calls) {
  std::vector<std::unique_ptr<Slab>> going;
  {
    std::lock_guard lock(mutex_);
    ++trims_;
    while (going.size() < kTrimmedAtOnce && idle_.size() * kSlabBytes > keep_bytes_ &&
           trims_ - idle_.front()->idle_since >= calls)
      going.push_back(take_out(idle_.front()));
  }
  for (auto& slab : going) let_go(std::move(slab));
}

size_t BufferPool::idle_bytes() const {
  std::lock_guard lock(mutex_);
  return idle_.size() * kSlabBytes;
}

// With the lock held: nobody finds it from here on.
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
  std::lock_guard lock(mutex_);
  return slabs_.contains(address) ? address : nullptr;
}

size_t BufferPool::slabs() const {
  std::lock_guard lock(mutex_);
  return slabs_.size();
}

void BufferPool::add_watcher(SlabWatcher& watcher) {
  std::lock_guard lock(watching_);
  watchers_.push_back(&watcher);
}

void BufferPool::remove_watcher(SlabWatcher& watcher) {
  std::lock_guard lock(watching_);
  std::erase(watchers_, &watcher);
}

}  // namespace nfsrdma

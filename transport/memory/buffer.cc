#include "transport/memory/buffer.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>

namespace nfsrdma {

void BufferRef::reset() {
  Buffer* b = std::exchange(buffer_, nullptr);
  if (b != nullptr && b->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) b->pool_->put(b);
}

BufferPool::BufferPool(size_t keep_bytes) : keep_bytes_(keep_bytes) {}

BufferPool::~BufferPool() {
  assert(outstanding_bytes() == 0);
  for (auto& list : free_) {
    for (Buffer* b : list) {
      std::free(b->data_);
      delete b;
    }
  }
}

BufferRef BufferPool::get(size_t bytes) {
  assert(bytes <= kMaxBytes);
  const size_t capacity = std::bit_ceil(std::max(bytes, kMinBytes));
  const auto size_class = static_cast<unsigned>(std::countr_zero(capacity / kMinBytes));
  {
    std::lock_guard lock(mutex_);
    auto& list = free_[size_class];
    if (!list.empty()) {
      Buffer* b = list.back();
      list.pop_back();
      kept_bytes_ -= capacity;
      outstanding_bytes_.fetch_add(capacity, std::memory_order_relaxed);
      return BufferRef(b);
    }
  }
  void* memory = std::aligned_alloc(kMinBytes, capacity);
  if (memory == nullptr) return {};
  auto* b = new Buffer;
  b->data_ = static_cast<std::byte*>(memory);
  b->capacity_ = capacity;
  b->size_class_ = size_class;
  b->pool_ = this;
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
  {
    std::lock_guard lock(mutex_);
    if (kept_bytes_ + b->capacity_ <= keep_bytes_) {
      kept_bytes_ += b->capacity_;
      free_[b->size_class_].push_back(b);
      return;
    }
  }
  std::free(b->data_);
  delete b;
}

}  // namespace nfsrdma

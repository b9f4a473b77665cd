// SPDX-License-Identifier: Apache-2.0
#include "client/core/read/data_cache.h"

#include <algorithm>
#include <bit>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {
namespace {

uint64_t capacity(const Slice& s) {
  return s.buffer->capacity();
}

size_t pages_of(size_t bytes) {
  return (bytes + DataCache::kPageBytes - 1) / DataCache::kPageBytes;
}

constexpr size_t kLookedAt = 1024, kLookedAtMost = 8192;  // extents per lock hold; per call
constexpr size_t kMovedAtOnce = 4u << 20;

}  // namespace

DataCache::Pages DataCache::range(size_t first, size_t last) {
  Pages pages;
  if (first < last) pages.set() >>= kPages - (last - first);
  return pages << first;
}

void DataCache::set_limit(uint64_t bytes) {
  Going going;
  MutexLock lock(mutex_);
  limit_.store(bytes, std::memory_order_relaxed);
  make_room(bytes, going);
  trim_answered(going);
}

DataCache::File* DataCache::find_file(const Node& file) const {
  const auto at = files_.find(&file);
  return at == files_.end() ? nullptr : at->second.get();
}

DataCache::Extents::iterator DataCache::at_or_after(File& file, uint64_t offset) {
  auto at = file.extents.upper_bound(offset);
  if (at != file.extents.begin() && std::prev(at)->second.end > offset) --at;
  return at;
}

uint64_t DataCache::first_not_here(File& file, uint64_t from) {
  auto e = at_or_after(file, from);
  for (; e != file.extents.end() && e->second.offset <= from; ++e) from = std::max(from, e->second.end);
  return from;
}

// --- reading ---

DataCache::Found DataCache::find(const Node& node, uint64_t offset, size_t size, TimePoint oldest) {
  Found found;
  found.missing = size;
  if (empty()) return found;
  Going going;
  MutexLock lock(mutex_);
  File* file = find_file(node);
  if (file == nullptr) return found;
  if (file->confirmed < oldest) {
    for (auto e = file->extents.begin(); e != file->extents.end();) {
      const auto old = e++;
      if (old->second.in != Class::kFilling) remove(old, going);
    }
    file->size.reset();
  }
  const uint64_t stop = offset + size;
  uint64_t at = offset;
  auto e = at_or_after(*file, at);
  for (found.missing = 0; at < stop;) {
    found.end = file->size && at >= *file->size;
    if (found.end) break;
    if (e == file->extents.end() || e->second.offset > at) {
      const uint64_t next = e == file->extents.end() ? stop : std::min(stop, e->second.offset);
      found.missing = next - at;
      break;
    }
    found.awaited = e->second.in == Class::kFilling;
    if (found.awaited) break;
    const size_t taken = take_valid(e->second, at, stop, found.data);
    if (taken == 0) {
      size_t page = (at - e->second.offset) / kPageBytes;
      while (page < kPages && !e->second.valid.test(page)) ++page;
      found.missing = std::min({stop, e->second.end, e->second.offset + page * kPageBytes}) - at;
      break;
    }
    at += taken;
    if (at == e->second.end) ++e;
  }
  found.size = at - offset;
  if (found.size != 0 || found.end) {
    ++numbers_.hits;
    numbers_.hit_bytes += found.size;
  }
  drop_if_idle(*file);
  trim_answered(going);
  return found;
}

size_t DataCache::take_valid(Extent& extent, uint64_t offset, uint64_t end, std::vector<Slice>& into) {
  const size_t first = (offset - extent.offset) / kPageBytes;
  const size_t limit = pages_of(std::min(end, extent.end) - extent.offset);
  // Usually all pages are valid.
  size_t page = (range(first, limit) & ~extent.valid).none() ? limit : first;
  while (page < limit && extent.valid.test(page)) ++page;
  if (page == first) return 0;
  const uint64_t stop = std::min({end, extent.end, extent.offset + page * kPageBytes});
  into.push_back(extent.data.subslice(offset - extent.offset, stop - offset));
  note_answered(extent, first, page);
  return stop - offset;
}

void DataCache::note_answered(Extent& extent, size_t first, size_t last) {
  const Pages pages = range(first, last);
  extent.again = extent.again || (pages & ~extent.answered).none();
  extent.answered |= pages;
  const bool all = (extent.valid & ~extent.answered).none();
  set_class(extent, all && !extent.again ? Class::kAnswered : Class::kKept);
}

void DataCache::set_class(Extent& extent, Class to) {
  if (extent.in == to) {
    Queue &all = room(to).all, &of_file = queue(*extent.file, to);
    all.extents.splice(all.extents.end(), all.extents, extent.place);
    of_file.extents.splice(of_file.extents.end(), of_file.extents, extent.place_in_file);
    return;
  }
  leave(extent);
  extent.in = to;
  enter(extent);
}

void DataCache::enter(Extent& extent) {
  if (extent.in == Class::kFilling) return;
  auto &all = room(extent.in).all.extents, &of_file = queue(*extent.file, extent.in).extents;
  extent.place = all.insert(all.end(), &extent);
  extent.place_in_file = of_file.insert(of_file.end(), &extent);
  recount(*extent.file, extent.in, capacity(extent.data));
}

void DataCache::leave(Extent& extent) {
  if (extent.in == Class::kFilling) return;
  room(extent.in).all.extents.erase(extent.place);
  queue(*extent.file, extent.in).extents.erase(extent.place_in_file);
  recount(*extent.file, extent.in, -capacity(extent.data));
}

// `bytes` is added modulo 2^64, so it may be negative.
void DataCache::recount(File& file, Class c, uint64_t bytes) {
  Room& in = room(c);
  Queue& of_file = queue(file, c);
  auto entry = in.by_bytes.extract({of_file.bytes, &file});
  in.all.bytes += bytes;
  of_file.bytes += bytes;
  if (of_file.bytes != 0 && entry) {
    entry.value().first = of_file.bytes;
    in.by_bytes.insert(std::move(entry));
  } else if (of_file.bytes != 0) {
    in.by_bytes.emplace(of_file.bytes, &file);
  }
  sharing_.store(kept_.by_bytes.size(), std::memory_order_relaxed);
}

Task<> DataCache::wait(const Node& node, uint64_t offset) {
  MutexLock lock(mutex_);
  File* file = find_file(node);
  if (file == nullptr) co_return;
  const auto e = at_or_after(*file, offset);
  if (e == file->extents.end() || e->second.offset > offset || e->second.in != Class::kFilling) co_return;
  co_await file->filled.wait(lock);
}

// --- filling ---

std::optional<DataCache::Fill> DataCache::begin(const Node& node, uint64_t offset, size_t size,
                                                BufferPool& buffers) {
  uint64_t from = offset, end = offset + size;
  {
    MutexLock lock(mutex_);
    if (File* file = find_file(node)) {
      from = first_not_here(*file, from);
      const auto e = at_or_after(*file, from);
      if (e != file->extents.end()) end = std::min(end, e->second.offset);
    }
  }
  if (from >= end) return std::nullopt;
  end = std::min<uint64_t>(end, from + kMaxExtentBytes);
  if (std::bit_ceil(end - from) > limit()) return std::nullopt;
  Slice room = buffers.slice(end - from);
  if (!room.buffer) return std::nullopt;
  return begin(node, from, std::move(room));
}

std::optional<DataCache::Fill> DataCache::begin(const Node& node, uint64_t from, Slice room) {
  if (room.bytes.empty()) return std::nullopt;
  const uint64_t end = from + room.size();
  Fill fill{&node, from, 0, std::move(room)};
  Going going;
  MutexLock lock(mutex_);
  File* file = find_file(node);
  if (file != nullptr) {
    const auto e = at_or_after(*file, from);
    if (e != file->extents.end() && e->second.offset < end) return std::nullopt;  // another caller was faster
  }
  const uint64_t bytes = capacity(fill.room), all = bytes_.load(std::memory_order_relaxed);
  // Extents that are being filled stay. If they leave too little room, nothing is evicted.
  const uint64_t filling = all - std::min(all, answered_.all.bytes + kept_.all.bytes);
  if (filling + bytes > limit() || !make_room(limit() - bytes, going)) return std::nullopt;
  // Only here, because make_room() may have dropped the file with its last extent.
  auto& place = files_[&node];
  if (!place) place = std::make_unique<File>();
  place->node = &node;
  Extent& extent = place->extents[from];
  extent.file = place.get();
  extent.offset = from;
  extent.end = end;
  extent.data = fill.room;
  extent.id = fill.id = next_id_++;
  extent.place_in_all = all_.insert(all_.end(), &extent);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  ++numbers_.extents;
  return fill;
}

bool DataCache::covers(const Node& node, uint64_t offset, size_t size) const {
  MutexLock lock(mutex_);
  File* file = find_file(node);
  if (file == nullptr) return false;
  return first_not_here(*file, offset) >= offset + size;
}

bool DataCache::complete(const Fill& fill, size_t bytes, bool end, TimePoint now) {
  MutexLock lock(mutex_);
  File* file = find_file(*fill.file);
  const auto e = file == nullptr ? Extents::iterator() : file->extents.find(fill.offset);
  if (file == nullptr || e == file->extents.end() || e->second.id != fill.id) {
    numbers_.refused_bytes += bytes;
    return false;
  }
  file->confirmed = std::max(file->confirmed, now);
  Extent& extent = e->second;
  if (bytes == 0) {
    Going none;  // the Fill owns the memory
    remove(e, none);
    drop_if_idle(*file);
    return false;
  }
  extent.end = extent.offset + bytes;
  extent.data = fill.room.first(bytes);
  extent.valid |= range(0, pages_of(bytes));
  if (end && fill.id >= file->size_since) file->size = extent.end;
  set_class(extent, Class::kKept);
  numbers_.filled_bytes += bytes;
  file->filled.notify_all();
  return true;
}

void DataCache::abandon(const Fill& fill, size_t bytes) {
  MutexLock lock(mutex_);
  numbers_.refused_bytes += bytes;
  File* file = find_file(*fill.file);
  if (file == nullptr) return;
  const auto e = file->extents.find(fill.offset);
  if (e == file->extents.end() || e->second.id != fill.id) return;
  Going none;
  remove(e, none);
  drop_if_idle(*file);
}

// --- validity ---

void DataCache::confirm(const Node& node, TimePoint now) {
  if (empty()) return;
  MutexLock lock(mutex_);
  if (File* file = find_file(node)) file->confirmed = std::max(file->confirmed, now);
}

void DataCache::doubt_all() {
  MutexLock lock(mutex_);
  for (const auto& [node, file] : files_) file->confirmed = TimePoint::min();
}

void DataCache::punch(const Node& node, uint64_t offset, uint64_t end) {
  if (empty()) return;
  Going going;
  MutexLock lock(mutex_);
  File* file = find_file(node);
  if (file == nullptr) return;
  file->size.reset();
  file->size_since = next_id_;
  for (auto e = at_or_after(*file, offset); e != file->extents.end() && e->second.offset < end;) {
    const auto here = e++;
    Extent& extent = here->second;
    const size_t first = (std::max(offset, extent.offset) - extent.offset) / kPageBytes;
    const size_t last = pages_of(std::min(end, extent.end) - extent.offset);
    for (size_t page = first; page < last && page < kPages; ++page) {
      if (extent.valid.test(page) && !extent.answered.test(page)) numbers_.wasted_bytes += kPageBytes;
      extent.valid.reset(page);
    }
    // This removes also extents that are being filled, because their READ may bring data from before the
    // write.
    if (extent.valid.none()) remove(here, going);
  }
  drop_if_idle(*file);
}

void DataCache::drop(const Node& node) {
  if (empty()) return;
  Going going;
  MutexLock lock(mutex_);
  File* file = find_file(node);
  if (file == nullptr) return;
  remove_all(*file, going);
  drop_if_idle(*file);
}

void DataCache::drop_all() {
  Going going;
  MutexLock lock(mutex_);
  for (const auto& [node, file] : files_) remove_all(*file, going);
  files_.clear();
}

void DataCache::forget(const Node& node) {
  drop(node);
}

void DataCache::remove_all(File& file, Going& going) {
  while (!file.extents.empty()) remove(file.extents.begin(), going);
}

void DataCache::remove(Extents::iterator e, Going& going) {
  Extent& extent = e->second;
  File& file = *extent.file;
  const uint64_t bytes = capacity(extent.data);
  numbers_.wasted_bytes += (extent.valid & ~extent.answered).count() * kPageBytes;
  --numbers_.extents;
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  leave(extent);
  if (look_next_ == extent.place_in_all) ++look_next_;
  all_.erase(extent.place_in_all);
  if (extent.in == Class::kFilling) file.filled.notify_all();
  going.push_back(std::move(extent.data));
  file.extents.erase(e);
}

void DataCache::drop_if_idle(File& file) {
  if (file.extents.empty()) files_.erase(file.node);
}

// --- memory ---

void DataCache::leave_slabs(BufferPool& buffers) {
  // Looks at each extent once: the slabs that leave may hold only other users' buffers.
  size_t moved = 0, left = kLookedAtMost;
  while (left > 0 && moved < kMovedAtOnce && buffers.anything_leaving()) {
    for (Fill& old : look_for_leaving(left)) {
      Slice data = buffers.slice(capacity(old.room));
      if (!data.buffer) return;
      data.bytes = data.bytes.first(old.room.size());
      std::ranges::copy(old.room.bytes, data.bytes.begin());
      moved += data.size();
      Going going{std::move(old.room)};
      MutexLock lock(mutex_);
      replace(old, std::move(data), going);
    }
  }
}

std::vector<DataCache::Fill> DataCache::look_for_leaving(size_t& left) {
  std::vector<Fill> found;
  size_t bytes = 0;
  MutexLock lock(mutex_);
  left = std::min(left, all_.size());
  for (size_t looked = 0; left > 0 && looked < kLookedAt && bytes < kMaxExtentBytes; ++looked, --left) {
    if (look_next_ == all_.end()) look_next_ = all_.begin();
    const Extent& e = **look_next_++;
    if (e.in == Class::kFilling || !BufferPool::is_leaving(e.data.buffer)) continue;
    found.push_back({e.file->node, e.offset, e.id, e.data});
    bytes += e.data.size();
  }
  return found;
}

// Does nothing if the extent was dropped meanwhile.
void DataCache::replace(const Fill& old, Slice data, Going& going) {
  if (File* file = find_file(*old.file)) {
    const auto e = file->extents.find(old.offset);
    if (e != file->extents.end() && e->second.id == old.id) std::swap(e->second.data, data);
  }
  going.push_back(std::move(data));
}

// --- room ---

uint64_t DataCache::bytes_of(Class c) const {
  return c == Class::kAnswered ? std::min(limit() / kAnsweredShare, kAnsweredMost) : limit();
}

bool DataCache::evict_one(Class from, Going& going) {
  // Skips extents that a reply uses.
  const auto oldest = [](const Queue& queue) -> Extent* {
    for (Extent* extent : queue.extents) {
      if (extent->data.buffer.unique()) return extent;
    }
    return nullptr;
  };
  Room& in = room(from);
  Extent* victim = nullptr;
  if (!in.by_bytes.empty()) {
    const auto& [bytes, largest] = *in.by_bytes.rbegin();
    if (bytes > bytes_of(from) / sharers(in.by_bytes.size())) victim = oldest(queue(*largest, from));
  }
  if (victim == nullptr) victim = oldest(in.all);
  if (victim == nullptr) return false;
  File& file = *victim->file;
  numbers_.evicted_bytes += capacity(victim->data);
  remove(file.extents.find(victim->offset), going);
  drop_if_idle(file);
  return true;
}

bool DataCache::make_room(uint64_t most, Going& going) {
  while (bytes_.load(std::memory_order_relaxed) > most) {
    if (!evict_one(Class::kAnswered, going) && !evict_one(Class::kKept, going)) return false;
  }
  return true;
}

void DataCache::trim_answered(Going& going) {
  while (answered_.all.bytes > bytes_of(Class::kAnswered)) {
    if (!evict_one(Class::kAnswered, going)) return;
  }
}

DataCache::Numbers DataCache::numbers() const {
  MutexLock lock(mutex_);
  Numbers n = numbers_;
  n.bytes = bytes_;
  return n;
}

}  // namespace nfsrdma::client

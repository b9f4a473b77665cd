// SPDX-License-Identifier: Apache-2.0
#include "filer/tree/sparse_file.h"

#include <algorithm>
#include <cstring>

namespace nfsrdma::filer::tree {

namespace {

constexpr uint64_t kPage = SparseFile::kPageBytes;

// Calls visit(page number, offset in the page, offset in the range, bytes) for each page that [offset,
// +length) touches.
template <class Visit>
void each_page(uint64_t offset, uint64_t length, Visit visit) {
  uint64_t done = 0;
  while (done < length) {
    const uint64_t at = offset + done;
    const uint64_t within = at % kPage;
    const uint64_t bytes = std::min(kPage - within, length - done);
    visit(at / kPage, within, done, bytes);
    done += bytes;
  }
}

}  // namespace

uint64_t SparseFile::growth(uint64_t offset, uint64_t length) const {
  if (length == 0) return 0;
  const uint64_t first = offset / kPage;
  const uint64_t last = (offset + length - 1) / kPage;
  uint64_t have = 0;
  for (auto at = pages_.lower_bound(first); at != pages_.end() && at->first <= last; ++at) ++have;
  return (last - first + 1 - have) * kPage;
}

void SparseFile::copy_in(Pages& pages, uint64_t offset, ConstBytes data) {
  if (data.empty()) return;
  auto at = pages.lower_bound(offset / kPage);
  each_page(offset, data.size(), [&](uint64_t number, uint64_t within, uint64_t done, uint64_t bytes) {
    while (at != pages.end() && at->first < number) ++at;
    if (at == pages.end() || at->first != number) {
      at = pages.emplace_hint(at, number, std::make_unique<Page>());
      if (bytes != kPage) at->second->fill(std::byte{0});
    }
    std::memcpy(at->second->data() + within, data.data() + done, bytes);
  });
}

void SparseFile::zero(Pages& pages, Interval range) {
  if (range.empty()) return;
  auto at = pages.lower_bound(range.begin / kPage);
  while (at != pages.end() && at->first * kPage < range.end) {
    const uint64_t begin = std::max(range.begin, at->first * kPage) - at->first * kPage;
    const uint64_t end = std::min(range.end - at->first * kPage, kPage);
    if (begin == 0 && end == kPage) {
      at = pages.erase(at);
    } else {
      std::memset(at->second->data() + begin, 0, end - begin);
      ++at;
    }
  }
}

// Appends page by page, so each byte is written once. Resizing first would fill with zeros, half a MiB for a
// READ.
size_t SparseFile::read(uint64_t offset, size_t most, ByteVector& to) const {
  if (offset >= size_ || most == 0) return 0;
  const size_t all = static_cast<size_t>(std::min<uint64_t>(most, size_ - offset));
  auto at = pages_.lower_bound(offset / kPage);
  each_page(offset, all, [&](uint64_t number, uint64_t within, uint64_t, uint64_t bytes) {
    if (at != pages_.end() && at->first == number) {
      const auto begin = at->second->begin() + static_cast<ptrdiff_t>(within);
      to.insert(to.end(), begin, begin + static_cast<ptrdiff_t>(bytes));
      ++at;
    } else {
      to.resize(to.size() + bytes);  // a hole
    }
  });
  return all;
}

void SparseFile::remember(Interval range) {
  for (const Interval& part : unstable_.gaps(range)) {
    // A hole needs no shadow, because an absent page reads as zeros. But an old shadow page there may hold
    // other bytes and is cleared.
    each_page(part.begin, part.end - part.begin,
              [&](uint64_t number, uint64_t within, uint64_t, uint64_t bytes) {
                const auto page = pages_.find(number);
                if (page != pages_.end()) {
                  copy_in(shadow_, number * kPage + within, ConstBytes(page->second->data() + within, bytes));
                } else {
                  zero(shadow_, {number * kPage + within, number * kPage + within + bytes});
                }
              });
  }
  unstable_.add(range);
}

void SparseFile::write(uint64_t offset, ConstBytes data, bool stable) {
  if (data.empty()) return;
  const Interval range{offset, offset + data.size()};
  if (stable) {
    unstable_.subtract(range);
    stable_size_ = std::max(stable_size_, range.end);
    forget_clean_shadows();
  } else {
    remember(range);
  }
  copy_in(pages_, offset, data);
  size_ = std::max(size_, range.end);
}

void SparseFile::resize(uint64_t size) {
  if (size < size_) {
    zero(pages_, {size, UINT64_MAX});
    unstable_.subtract({size, UINT64_MAX});
    forget_clean_shadows();
  }
  size_ = size;
  stable_size_ = size;
}

void SparseFile::commit(uint64_t offset, uint64_t length) {
  const uint64_t end = length == 0 || offset + length < offset ? UINT64_MAX : offset + length;
  unstable_.subtract({offset, end});
  stable_size_ = std::max(stable_size_, std::min(size_, end));
  forget_clean_shadows();
}

bool SparseFile::crash() {
  if (!has_unstable()) return false;
  for (const Interval& part : unstable_.all()) {
    each_page(part.begin, part.end - part.begin,
              [&](uint64_t number, uint64_t within, uint64_t, uint64_t bytes) {
                const auto old = shadow_.find(number);
                if (old != shadow_.end()) {
                  copy_in(pages_, number * kPage + within, ConstBytes(old->second->data() + within, bytes));
                } else {
                  zero(pages_, {number * kPage + within, number * kPage + within + bytes});
                }
              });
  }
  unstable_.clear();
  shadow_.clear();
  if (stable_size_ < size_) zero(pages_, {stable_size_, UINT64_MAX});
  size_ = stable_size_;
  return true;
}

void SparseFile::forget_clean_shadows() {
  if (unstable_.empty()) {
    shadow_.clear();
    return;
  }
  std::erase_if(shadow_, [this](const auto& page) {
    return unstable_.overlaps({page.first * kPage, (page.first + 1) * kPage}).empty();
  });
}

}  // namespace nfsrdma::filer::tree

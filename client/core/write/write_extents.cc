// SPDX-License-Identifier: Apache-2.0
#include "client/core/write/write_extents.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::client {

ExtentMap::iterator ExtentMap::overlapping(uint64_t offset, uint64_t end) {
  if (offset >= end) return map_.end();
  auto it = map_.upper_bound(offset);
  if (it != map_.begin() && std::prev(it)->second.end() > offset) return std::prev(it);
  return it != map_.end() && it->first < end ? it : map_.end();
}

uint64_t ExtentMap::bytes() const {
  uint64_t sum = 0;
  for (const auto& [offset, extent] : map_) sum += extent.data.size();
  return sum;
}

ExtentMap::iterator ExtentMap::insert(WriteExtent extent) {
  const uint64_t offset = extent.offset;
  return map_.emplace(offset, std::move(extent)).first;
}

uint64_t ExtentMap::cut_out(uint64_t offset, uint64_t end) {
  uint64_t removed = 0;
  for (iterator it = overlapping(offset, end); it != map_.end() && it->first < end;) {
    WriteExtent whole = std::move(it->second);
    it = map_.erase(it);
    removed += std::min(end, whole.end()) - std::max(offset, whole.offset);
    if (whole.end() > end) {
      WriteExtent after = whole;
      after.offset = end;
      after.data = whole.data.subslice(end - whole.offset, whole.end() - end);
      it = insert(std::move(after));
    }
    if (whole.offset < offset) {
      whole.data = whole.data.first(offset - whole.offset);
      insert(std::move(whole));
    }
  }
  return removed;
}

}  // namespace nfsrdma::client

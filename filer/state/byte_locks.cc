// SPDX-License-Identifier: Apache-2.0
#include "filer/state/byte_locks.h"

#include <algorithm>

namespace nfsrdma::filer::state {

namespace {

// The first range that ends at or after the beginning of `range`. It may begin after the end of `range`.
template <class Map>
auto first_touched(Map& ranges, const ByteRange& range) {
  auto at = ranges.upper_bound(range.first);
  if (at != ranges.begin() && std::prev(at)->second.last >= range.first) --at;
  return at;
}

}  // namespace

std::optional<ByteLock> ByteLocks::conflict(const ByteRange& range, bool write,
                                            const LockOwner& owner) const {
  std::optional<ByteLock> lowest;
  for (const auto& [holder, ranges] : owners_) {
    if (holder == owner) continue;
    auto at = first_touched(ranges, range);
    while (at != ranges.end() && at->first <= range.last && !at->second.write && !write) ++at;
    if (at == ranges.end() || at->first > range.last) continue;
    if (!lowest || at->first < lowest->range.first) lowest = lock_at(holder, at);
  }
  return lowest;
}

void ByteLocks::lock(const ByteLock& added) {
  unlock(added.range, added.owner);
  Ranges& ranges = owners_[added.owner];
  ByteRange grown = added.range;
  const auto same = [&](Ranges::iterator at) {
    return at->second.write == added.write && at->second.state == added.state;
  };
  const auto after = ranges.lower_bound(grown.first);
  if (after != ranges.begin()) {
    const auto before = std::prev(after);
    if (before->second.last + 1 == grown.first && same(before)) {
      grown.first = before->first;
      erase(ranges, before);
    }
  }
  if (after != ranges.end() && grown.last + 1 == after->first && same(after)) {
    grown.last = after->second.last;
    erase(ranges, after);
  }
  put(ranges, grown, {0, added.write, added.state});
}

void ByteLocks::unlock(const ByteRange& range, const LockOwner& owner) {
  const auto held = owners_.find(owner);
  if (held == owners_.end()) return;
  Ranges& ranges = held->second;
  for (auto at = first_touched(ranges, range); at != ranges.end() && at->first <= range.last;) {
    const ByteRange was{at->first, at->second.last};
    const Held kind = at->second;
    at = erase(ranges, at);
    if (was.first < range.first) put(ranges, {was.first, range.first - 1}, kind);
    if (was.last > range.last) put(ranges, {range.last + 1, was.last}, kind);
  }
  if (ranges.empty()) owners_.erase(held);
}

ptrdiff_t ByteLocks::growth(const ByteRange& range, const LockOwner& owner) const {
  const auto held = owners_.find(owner);
  if (held == owners_.end()) return 0;
  const Ranges& ranges = held->second;
  ptrdiff_t more = 0;
  for (auto at = first_touched(ranges, range); at != ranges.end() && at->first <= range.last; ++at)
    more += (at->first < range.first) + (at->second.last > range.last) - 1;
  return more;
}

void ByteLocks::drop_state(const LockOwner& owner, const void* state) {
  const auto held = owners_.find(owner);
  if (held == owners_.end()) return;
  size_ -= std::erase_if(held->second, [&](const auto& entry) { return entry.second.state == state; });
  if (held->second.empty()) owners_.erase(held);
}

bool ByteLocks::holds(const LockOwner& owner, const void* state) const {
  const auto held = owners_.find(owner);
  return held != owners_.end() && std::any_of(held->second.begin(), held->second.end(),
                                              [&](const auto& entry) { return entry.second.state == state; });
}

void ByteLocks::put(Ranges& ranges, const ByteRange& range, Held kind) {
  kind.last = range.last;
  size_ += ranges.emplace(range.first, kind).second;
}

ByteLocks::Ranges::iterator ByteLocks::erase(Ranges& ranges, Ranges::iterator at) {
  --size_;
  return ranges.erase(at);
}

}  // namespace nfsrdma::filer::state

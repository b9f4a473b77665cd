// SPDX-License-Identifier: Apache-2.0
// IntervalSet: a set of a file's bytes, as disjoint half-open intervals [begin, end). A value type without
// locks.
//
// Adjacent intervals are merged. Used for bytes that are not committed yet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace nfsrdma::filer::tree {

struct Interval {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool empty() const { return begin >= end; }
  bool operator==(const Interval&) const = default;
};

class IntervalSet {
 public:
  bool empty() const { return map_.empty(); }
  void clear() { map_.clear(); }

  void add(Interval range) {
    if (range.empty()) return;
    auto at = first_touching(range.begin);
    while (at != map_.end() && at->first <= range.end) {
      range.begin = std::min(range.begin, at->first);
      range.end = std::max(range.end, at->second);
      at = map_.erase(at);
    }
    map_.emplace(range.begin, range.end);
  }

  void subtract(Interval range) {
    if (range.empty()) return;
    auto at = first_touching(range.begin);
    while (at != map_.end() && at->first < range.end) {
      const Interval old{at->first, at->second};
      if (old.end <= range.begin) {
        ++at;
        continue;
      }
      at = map_.erase(at);
      if (old.begin < range.begin) map_.emplace(old.begin, range.begin);
      if (old.end > range.end) map_.emplace(range.end, old.end);
    }
  }

  // The parts of `range` that are not in the set, ascending.
  std::vector<Interval> gaps(Interval range) const {
    std::vector<Interval> found;
    uint64_t from = range.begin;
    for (const Interval& part : overlaps(range)) {
      if (from < part.begin) found.push_back({from, part.begin});
      from = part.end;
    }
    if (from < range.end) found.push_back({from, range.end});
    return found;
  }

  // The parts of `range` that are in the set, ascending.
  std::vector<Interval> overlaps(Interval range) const {
    std::vector<Interval> found;
    auto at = map_.upper_bound(range.begin);
    if (at != map_.begin()) --at;
    for (; at != map_.end() && at->first < range.end; ++at) {
      const Interval part{std::max(at->first, range.begin), std::min(at->second, range.end)};
      if (!part.empty()) found.push_back(part);
    }
    return found;
  }

  std::vector<Interval> all() const {
    std::vector<Interval> found;
    found.reserve(map_.size());
    for (const auto& [begin, end] : map_) found.push_back({begin, end});
    return found;
  }

 private:
  // The first interval that ends at or after `begin`.
  std::map<uint64_t, uint64_t>::iterator first_touching(uint64_t begin) {
    auto at = map_.upper_bound(begin);
    if (at != map_.begin() && std::prev(at)->second >= begin) --at;
    return at;
  }

  std::map<uint64_t, uint64_t> map_;  // begin -> end
};

}  // namespace nfsrdma::filer::tree

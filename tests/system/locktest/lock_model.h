// SPDX-License-Identifier: Apache-2.0
// POSIX record locks as fcntl(2) defines them, in memory: the locks held, and the correct answer to a
// request.
//
// Ranges are half open, [begin, end); end is kToEof for l_len = 0. A new lock of an owner replaces the
// owner's locks in that range. Adjacent locks of one type are one lock. Single thread.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace locktest {

constexpr uint64_t kToEof = uint64_t{1} << 63;

struct Range {
  uint64_t begin = 0;
  uint64_t end = kToEof;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

struct Held {
  unsigned owner;
  short type;  // F_RDLCK or F_WRLCK
  Range range;
};

class LockModel {
 public:
  // The lock of another owner that conflicts with this one; null when there is none.
  const Held* conflict(unsigned owner, short type, const Range& range) const {
    const auto found = std::find_if(held_.begin(), held_.end(), [&](const Held& held) {
      return held.owner != owner && held.range.overlaps(range) && (type == F_WRLCK || held.type == F_WRLCK);
    });
    return found == held_.end() ? nullptr : &*found;
  }

  // F_UNLCK removes. The caller must have checked `conflict` before it sets a lock.
  void set(unsigned owner, short type, const Range& range) {
    std::vector<Held> next;
    for (const Held& held : held_) {
      if (held.owner != owner || !held.range.overlaps(range)) {
        next.push_back(held);
        continue;
      }
      if (held.range.begin < range.begin) next.push_back({owner, held.type, {held.range.begin, range.begin}});
      if (held.range.end > range.end) next.push_back({owner, held.type, {range.end, held.range.end}});
    }
    if (type != F_UNLCK) next.push_back({owner, type, range});
    held_ = std::move(next);
  }

  void drop_owner(unsigned owner) {
    std::erase_if(held_, [owner](const Held& held) { return held.owner == owner; });
  }

  bool reaches_eof(unsigned owner) const {
    return std::any_of(held_.begin(), held_.end(),
                       [owner](const Held& held) { return held.owner == owner && held.range.end == kToEof; });
  }

  // True when another owner's lock of this type overlaps the range: F_GETLK may report it.
  bool holds(unsigned not_owner, short type, const Range& range) const {
    return std::any_of(held_.begin(), held_.end(), [&](const Held& held) {
      return held.owner != not_owner && held.type == type && held.range.overlaps(range);
    });
  }

  size_t size() const { return held_.size(); }

 private:
  std::vector<Held> held_;
};

}  // namespace locktest

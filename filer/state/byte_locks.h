// ByteLocks: the byte-range locks of one file, by POSIX rules (RFC 8881 sections 9.2, 9.3, 18.10 to 18.12).
//
// A lock belongs to a lock-owner of a client and to the lock stateid it was taken with. Locks of one owner
// never overlap: a new one replaces what it covers, which splits, shrinks, upgrades and downgrades;
// neighbours of the same kind merge. Ranges are inclusive, [first, last], so that "to the end of the file" is
// last == UINT64_MAX. Values only.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "xdr/nfs4/lock_ops.h"

namespace nfsrdma::filer {

struct ByteRange {
  uint64_t first = 0;
  uint64_t last = 0;

  bool overlaps(const ByteRange& b) const { return first <= b.last && b.first <= last; }
  // The wire's length: NFS4_UINT64_MAX means to the end of the file.
  uint64_t length() const { return last == UINT64_MAX ? UINT64_MAX : last - first + 1; }
  bool operator==(const ByteRange&) const = default;
};

// "The server MUST return NFS4ERR_INVAL": a length of zero, or a sum beyond NFS4_UINT64_MAX
// (section 18.10.3).
inline std::optional<ByteRange> make_range(uint64_t offset, uint64_t length) {
  if (length == 0) return std::nullopt;
  if (length == UINT64_MAX) return ByteRange{offset, UINT64_MAX};
  if (offset > UINT64_MAX - length) return std::nullopt;
  return ByteRange{offset, offset + length - 1};
}

struct LockOwner {
  nfs4::clientid4 client = 0;
  std::string owner;

  bool operator==(const LockOwner&) const = default;
};

struct ByteLock {
  ByteRange range;
  bool write = false;
  LockOwner owner;
  const void* state = nullptr;  // the lock stateid's state, for identity only
};

class ByteLocks {
 public:
  bool empty() const { return locks_.empty(); }
  const std::vector<ByteLock>& all() const { return locks_; }

  // A lock of another owner that is in the way.
  const ByteLock* conflict(const ByteRange& range, bool write, const LockOwner& owner) const {
    for (const ByteLock& lock : locks_) {
      if (lock.owner != owner && lock.range.overlaps(range) && (lock.write || write)) return &lock;
    }
    return nullptr;
  }

  void lock(const ByteLock& added) {
    unlock(added.range, added.owner);
    ByteLock grown = added;
    std::erase_if(locks_, [&](const ByteLock& b) {
      if (b.owner != grown.owner || b.write != grown.write || b.state != grown.state) return false;
      const bool before = b.range.last != UINT64_MAX && b.range.last + 1 == grown.range.first;
      const bool after = grown.range.last != UINT64_MAX && grown.range.last + 1 == b.range.first;
      if (before) grown.range.first = b.range.first;
      if (after) grown.range.last = b.range.last;
      return before || after;
    });
    locks_.push_back(grown);
  }

  void unlock(const ByteRange& range, const LockOwner& owner) {
    const auto touched = [&](const ByteLock& b) { return b.owner == owner && b.range.overlaps(range); };
    if (std::none_of(locks_.begin(), locks_.end(), touched)) return;
    std::vector<ByteLock> kept;
    kept.reserve(locks_.size() + 1);
    for (const ByteLock& b : locks_) {
      if (!touched(b)) {
        kept.push_back(b);
        continue;
      }
      if (b.range.first < range.first) {
        kept.push_back(b);
        kept.back().range.last = range.first - 1;
      }
      if (b.range.last > range.last) {
        kept.push_back(b);
        kept.back().range.first = range.last + 1;
      }
    }
    locks_ = std::move(kept);
  }

  void drop_state(const void* state) {
    std::erase_if(locks_, [&](const ByteLock& b) { return b.state == state; });
  }
  bool holds(const void* state) const {
    return std::any_of(locks_.begin(), locks_.end(), [&](const ByteLock& b) { return b.state == state; });
  }

 private:
  std::vector<ByteLock> locks_;
};

}  // namespace nfsrdma::filer

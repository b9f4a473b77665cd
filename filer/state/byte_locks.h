// SPDX-License-Identifier: Apache-2.0
// ByteLocks: the byte-range locks of one file, by POSIX rules (RFC 8881 sections 9.2, 9.3, 18.10 to 18.12). A
// value type.
//
// A lock belongs to a client's lock-owner and to the lock stateid it was taken with. Locks of one owner never
// overlap. A new lock replaces what it covers, which may split, shrink, upgrade or downgrade existing locks;
// adjacent locks of the same kind are merged. Each owner's locks are therefore a map by first byte, and LOCK
// and LOCKU visit only the locks that they touch. Ranges are inclusive, [first, last]; "to the end of the
// file" is last == UINT64_MAX.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "xdr/nfs4/lock_ops.h"

namespace nfsrdma::filer::state {

struct ByteRange {
  uint64_t first = 0;
  uint64_t last = 0;

  bool overlaps(const ByteRange& b) const { return first <= b.last && b.first <= last; }
  // The length as in the protocol: NFS4_UINT64_MAX means to the end of the file.
  uint64_t length() const { return last == UINT64_MAX ? UINT64_MAX : last - first + 1; }
  bool operator==(const ByteRange&) const = default;
};

// nullopt ("The server MUST return NFS4ERR_INVAL"): the length is zero, or the range ends beyond
// NFS4_UINT64_MAX (section 18.10.3).
inline std::optional<ByteRange> make_range(uint64_t offset, uint64_t length) {
  if (length == 0) return std::nullopt;
  if (length == UINT64_MAX) return ByteRange{offset, UINT64_MAX};
  if (offset > UINT64_MAX - length) return std::nullopt;
  return ByteRange{offset, offset + length - 1};
}

struct LockOwner {
  nfs4::clientid4 client = 0;
  std::string owner;

  auto operator<=>(const LockOwner&) const = default;
};

struct ByteLock {
  ByteRange range;
  bool write = false;
  LockOwner owner;
  const void* state = nullptr;  // the lock stateid's State; compared only, never dereferenced
};

class ByteLocks {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  // The lowest conflicting lock of another owner, as F_GETLK reports it.
  std::optional<ByteLock> conflict(const ByteRange& range, bool write, const LockOwner& owner) const;
  void lock(const ByteLock& added);
  void unlock(const ByteRange& range, const LockOwner& owner);
  // How many more locks there would be after unlock(): 1 if it splits a lock, else 0 or negative.
  ptrdiff_t growth(const ByteRange& range, const LockOwner& owner) const;

  void drop_state(const LockOwner& owner, const void* state);
  bool holds(const LockOwner& owner, const void* state) const;

  // Visits the locks of one owner in ascending order.
  template <class Visit>
  void each(const LockOwner& owner, Visit visit) const {
    const auto held = owners_.find(owner);
    if (held == owners_.end()) return;
    for (auto at = held->second.begin(); at != held->second.end(); ++at) visit(lock_at(owner, at));
  }

 private:
  struct Held {
    uint64_t last = 0;
    bool write = false;
    const void* state = nullptr;
  };
  using Ranges = std::map<uint64_t, Held>;  // by the first byte

  static ByteLock lock_at(const LockOwner& owner, Ranges::const_iterator at) {
    return {{at->first, at->second.last}, at->second.write, owner, at->second.state};
  }
  void put(Ranges& ranges, const ByteRange& range, Held kind);
  Ranges::iterator erase(Ranges& ranges, Ranges::iterator at);

  std::map<LockOwner, Ranges> owners_;  // an owner without locks has no entry
  size_t size_ = 0;
};

}  // namespace nfsrdma::filer::state

// SPDX-License-Identifier: Apache-2.0
// WriteExtent and ExtentMap: written data that the server does not surely have on stable storage.
//
// A CachedFile has three maps, guarded by its Node's mutex: `writes` (held back, or WRITE is under way),
// `unstable` (WRITE was answered UNSTABLE4) and `committing` (a COMMIT is under way for it). No two extents
// of a file overlap, across all three: new data is punched out of the others, so what is sent again after a
// restart never brings older bytes back (RFC 8881 section 18.3.4 and RFC 1813 section
// 3.3.21 leave that order to the client).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/memory/buffer.h"
#include "transport/rpc/credential.h"
#include "transport/runtime/loop.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::client {

struct OpenState;

// On whose account data is read or written.
struct IoAccount {
  std::shared_ptr<OpenState> state;  // NFSv4.1 only
  rpc::CredentialPtr credential;
  std::vector<std::string> lock_owners;  // whose byte-range locks it relies on: once one is lost, it fails

  bool operator==(const IoAccount& other) const {
    return state == other.state && credential->uid() == other.credential->uid() &&
           lock_owners == other.lock_owners;
  }
};

struct WriteExtent {
  uint64_t serial = 0;  // in the order of sending, per file
  uint64_t offset = 0;
  Slice data;
  nfs4::verifier4 verifier;  // of the WRITE that was answered UNSTABLE4
  IoAccount account;
  TimePoint since{};          // when a held one was begun
  bool growing = false;       // `data` begins a buffer of its own: what follows may be put behind it
  bool until_answer = false;  // held no longer than until a WRITE of the file is answered

  uint64_t end() const { return offset + data.size(); }
};

// Disjoint extents by offset.
class ExtentMap {
  using Map = std::map<uint64_t, WriteExtent>;

 public:
  using iterator = Map::iterator;

  bool empty() const { return map_.empty(); }
  size_t size() const { return map_.size(); }
  iterator begin() { return map_.begin(); }
  iterator end() { return map_.end(); }
  void clear() { map_.clear(); }
  void swap(ExtentMap& other) { map_.swap(other.map_); }

  // The first extent with a byte of [offset, end), or end().
  iterator overlapping(uint64_t offset, uint64_t end);
  bool overlaps(uint64_t offset, uint64_t end) { return overlapping(offset, end) != map_.end(); }
  // One past the last byte; 0 when empty.
  uint64_t end_offset() const { return map_.empty() ? 0 : map_.rbegin()->second.end(); }
  uint64_t bytes() const;

  // Must not overlap what is here.
  iterator insert(WriteExtent extent);
  // Moves `extent` of `from` here, without copying; references to it stay valid.
  iterator take(ExtentMap& from, iterator extent) { return map_.insert(from.map_.extract(extent)).position; }
  void erase(iterator extent) { map_.erase(extent); }
  template <class Predicate>
  void erase_if(Predicate predicate) {
    std::erase_if(map_, [&](const auto& entry) { return predicate(entry.second); });
  }
  // Removes the bytes of [offset, end); how many there were.
  uint64_t punch(uint64_t offset, uint64_t end);

 private:
  Map map_;
};

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// HandleIndex: finds Nodes by file handle. Part of CachedNodeTable, guarded by the shard's lock.
//
// Open addressing with linear probing, at most half full. A place holds the hash and the Node: 16 bytes, four
// places per cache line. A lookup or an insertion usually touches one cache line. With a million Nodes that
// line is not in the processor's cache, so a caller can prefetch it. std::unordered_set would read a bucket,
// its chain and the end of the chain one after the other, and allocate (2026-11-25:
// docs/adr/0024-index-of-nodes.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace nfsrdma::client {

class CachedNode;

class HandleIndex {
 public:
  // `hash`: the handle's hash; its lower bits select the place.
  CachedNode* find(uint64_t hash, std::string_view handle) const;
  // The handle must not be in the index.
  void insert(uint64_t hash, CachedNode& node);
  // Returns false if it is not in the index.
  bool erase(uint64_t hash, const CachedNode& node);
  // Where find() and insert() start for that hash; null while the index is empty.
  const void* beginning(uint64_t hash) const { return places_.empty() ? nullptr : &places_[home(hash)]; }

  size_t size() const { return size_; }
  size_t places() const { return places_.size(); }
  template <class Visit>
  void each(Visit visit) const {
    for (const Place& place : places_) {
      if (place.node != nullptr) visit(*place.node);
    }
  }

 private:
  struct Place {
    uint64_t hash = 0;
    CachedNode* node = nullptr;  // null: free
  };
  static constexpr size_t kLeast = 16;

  size_t home(uint64_t hash) const { return hash & (places_.size() - 1); }
  size_t next(size_t at) const { return home(at + 1); }
  void put(const Place& place);
  void resize(size_t places);

  std::vector<Place> places_;  // empty, or a power of two
  size_t size_ = 0;
};

}  // namespace nfsrdma::client

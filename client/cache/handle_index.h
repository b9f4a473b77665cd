// SPDX-License-Identifier: Apache-2.0
// HandleIndex: Nodes by file handle; a part of CachedNodeTable, under its lock.
//
// Open addressing with linear probing, at most half full. A place holds the hash and the Node (16 bytes, four
// to a line of memory): whether a handle is known, and where a new one goes, is one line most often. Among a
// million Nodes no cache of the processor holds that, so it can be asked for beforehand. std::unordered_set,
// in its stead, reads a bucket, its chain and the chain's end, one after the other, and allocates
// (2026-11-25: docs/adr/0024-index-of-nodes.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace nfsrdma::client {

class CachedNode;

class HandleIndex {
 public:
  // `hash`: of the handle; where it goes is decided by the lower bits.
  CachedNode* find(uint64_t hash, std::string_view handle) const;
  // No Node of that handle is here.
  void insert(uint64_t hash, CachedNode& node);
  // False: it is not here.
  bool erase(uint64_t hash, const CachedNode& node);
  // Where find() and insert() of that hash begin; null while nothing is here.
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

  std::vector<Place> places_;  // none, or a power of two
  size_t size_ = 0;
};

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// CachedNode: what the client keeps per file object for every NFS version. CachedNodeTable finds it by file
// handle.
//
// CachedNodeTable::get() creates a Node; it is destroyed when the last NodeRef goes. Its mutex guards the
// mutable parts, is held for a short time and never across co_await. What only open files need is in a
// CachedFile, which exists only while the file is in use (OpenFiles). A Node without a CachedFile must be
// small: a kernel may remember a million of them.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "client/core/access/access_cache.h"
#include "client/core/attributes/attribute_cache.h"
#include "client/core/attributes/content_state.h"
#include "client/core/names/name_cache.h"
#include "client/core/names/names_state.h"
#include "client/core/names/sweeps.h"
#include "client/core/nodes/handle_index.h"
#include "client/core/nodes/kernel_view.h"
#include "client/core/read/data_cache.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

class CachedNodeTable;
struct CachedFile;

// For a directory: how applications use it. This decides what is worth requesting.
struct DirectoryUse {
  bool listing_unread = false;      // the listing that the last OPENDIR fetched was not read
  bool entries_unasked = false;     // the last OPENDIR fetched attributes of its files; none was used since
  bool acl_asked = false;           // a request for its ACL is in progress
  uint8_t uncacheable_lookups = 0;  // lookups answered with zero TTL, because the ACL is not known
};

class CachedNode : public Node {
 public:
  // Allocates room for the file handle behind the object of the derived class. The constructor copies it
  // there.
  static void* operator new(size_t size, std::string_view handle) {
    return ::operator new(size + handle.size());
  }
  static void operator delete(void* node) { ::operator delete(node); }
  static void operator delete(void* node, std::string_view) { ::operator delete(node); }

  std::string_view handle() const {
    return {reinterpret_cast<const char*>(this) + object_bytes_, handle_bytes_};
  }
  // The server's file system that contains the object (Exports); 0: that of the mount's root.
  uint32_t export_index() const { return export_index_; }

  mutable Mutex mutex{LockRank::kObject};
  // --- guarded by mutex ---
  AttributeCache attributes NFSRDMA_GUARDED_BY(mutex);
  ContentState contents NFSRDMA_GUARDED_BY(mutex);
  KernelState kernel NFSRDMA_GUARDED_BY(mutex);
  DirectoryUse use NFSRDMA_GUARDED_BY(mutex);
  NamesState names_known NFSRDMA_GUARDED_BY(mutex);
  // A sweep fetched the attributes (sweeps.h), and no application has asked for them since.
  bool swept NFSRDMA_GUARDED_BY(mutex) = false;
  // Counts our writes and truncations of the data, and how often the cached data was dropped. If the count
  // changes during a READ, the READ's data may be old, even if the change attribute is the same.
  std::atomic<uint32_t> data_touched{0};
  // The kernel's pages belong to this change attribute, and no invalidation of them is in progress.
  bool pages_are_of(uint64_t change) const NFSRDMA_REQUIRES(mutex) {
    return contents.are_of(change) && !kernel.dropping();
  }
  // As far as is known, names of that epoch are still valid.
  bool names_hold(uint64_t epoch) const NFSRDMA_REQUIRES(mutex) {
    return epoch == names_known.epoch && contents.are_of(attributes.get().change);
  }
  AccessCache access NFSRDMA_GUARDED_BY(mutex);
  // For files under a delegation (AttributeCache::promise): the sequence numbers of the request that brought
  // it, and of a moment after its reply. The delegation covers the file's names, too (RFC 8881 section 10.4):
  // a name that a reply showed under the delegation is valid.
  uint64_t promised_by NFSRDMA_GUARDED_BY(mutex) = 0, promised_since NFSRDMA_GUARDED_BY(mutex) = 0;
  bool name_holds(const NameBelief& belief) const NFSRDMA_REQUIRES(mutex) {
    return attributes.promised() && belief.asked != 0 &&
           (belief.asked == promised_by || belief.asked > promised_since);
  }
  // Null while the file is not in use (OpenFiles).
  virtual std::shared_ptr<CachedFile> cached_file() const NFSRDMA_REQUIRES(mutex) = 0;
  // --- guarded by the name cache's lock ---
  NameLinks names;

 protected:
  // `object_bytes`: the size of the derived class.
  CachedNode(CachedNodeTable& table, size_t object_bytes, std::string_view handle, uint32_t export_index);

 private:
  friend class CachedNodeTable;
  void last_reference() noexcept override;

  const uint32_t export_index_;
  const uint16_t object_bytes_;
  const uint16_t handle_bytes_;
  CachedNodeTable& table_;
};

inline CachedNode& cached_node(Node& n) {
  return static_cast<CachedNode&>(n);
}
inline CachedNode& cached_node(const NodeRef& n) {
  return static_cast<CachedNode&>(*n.get());
}

class CachedNodeTable {
 public:
  // Creates a Node of the derived class with new.
  using Make = CachedNode* (*)(CachedNodeTable& table, std::string_view handle, uint32_t export_index);
  explicit CachedNodeTable(Make make);
  ~CachedNodeTable();

  // The Node of the file handle; creates it if it does not exist.
  NodeRef get(std::string_view handle, uint32_t export_index);
  NodeRef find(std::string_view handle);
  // get() or find() for this handle follows soon: starts to load the memory that they read into the
  // processor's cache.
  void prefetch(std::string_view handle);
  size_t size() const { return size_.load(std::memory_order_relaxed); }
  // Calls `visit` for every Node, without a lock.
  void each(const std::function<void(const NodeRef&)>& visit);

  NameCache& names() { return names_; }
  DataCache& data() { return data_; }
  Sweeps& sweeps() { return sweeps_; }
  // Sequence numbers that order requests and replies, see AttributeCache.
  uint64_t next_start() { return starts_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // True: the file's Node was dropped after sequence number `order`, and with it the record of our changes to
  // the file. A request that began at `order` may therefore bring old attributes. May also be true because of
  // another file in the same hash bucket. Call it after get(): from then on the Node records our changes.
  bool dropped_since(std::string_view handle, uint64_t order) const {
    return dropped_[part(hash_of(handle), kDropped)].load(std::memory_order_relaxed) > order;
  }

 private:
  friend class CachedNode;
  static constexpr size_t kShards = 16;
  static constexpr size_t kDropped = 16384;
  struct Shard {
    Mutex mutex{LockRank::kTable};
    HandleIndex nodes NFSRDMA_GUARDED_BY(mutex);
  };
  static uint64_t hash_of(std::string_view handle) { return std::hash<std::string_view>{}(handle); }
  // Which of `count` parts (a power of two). Uses the upper bits, because HandleIndex uses the lower bits.
  static size_t part(uint64_t hash, size_t count) {
    return hash >> (std::numeric_limits<uint64_t>::digits - std::countr_zero(count));
  }
  Shard& shard_of(uint64_t hash) { return shards_[part(hash, kShards)]; }
  void drop(CachedNode& node);
  void note_dropped(uint64_t hash);

  const Make make_;
  std::array<Shard, kShards> shards_;
  NameCache names_;
  DataCache data_;
  Sweeps sweeps_;
  std::atomic<size_t> size_{0};
  std::atomic<uint64_t> starts_{0};
  // For each hash of file handles: next_start() when one of its Nodes was last dropped; 0: never.
  std::array<std::atomic<uint64_t>, kDropped> dropped_{};
};

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// CachedNode: what the client keeps per file object whatever the protocol's version, and the table that finds
// it by file handle.
//
// A Node is created by CachedNodeTable::get() and destroyed when the last NodeRef goes. Its mutable parts are
// guarded by its mutex (rank 2; the table's shard locks are rank 1, the name cache's lock is a leaf), which
// is short and never held across co_await. What only open files need hangs in a CachedFile and exists only
// then. A file that is only known of should cost little: a kernel may remember a million of them.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "client/cache/access_cache.h"
#include "client/cache/attribute_cache.h"
#include "client/cache/data_cache.h"
#include "client/cache/handle_index.h"
#include "client/cache/kernel_view.h"
#include "client/cache/name_cache.h"
#include "client/cache/sweeps.h"
#include "transport/runtime/small_mutex.h"

namespace nfsrdma::client {

class CachedNodeTable;
struct CachedFile;

// The contents of an object: a file's data in the kernel's page cache, a directory's names in the name cache
// and in the kernel's cached listing.
struct ContentState {
  uint64_t change = 0;  // the change attribute that the contents are of; valid with `known`
  bool known = false;
  // Files: the change attribute moved while we were writing; whether by us alone is not known. A new lock
  // then drops the pages.
  bool mixed = false;
  // Files: parts of pages were written here, which the kernel does not keep (Linux 6.18 reads such a page
  // when somebody wants it).
  bool partly = false;

  bool are_of(uint64_t other) const { return known && change == other; }
  void set(uint64_t now) {
    change = now;
    known = true;
  }
};

// Of a directory: how far its names are believed.
struct NamesState {
  uint64_t epoch = 1;  // names learnt in an earlier epoch are hints only
  // The last change was ours, and the server could not say whether it was the only one: names are verified
  // again after acdirmax at the latest.
  bool uncertain = false;

  void others_changed() {
    uncertain = false;
    ++epoch;
  }
};

// Of a directory: how it is used, which decides what is worth asking for.
struct DirectoryUse {
  bool listing_unread = false;      // the listing that came with the last opening was not read
  bool entries_unasked = false;     // attributes of its files came with its opening; none was asked for since
  bool acl_asked = false;           // its ACL is being asked for
  uint8_t uncacheable_lookups = 0;  // lookups answered with a TTL of 0, because the ACL is not known
};

class CachedNode : public Node {
 public:
  // With room for a file handle behind the object of the protocol's own class, which the constructor puts
  // there.
  static void* operator new(size_t size, std::string_view handle) {
    return ::operator new(size + handle.size());
  }
  static void operator delete(void* node) { ::operator delete(node); }
  static void operator delete(void* node, std::string_view) { ::operator delete(node); }

  std::string_view handle() const {
    return {reinterpret_cast<const char*>(this) + object_bytes_, handle_bytes_};
  }
  // Which file system of the server it is on: 0 is that of the mount's root.
  uint32_t export_index() const { return export_index_; }

  mutable SmallMutex mutex;
  // --- guarded by mutex ---
  AttributeCache attributes;
  ContentState contents;
  KernelState kernel;
  DirectoryUse use;
  NamesState names_known;
  // The attributes came with others of the same directory (sweeps.h), and nobody has asked for them since.
  bool swept = false;
  // How often data of it was written, cut off or dropped here: what was read meanwhile may be older, also
  // where the change attribute does not tell.
  std::atomic<uint32_t> data_touched{0};
  // The kernel's pages are of this change attribute, and it is not being told to drop them.
  bool pages_are_of(uint64_t change) const { return contents.are_of(change) && !kernel.dropping(); }
  // Names of that epoch are still what the directory holds, as far as is known.
  bool names_hold(uint64_t epoch) const {
    return epoch == names_known.epoch && contents.are_of(attributes.get().change);
  }
  AccessCache access;
  // Files under a promise (AttributeCache::promise): the request that brought it, and a time after its
  // answer. Names of the file are promised, too (RFC 8881 section 10.4): those that were seen under the
  // promise hold.
  uint64_t promised_by = 0, promised_since = 0;
  bool name_holds(const NameBelief& belief) const {
    return attributes.promised() && belief.asked != 0 &&
           (belief.asked == promised_by || belief.asked > promised_since);
  }
  // Null while nobody has it open. Mutex held.
  virtual std::shared_ptr<CachedFile> cached_file() const = 0;
  // --- guarded by the name cache's lock ---
  NameLinks names;

 protected:
  // `object_bytes`: of the protocol's own class.
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
  // Makes a Node of the protocol's own class, by new.
  using Make = CachedNode* (*)(CachedNodeTable& table, std::string_view handle, uint32_t export_index);
  explicit CachedNodeTable(Make make);
  ~CachedNodeTable();

  // The Node of the file handle, new or known.
  NodeRef get(std::string_view handle, uint32_t export_index);
  NodeRef find(std::string_view handle);
  // get() or find() of it will come in a while: what they look at is on its way to the processor then.
  void prefetch(std::string_view handle);
  size_t size() const { return size_.load(std::memory_order_relaxed); }
  // Calls `visit` for every Node, without a lock.
  void each(const std::function<void(const NodeRef&)>& visit);

  NameCache& names() { return names_; }
  DataCache& data() { return data_; }
  Sweeps& sweeps() { return sweeps_; }
  // The order in which requests are started, see AttributeCache.
  uint64_t next_start() { return starts_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // A Node of the file was dropped, and with it what we had done to the file, since a request began that was
  // given `order`. Some files are taken for others. Who has its present Node will hear of it: asked after
  // get().
  bool dropped_since(std::string_view handle, uint64_t order) const {
    return dropped_[part(hash_of(handle), kDropped)].load(std::memory_order_relaxed) > order;
  }

 private:
  friend class CachedNode;
  static constexpr size_t kShards = 16;
  static constexpr size_t kDropped = 16384;
  struct Shard {
    std::mutex mutex;
    HandleIndex nodes;
  };
  static uint64_t hash_of(std::string_view handle) { return std::hash<std::string_view>{}(handle); }
  // Which of `count` parts, a power of two: by the upper bits, for a place in a shard goes by the lower ones.
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
  // By hash of file handles: when the latest Node was dropped, as a count of next_start().
  std::array<std::atomic<uint64_t>, kDropped> dropped_{};
};

}  // namespace nfsrdma::client

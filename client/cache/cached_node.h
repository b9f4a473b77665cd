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
#include "client/cache/name_cache.h"
#include "client/cache/sweeps.h"
#include "transport/runtime/small_mutex.h"

namespace nfsrdma::client {

class CachedNodeTable;
struct CachedFile;

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
  // Regular files: the change attribute that the kernel's pages are known to be of; directories: that the
  // name cache's entries (and the kernel's cached listing) are of. Valid with `contents_known`.
  uint64_t contents_change = 0;
  bool contents_known = false;
  // Files: while we were writing the change attribute moved; whether by us alone is not known. A new lock
  // then drops the pages.
  bool contents_mixed = false;
  // Files: written here in parts of pages, which the kernel does not keep (Linux 6.18 reads such
  // a page when somebody wants it).
  bool contents_partly = false;
  // Directories: the kernel may have entries of the listing of `listing_change`; all of them, and of no
  // other.
  bool listing_begun = false, listing_known = false;
  // Directories: the listing that came with the last opening was not read.
  bool listing_unread = false;
  // Directories: attributes of its files came with its opening, and none of them was asked for since.
  bool entries_unasked = false;
  // The attributes came with others of the same directory (sweeps.h), and nobody has asked for them since.
  bool swept = false;
  // Directories: the last change was ours and the server could not say whether it was the only one: names
  // must be verified again after acdirmax at the latest.
  bool names_uncertain = false;
  bool contents_are_of(uint64_t change) const { return contents_known && contents_change == change; }
  // Nor is the kernel being told to forget what it has.
  bool pages_are_of(uint64_t change) const { return contents_are_of(change) && drops_under_way == 0; }
  bool kernel_knows = false;  // the kernel may still believe the attributes that it was last given
  // Directories: names that were answered here because the kernel may not, for all that is known.
  uint8_t names_not_lent = 0;
  bool acl_asked = false;  // who may search it is being asked
  // Times the kernel is being told to forget pages that somebody else has made old: until it did, nobody's
  // open may keep them.
  uint32_t drops_under_way = 0;
  // How often data of it was written, cut off or dropped here: what was read meanwhile may be of before, also
  // where the change attribute does not tell.
  std::atomic<uint32_t> data_touched{0};
  // Of the attributes that the kernel was last given: fingerprint_of(), and the change attribute.
  uint32_t kernel_fingerprint = 0;
  uint64_t kernel_change = 0;
  uint64_t kernel_size = 0;  // by that, and by what was written through it since
  // Directories: the change attribute of the first listing that was read since the kernel began its cached
  // one.
  uint64_t listing_change = 0;
  // Directories: counts the changes by somebody else. Names learnt in an earlier epoch are hints only.
  uint64_t names_epoch = 1;
  // With mutex held: whether names of that epoch are still what the directory holds, as far as is known.
  bool names_hold(uint64_t epoch) const {
    return epoch == names_epoch && contents_are_of(attributes.get().change);
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

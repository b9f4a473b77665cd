// SPDX-License-Identifier: Apache-2.0
// InodeTable: which Nodes the kernel knows, and their lookup counts.
//
// The kernel's node id is the Node's address; the root is FUSE_ROOT_ID. Every user can read the id with
// name_to_handle_at(2), so it is XORed with a key of the mount. After the kernel has forgotten a Node its
// address may hold another one. A kernel file handle from before must not lead to that one: the generation
// tells them apart. Every reply that hands a Node to the kernel (lookup, create, readdirplus...) adds one to
// its count before the reply is written, because the kernel may forget it from another loop before the
// writing call returns. A reply that failed subtracts it again. FORGET subtracts.
//
// Invariant: count > 0 <=> the Node is listed in its shard <=> this table owns one reference. The steps from
// and to zero happen under the shard's lock, all others are one atomic operation. So a lookup that races with
// the FORGET of the same Node on another loop either finds the count above zero or lists the Node anew. Any
// thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "client/api/node.h"
#include "fuse/size_doubts.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

class InodeTable {
 public:
  static constexpr uint64_t kRootId = 1;  // FUSE_ROOT_ID

  InodeTable();
  InodeTable(const InodeTable&) = delete;
  InodeTable& operator=(const InodeTable&) = delete;
  ~InodeTable() { clear(); }

  // Call it before the first request.
  void set_root(client::NodeRef root) { root_ = std::move(root); }

  client::NodeRef node(uint64_t id) const;
  uint64_t id(const client::NodeRef& node) const;
  // Together with the id this identifies the Node in a kernel file handle. It stays the same as long as the
  // Node lives, and the mount gives it out again only after 2^32 others. The root's is 0.
  uint32_t generation(const client::NodeRef& node);
  bool known(const client::NodeRef& node) const;  // whether the kernel holds it

  void add_lookup(const client::NodeRef& node);
  void forget(uint64_t id, uint64_t lookups);
  void take_back(const client::NodeRef& node) { forget(id(node), 1); }

  SizeDoubts& size_doubts() { return size_doubts_; }
  size_t size() const { return size_.load(std::memory_order_relaxed); }
  std::vector<client::NodeRef> snapshot() const;
  // The connection ended: forgets everything but the root. Returns how many Nodes the kernel still held.
  size_t clear();

 private:
  struct Shard {
    mutable Mutex mutex;
    client::Node* first NFSRDMA_GUARDED_BY(mutex) = nullptr;  // a list linked through the Nodes
  };
  static constexpr size_t kShards = 16;
  static void list(Shard& shard, client::Node& node) NFSRDMA_REQUIRES(shard.mutex);
  static void unlist(Shard& shard, client::Node& node) NFSRDMA_REQUIRES(shard.mutex);
  client::Node* address(uint64_t id) const {
    return id == 0 ? nullptr : reinterpret_cast<client::Node*>(id ^ key_);
  }
  Shard& shard(const client::Node* n) const {
    return shards_[(reinterpret_cast<uintptr_t>(n) >> 7) % kShards];
  }

  const uint64_t key_;
  client::NodeRef root_;
  std::atomic<uint32_t> last_generation_{0};
  mutable std::array<Shard, kShards> shards_;
  std::atomic<size_t> size_{0};
  log::Throttle bad_forgets_;
  SizeDoubts size_doubts_;
};

}  // namespace nfsrdma::fuse

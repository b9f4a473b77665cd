// SPDX-License-Identifier: Apache-2.0
#include "fuse/inode_table.h"

#include <random>
#include <utility>

#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

using client::Node;
using client::NodeRef;

namespace {

// Node addresses are multiples of eight, so the low three bits of every id are the key's: 2. No id is 0 or
// FUSE_ROOT_ID.
uint64_t random_key() {
  static_assert(alignof(Node) >= 8);
  std::random_device random;
  return ((uint64_t{random()} << 32 | random()) & ~uint64_t{7}) | 2;
}

}  // namespace

InodeTable::InodeTable() : key_(random_key()) {}

NodeRef InodeTable::node(uint64_t id) const {
  return id == kRootId ? root_ : NodeRef(address(id));
}

uint64_t InodeTable::id(const NodeRef& node) const {
  return node == root_ ? kRootId : reinterpret_cast<uint64_t>(node.get()) ^ key_;
}

uint32_t InodeTable::generation(const NodeRef& node) {
  if (node == root_) return 0;
  std::atomic<uint32_t>& mine = node->front_end_generation;
  uint32_t known = mine.load(std::memory_order_relaxed);
  if (known != 0) return known;
  uint32_t fresh = 0;
  while (fresh == 0) fresh = last_generation_.fetch_add(1, std::memory_order_relaxed) + 1;
  // Another loop may have set a generation meanwhile; then that one counts.
  return mine.compare_exchange_strong(known, fresh, std::memory_order_relaxed) ? fresh : known;
}

bool InodeTable::known(const NodeRef& node) const {
  return node == root_ || node->front_end_lookups.load(std::memory_order_acquire) != 0;
}

void InodeTable::list(Shard& shard, Node& node) {
  node.front_end_previous = nullptr;
  node.front_end_next = shard.first;
  if (shard.first != nullptr) shard.first->front_end_previous = &node;
  shard.first = &node;
}

void InodeTable::unlist(Shard& shard, Node& node) {
  Node* const next = node.front_end_next;
  Node* const previous = node.front_end_previous;
  (previous != nullptr ? previous->front_end_next : shard.first) = next;
  if (next != nullptr) next->front_end_previous = previous;
}

void InodeTable::add_lookup(const NodeRef& node) {
  std::atomic<uint64_t>& count = node->front_end_lookups;
  uint64_t n = count.load(std::memory_order_relaxed);
  while (n != 0) {
    if (count.compare_exchange_weak(n, n + 1, std::memory_order_acq_rel)) return;
  }
  Shard& s = shard(node.get());
  MutexLock lock(s.mutex);
  if (count.fetch_add(1, std::memory_order_acq_rel) != 0) return;  // another thread listed it meanwhile
  NodeRef owned = node;
  list(s, *owned.detach());
  size_.fetch_add(1, std::memory_order_relaxed);
}

void InodeTable::forget(uint64_t id, uint64_t lookups) {
  Node* node = id == kRootId ? root_.get() : address(id);
  if (node == nullptr || lookups == 0) return;
  std::atomic<uint64_t>& count = node->front_end_lookups;
  uint64_t n = count.load(std::memory_order_relaxed);
  while (n > lookups) {
    if (count.compare_exchange_weak(n, n - lookups, std::memory_order_acq_rel)) return;
  }
  NodeRef owned;  // released after the lock
  Shard& s = shard(node);
  MutexLock lock(s.mutex);
  n = count.load(std::memory_order_relaxed);
  uint64_t left = 0;
  do {
    left = n > lookups ? n - lookups : 0;
  } while (!count.compare_exchange_weak(n, left, std::memory_order_acq_rel));
  if (n < lookups) {
    if (const uint64_t hit = bad_forgets_.hit(); hit != 0) {
      log::error("fuse: FORGET of {} lookups, {} were counted (occurrence {})", lookups, n, hit);
    }
  }
  if (left != 0 || n == 0) return;
  unlist(s, *node);
  size_.fetch_sub(1, std::memory_order_relaxed);
  owned = NodeRef::adopt(node);
}

std::vector<NodeRef> InodeTable::snapshot() const {
  std::vector<NodeRef> all;
  all.reserve(size() + 1);
  if (root_) all.push_back(root_);
  for (const Shard& s : shards_) {
    MutexLock lock(s.mutex);
    for (Node* n = s.first; n != nullptr; n = n->front_end_next) all.emplace_back(n);
  }
  return all;
}

size_t InodeTable::clear() {
  size_t dropped = 0;
  for (Shard& s : shards_) {
    std::vector<NodeRef> owned;  // released after the lock
    MutexLock lock(s.mutex);
    for (Node* n = std::exchange(s.first, nullptr); n != nullptr; n = n->front_end_next) {
      n->front_end_lookups.store(0, std::memory_order_release);
      owned.push_back(NodeRef::adopt(n));
    }
    dropped += owned.size();
  }
  size_.fetch_sub(dropped, std::memory_order_relaxed);
  return dropped;
}

}  // namespace nfsrdma::fuse

// SPDX-License-Identifier: Apache-2.0
#include "client/core/nodes/cached_node.h"
#include "transport/runtime/check.h"

#include <vector>

namespace nfsrdma::client {

CachedNode::CachedNode(CachedNodeTable& table, size_t object_bytes, std::string_view handle,
                       uint32_t export_index)
    : export_index_(export_index),
      object_bytes_(static_cast<uint16_t>(object_bytes)),
      handle_bytes_(static_cast<uint16_t>(handle.size())),
      table_(table) {
  handle.copy(reinterpret_cast<char*>(this) + object_bytes, handle.size());
}

void CachedNode::last_reference() noexcept {
  table_.drop(*this);
}

CachedNodeTable::CachedNodeTable(Make make)
    : make_(make), names_([](Node& n) -> NameLinks& { return cached_node(n).names; }) {}

CachedNodeTable::~CachedNodeTable() {
  NFSRDMA_CHECK(size() == 0);
}

NodeRef CachedNodeTable::get(std::string_view handle, uint32_t export_index) {
  const uint64_t hash = hash_of(handle);
  Shard& shard = shard_of(hash);
  MutexLock lock(shard.mutex);
  if (CachedNode* known = shard.nodes.find(hash, handle)) {
    if (NodeTableAccess::try_acquire(*known)) return NodeRef::adopt(known);
    shard.nodes.erase(hash, *known);  // being destroyed: drop() finds it unlisted
    note_dropped(hash);
  }
  CachedNode* node = make_(*this, handle, export_index);
  shard.nodes.insert(hash, *node);
  size_.fetch_add(1, std::memory_order_relaxed);
  return NodeRef(node);
}

NodeRef CachedNodeTable::find(std::string_view handle) {
  const uint64_t hash = hash_of(handle);
  Shard& shard = shard_of(hash);
  MutexLock lock(shard.mutex);
  CachedNode* known = shard.nodes.find(hash, handle);
  if (known == nullptr || !NodeTableAccess::try_acquire(*known)) return {};
  return NodeRef::adopt(known);
}

void CachedNodeTable::prefetch(std::string_view handle) {
  const uint64_t hash = hash_of(handle);
  Shard& shard = shard_of(hash);
  MutexLock lock(shard.mutex);
  // Inlined here: GCC 12 takes a function that only prefetches for one without effect and removes the call.
  __builtin_prefetch(shard.nodes.beginning(hash));
}

void CachedNodeTable::each(const std::function<void(const NodeRef&)>& visit) {
  for (Shard& shard : shards_) {
    std::vector<NodeRef> nodes;
    {
      MutexLock lock(shard.mutex);
      nodes.reserve(shard.nodes.size());
      shard.nodes.each([&](CachedNode& node) {
        if (NodeTableAccess::try_acquire(node)) nodes.push_back(NodeRef::adopt(&node));
      });
    }
    for (const NodeRef& node : nodes) visit(node);
  }
}

// The shard's lock is held, so the thread that creates a new Node of the handle sees the note.
void CachedNodeTable::note_dropped(uint64_t hash) {
  static_assert(kDropped >= kShards, "what shares an entry shares a shard, and so its lock");
  dropped_[part(hash, kDropped)].store(next_start(), std::memory_order_relaxed);
}

void CachedNodeTable::drop(CachedNode& node) {
  names_.forget(node);
  data_.forget(node);
  sweeps_.forget(node);
  {
    const uint64_t hash = hash_of(node.handle());
    Shard& shard = shard_of(hash);
    MutexLock lock(shard.mutex);
    if (shard.nodes.erase(hash, node)) note_dropped(hash);
  }
  size_.fetch_sub(1, std::memory_order_relaxed);
  delete &node;
}

}  // namespace nfsrdma::client

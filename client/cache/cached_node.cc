#include "client/cache/cached_node.h"

#include <cassert>
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
  assert(size() == 0);
}

NodeRef CachedNodeTable::get(std::string_view handle, uint32_t export_index) {
  Shard& shard = shard_of(handle);
  std::lock_guard lock(shard.mutex);
  if (const auto it = shard.nodes.find(handle); it != shard.nodes.end()) {
    if (NodeTableAccess::try_acquire(**it)) return NodeRef::adopt(*it);
    shard.nodes.erase(it);  // dying: drop() will find itself no longer listed
    note_dropped(handle);
  }
  CachedNode* node = make_(*this, handle, export_index);
  shard.nodes.insert(node);
  size_.fetch_add(1, std::memory_order_relaxed);
  return NodeRef(node);
}

NodeRef CachedNodeTable::find(std::string_view handle) {
  Shard& shard = shard_of(handle);
  std::lock_guard lock(shard.mutex);
  const auto it = shard.nodes.find(handle);
  if (it == shard.nodes.end() || !NodeTableAccess::try_acquire(**it)) return {};
  return NodeRef::adopt(*it);
}

void CachedNodeTable::each(const std::function<void(const NodeRef&)>& visit) {
  for (Shard& shard : shards_) {
    std::vector<NodeRef> nodes;
    {
      std::lock_guard lock(shard.mutex);
      nodes.reserve(shard.nodes.size());
      for (CachedNode* node : shard.nodes) {
        if (NodeTableAccess::try_acquire(*node)) nodes.push_back(NodeRef::adopt(node));
      }
    }
    for (const NodeRef& node : nodes) visit(node);
  }
}

// With the shard's lock held: whoever makes a new Node finds it noted.
void CachedNodeTable::note_dropped(std::string_view handle) {
  static_assert(kDropped % kShards == 0, "what shares an entry shares a shard, and so its lock");
  dropped_[Hash{}(handle) % kDropped].store(next_start(), std::memory_order_relaxed);
}

void CachedNodeTable::drop(CachedNode& node) {
  names_.forget(node);
  data_.forget(node);
  sweeps_.forget(node);
  {
    Shard& shard = shard_of(node.handle());
    std::lock_guard lock(shard.mutex);
    const auto it = shard.nodes.find(node.handle());
    if (it != shard.nodes.end() && *it == &node) {
      shard.nodes.erase(it);
      note_dropped(node.handle());
    }
  }
  size_.fetch_sub(1, std::memory_order_relaxed);
  delete &node;
}

}  // namespace nfsrdma::client

#include "client/nfs4/node.h"

#include <cassert>

#include "client/nfs4/file_state.h"

namespace nfsrdma::client {

Nfs4Node::Nfs4Node(NodeTable& table, const nfs4::nfs_fh4& fh, uint32_t export_index)
    : table_(table), handle_(as_string_view(fh.bytes())), export_index_(export_index) {}

Nfs4Node::~Nfs4Node() = default;

void Nfs4Node::last_reference() noexcept {
  table_.drop(*this);
}

NodeTable::NodeTable() : names_([](Node& n) -> NameLinks& { return nfs4_node(n).names; }) {}

NodeTable::~NodeTable() {
  assert(size() == 0);
}

NodeRef NodeTable::get(const nfs4::nfs_fh4& fh, uint32_t export_index) {
  const std::string_view handle = as_string_view(fh.bytes());
  Shard& shard = shard_of(handle);
  std::lock_guard lock(shard.mutex);
  if (const auto it = shard.nodes.find(handle); it != shard.nodes.end()) {
    if (NodeTableAccess::try_acquire(*it->second)) return NodeRef::adopt(it->second);
    shard.nodes.erase(it);  // dying: drop() will find itself no longer listed
  }
  auto* node = new Nfs4Node(*this, fh, export_index);
  shard.nodes.emplace(node->handle(), node);
  size_.fetch_add(1, std::memory_order_relaxed);
  return NodeRef(node);
}

NodeRef NodeTable::find(const nfs4::nfs_fh4& fh) {
  const std::string_view handle = as_string_view(fh.bytes());
  Shard& shard = shard_of(handle);
  std::lock_guard lock(shard.mutex);
  const auto it = shard.nodes.find(handle);
  if (it == shard.nodes.end() || !NodeTableAccess::try_acquire(*it->second)) return {};
  return NodeRef::adopt(it->second);
}

void NodeTable::drop(Nfs4Node& node) {
  names_.forget(node);
  {
    Shard& shard = shard_of(node.handle());
    std::lock_guard lock(shard.mutex);
    const auto it = shard.nodes.find(node.handle());
    if (it != shard.nodes.end() && it->second == &node) shard.nodes.erase(it);
  }
  size_.fetch_sub(1, std::memory_order_relaxed);
  delete &node;
}

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/node.h"

#include "client/nfs4/state/file_state.h"

namespace nfsrdma::client::nfs4 {

Nfs4Node::Nfs4Node(CachedNodeTable& table, std::string_view handle, uint32_t export_index)
    : CachedNode(table, sizeof(Nfs4Node), handle, export_index) {}

Nfs4Node::~Nfs4Node() = default;

std::shared_ptr<CachedFile> Nfs4Node::cached_file() const {
  return file;
}

NodeTable::NodeTable()
    : CachedNodeTable(
          [](CachedNodeTable& table, std::string_view handle, uint32_t export_index) -> CachedNode* {
            return new (handle) Nfs4Node(table, handle, export_index);
          }) {}

}  // namespace nfsrdma::client::nfs4

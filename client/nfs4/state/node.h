// SPDX-License-Identifier: Apache-2.0
// Nfs4Node: the NFSv4.1 client's data per file object (cached_node.h). NodeTable finds it by nfs_fh4.
#pragma once

#include <cstdint>
#include <memory>

#include "client/core/nodes/cached_node.h"
#include "client/nfs4/protocol_types.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::client::nfs4 {

struct FileState;

class Nfs4Node final : public CachedNode {
 public:
  Nfs4Node(CachedNodeTable& table, std::string_view handle, uint32_t export_index);
  ~Nfs4Node() override;

  nfs4::nfs_fh4 fh() const { return nfs4::nfs_fh4(as_const_bytes(handle())); }

  std::shared_ptr<CachedFile> cached_file() const override;
  std::shared_ptr<FileState> file;  // null while nobody has it open; guarded by mutex
};

inline Nfs4Node& nfs4_node(Node& n) {
  return static_cast<Nfs4Node&>(n);
}
inline Nfs4Node& nfs4_node(const NodeRef& n) {
  return static_cast<Nfs4Node&>(*n.get());
}

inline nfs4::nfs_fh4 fh_of(const NodeRef& n) {
  return nfs4_node(n).fh();
}

class NodeTable : public CachedNodeTable {
 public:
  NodeTable();

  // The Node of `fh`; creates it if it does not exist.
  NodeRef get(const nfs4::nfs_fh4& fh, uint32_t export_index) {
    return CachedNodeTable::get(as_string_view(fh.bytes()), export_index);
  }
  NodeRef find(const nfs4::nfs_fh4& fh) { return CachedNodeTable::find(as_string_view(fh.bytes())); }
};

}  // namespace nfsrdma::client::nfs4

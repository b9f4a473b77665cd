// SPDX-License-Identifier: Apache-2.0
// Nfs3Node: a file object of an NFSv3 server. Nfs3FileState and Nfs3File: an open file. The protocol has no
// opens; they are counted only here, for close-to-open, written data and silly renames.
#pragma once

#include <cstdint>
#include <memory>

#include "client/core/nodes/cached_file.h"

namespace nfsrdma::client::nfs3 {

struct Nfs3FileState final : CachedFile {
  using CachedFile::CachedFile;
  // Guarded by the Node's mutex.
  uint32_t openers = 0;
  uint32_t pins = 0;  // open(2)s in progress

  bool opened() const override { return openers != 0; }
  bool in_use() const { return pins != 0 || opened() || unsaved(); }
};

class Nfs3Node final : public CachedNode {
 public:
  Nfs3Node(CachedNodeTable& table, std::string_view handle, uint32_t export_index)
      : CachedNode(table, sizeof(Nfs3Node), handle, export_index) {}

  std::string fh() const { return std::string(handle()); }
  std::shared_ptr<CachedFile> cached_file() const override { return file; }
  std::shared_ptr<Nfs3FileState> file;  // null while nobody has it open; guarded by mutex
};

inline Nfs3Node& nfs3_node(Node& n) {
  return static_cast<Nfs3Node&>(n);
}
inline Nfs3Node& nfs3_node(const NodeRef& n) {
  return static_cast<Nfs3Node&>(*n.get());
}

inline std::string fh_of(const NodeRef& n) {
  return nfs3_node(n).fh();
}

class Nfs3NodeTable : public CachedNodeTable {
 public:
  Nfs3NodeTable()
      : CachedNodeTable(
            [](CachedNodeTable& table, std::string_view handle, uint32_t export_index) -> CachedNode* {
              return new (handle) Nfs3Node(table, handle, export_index);
            }) {}
};

class Nfs3File final : public CachedOpen {
 public:
  using CachedOpen::CachedOpen;
  IoAccount account(const RequestContext&) const override { return {nullptr, credential, {}}; }
};

}  // namespace nfsrdma::client::nfs3

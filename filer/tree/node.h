// SPDX-License-Identifier: Apache-2.0
// Node: one object of an exported file system, as the server knows it.
//
// Nodes belong to the store of their file system (store.h) and are shared with the states that refer to them;
// two Nodes are never the same object. Attributes are what they were when the store last looked
// (Store::refresh); with every change the change attribute moves (RFC 8881 section 5.8.1.4). Only stores
// change a node. Everything happens under the server's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "filer/tree/principal.h"
#include "xdr/nfs4/attributes.h"

namespace nfsrdma::filer {

class Store;

// Names an object inside of one run of the server; never used twice.
using NodeId = uint64_t;

// A value, or the nfsstat4 that the operation answers with.
template <class T>
using Answer = tl::expected<T, nfs4::nfsstat4>;

inline tl::unexpected<nfs4::nfsstat4> refuse(nfs4::nfsstat4 status) {
  return tl::unexpected<nfs4::nfsstat4>(status);
}

// One file system: what shares an fsid, a size and a read-only flag. Lives as long as the tree.
struct FileSystem {
  Store* store = nullptr;
  uint32_t number = 0;  // part of filehandles
  nfs4::fsid4 fsid;
  bool read_only = false;
  uint64_t bytes_total = uint64_t{1} << 40;
  uint64_t bytes_used = 0;
  uint64_t bytes_kept = 0;    // of what is free, for root alone
  uint64_t bytes_around = 0;  // in memory: objects, names and links' texts, which are not in bytes_used
  uint64_t files_total = uint64_t{1} << 24;
  uint64_t files_used = 0;
  uint64_t files_kept = 0;  // likewise
  uint64_t max_file_bytes = uint64_t{1} << 62;
  uint32_t max_links = 65000;
  uint64_t max_io = UINT64_MAX;           // bytes of a READ or WRITE, if less than the server's
  size_t max_name = 255;                  // bytes
  bool keeps_unlinked = true;             // open files live on without a name, also when the server restarts
  bool atomic_changes = true;             // nobody else changes it: change_info4 is atomic
  std::optional<Principal> everybody;     // who every caller is here (all_squash)
  std::optional<Principal> root_becomes;  // who AUTH_SYS user 0 is here (root_squash)
};

// What clients are told of change attributes, in attributes and in change_info4.
enum class ChangeTold : uint8_t {
  kTrue,
  kFrozen,     // one value for everything, always
  kRestless,   // another one with every answer
  kBackwards,  // smaller ones as time goes on
};

struct Node {
  virtual ~Node() = default;

  NodeId id = 0;
  FileSystem* fs = nullptr;
  uint64_t fileid = 0;
  nfs4::nfs_ftype4 type = nfs4::NF4REG;
  uint32_t mode = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t links = 1;
  uint64_t size = 0;       // bytes
  uint64_t allocated = 0;  // bytes
  nfs4::changeid4 change = 1;
  nfs4::nfstime4 accessed;
  nfs4::nfstime4 modified;
  nfs4::nfstime4 changed;
  nfs4::nfstime4 created;
  nfs4::specdata4 device;                     // NF4BLK, NF4CHR
  std::optional<nfs4::verifier4> created_by;  // the verifier of an exclusive create
  bool has_acl = false;                       // the mode does not say everything about permissions

  std::shared_ptr<Node> covered_by;  // NF4DIR: the root of the export that is mounted here
  Node* covers = nullptr;            // the root of an export: the directory it is mounted on, which stays
  uint32_t holds = 0;                // opens: an unlinked node lives on while there are any
  bool pinned = false;               // the store has to keep a descriptor for them

  bool is_directory() const { return type == nfs4::NF4DIR; }
};

using NodePtr = std::shared_ptr<Node>;

}  // namespace nfsrdma::filer

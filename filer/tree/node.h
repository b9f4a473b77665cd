// SPDX-License-Identifier: Apache-2.0
// Node: one object of an exported file system, as the server knows it.
//
// A node belongs to the store of its file system (store.h) and is shared with states that refer to it. An
// object never has two nodes at a time. Attributes are as of the store's last Store::refresh(). The change
// attribute changes with every change (RFC 8881 section 5.8.1.4). Only stores modify a node. Under the
// server's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "filer/tree/principal.h"
#include "xdr/nfs4/attributes.h"

namespace nfsrdma::filer::tree {

class Store;

// Identifies an object within one run of the server; never reused.
using NodeId = uint64_t;

// A value, or the nfsstat4 to answer with.
template <class T>
using Answer = tl::expected<T, nfs4::nfsstat4>;

inline tl::unexpected<nfs4::nfsstat4> refuse(nfs4::nfsstat4 status) {
  return tl::unexpected<nfs4::nfsstat4>(status);
}

// One file system: its objects share fsid, size and read-only flag. Exists as long as the tree.
struct FileSystem {
  Store* store = nullptr;
  uint32_t number = 0;  // part of filehandles
  nfs4::fsid4 fsid;
  bool read_only = false;
  uint64_t bytes_total = uint64_t{1} << 40;
  uint64_t bytes_used = 0;
  uint64_t bytes_kept = 0;    // part of the free bytes, reserved for root
  uint64_t bytes_around = 0;  // memory only: objects, names and link texts, which bytes_used does not include
  uint64_t files_total = uint64_t{1} << 24;
  uint64_t files_used = 0;
  uint64_t files_kept = 0;  // part of the free files, reserved for root
  uint64_t max_file_bytes = uint64_t{1} << 62;
  uint32_t max_links = 65000;
  uint64_t max_io = UINT64_MAX;           // bytes of a READ or WRITE, if less than the server's
  size_t max_name = 255;                  // bytes
  bool keeps_unlinked = true;             // open files without a name survive, also at a server's restart
  bool atomic_changes = true;             // only this server changes it, so change_info4 is atomic
  std::optional<Principal> everybody;     // the principal of every caller (all_squash)
  std::optional<Principal> root_becomes;  // the principal of user 0 (root_squash)
  Flavors flavors{Flavor::kSys};          // calls with others are NFS4ERR_WRONGSEC
};

// How change attributes are reported, in attributes and in change_info4.
enum class ChangeTold : uint8_t {
  kTrue,
  kFrozen,     // the same value for all objects at all times
  kRestless,   // another value in every reply
  kBackwards,  // the value falls with each change
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
  bool has_acl = false;                       // the mode does not describe all permissions

  std::shared_ptr<Node> covered_by;  // NF4DIR: the root of the export that is mounted here
  Node* covers = nullptr;  // root of an export: the directory it is mounted on, which cannot be removed
  uint32_t holds = 0;      // number of opens and delegations; an unlinked node exists while there are any
  bool pinned = false;     // the store has to keep a descriptor for these opens and delegations

  bool is_directory() const { return type == nfs4::NF4DIR; }
};

using NodePtr = std::shared_ptr<Node>;

}  // namespace nfsrdma::filer::tree

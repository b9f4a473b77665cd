// Node: one object of the memory tree, with everything that survives a restart of the server.
//
// Nodes are owned by Tree and shared with the states that refer to them; ids are never reused, so a
// filehandle of a removed object stays NFS4ERR_STALE for ever. Only Tree changes a node, and with every
// change its change attribute grows (RFC 8881 section 5.8.1.4). Everything happens under the server's lock.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "filer/tree/directory.h"
#include "filer/tree/sparse_file.h"
#include "xdr/nfs4/attributes.h"

namespace nfsrdma::filer {

// A value, or the nfsstat4 that the operation answers with.
template <class T>
using Answer = tl::expected<T, nfs4::nfsstat4>;

inline tl::unexpected<nfs4::nfsstat4> refuse(nfs4::nfsstat4 status) {
  return tl::unexpected<nfs4::nfsstat4>(status);
}

// One file system: what shares an fsid, a size and a read-only flag.
struct FileSystem {
  uint32_t number = 0;  // part of filehandles
  nfs4::fsid4 fsid;
  bool read_only = false;
  uint64_t bytes_total = uint64_t{1} << 40;
  uint64_t bytes_used = 0;
  uint64_t files_total = uint64_t{1} << 24;
  uint64_t files_used = 0;
  uint32_t max_links = 65000;
  size_t max_name = 255;         // bytes
  uint64_t max_io = UINT64_MAX;  // bytes of a READ or WRITE, if less than the server's
};

struct Node {
  NodeId id = 0;
  FileSystem* fs = nullptr;
  nfs4::nfs_ftype4 type = nfs4::NF4REG;
  uint32_t mode = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t links = 1;
  nfs4::changeid4 change = 1;
  nfs4::nfstime4 accessed;
  nfs4::nfstime4 modified;
  nfs4::nfstime4 changed;
  nfs4::nfstime4 created;

  SparseFile data;                            // NF4REG
  Directory names;                            // NF4DIR
  std::string target;                         // NF4LNK
  nfs4::specdata4 device;                     // NF4BLK, NF4CHR
  std::optional<nfs4::verifier4> created_by;  // the verifier of an exclusive create

  NodeId parent =
      0;  // NF4DIR: "..", also for the root of an export (the directory it covers has the same parent)
  NodeId covered_by = 0;  // NF4DIR: the root of the export that is mounted here
  NodeId covers = 0;      // the root of an export: the directory it is mounted on
  uint32_t holds = 0;     // opens: an unlinked node lives on while there are any

  bool is_directory() const { return type == nfs4::NF4DIR; }
  uint64_t size() const {
    if (type == nfs4::NF4REG) return data.size();
    if (type == nfs4::NF4LNK) return target.size();
    return is_directory() ? 4096 : 0;
  }
};

using NodePtr = std::shared_ptr<Node>;

}  // namespace nfsrdma::filer

// SPDX-License-Identifier: Apache-2.0
// Attributes on the wire and ours: fattr4 to Attributes and back (RFC 8881 section 5).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "client/filesystem.h"
#include "client/nfs4/id_map.h"
#include "xdr/nfs4/attributes.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client {

// Asked for with every GETATTR and READDIR of a file.
extern const nfs4::bitmap4 kFileAttributes;
// Who may search a directory, and of which version that is.
extern const nfs4::bitmap4 kDirectoryAcl;
// The change attribute alone.
extern const nfs4::bitmap4 kChangeAttribute;
// READDIR adds these: the handle, and what READDIR needs to say about entries that fail or are mount points.
extern const nfs4::bitmap4 kEntryAttributes;
// READDIR without attributes.
extern const nfs4::bitmap4 kNameAttributes;
// What a READDIR may say of an export within the directory whatever security flavor that wants.
extern const nfs4::bitmap4 kBareAttributes;
// Of a file system, asked for once.
extern const nfs4::bitmap4 kLimitAttributes;
extern const nfs4::bitmap4 kSpaceAttributes;

// What a file system of the server takes in one operation.
struct ExportLimits {
  uint32_t rsize = 65536, wsize = 65536;      // bytes
  uint32_t name_max = 255;                    // bytes
  uint64_t file_max = INT64_MAX;              // bytes
  nfs4::bitmap4 exclusive_create_attributes;  // suppattr_exclcreat
};

// The server's file systems that this mount has come across; 0 is that of its root. Any thread.
class Exports {
 public:
  // A server that has no end of them gets one index for the rest: only their limits are then one another's.
  static constexpr uint32_t kMost = 4096;

  uint32_t index_of(const nfs4::fsid4& fsid);
  // Nothing: not asked for yet.
  std::optional<ExportLimits> limits(uint32_t export_index) const;
  void set_limits(uint32_t export_index, const ExportLimits& limits);
  // st_ino: the fileid, set apart for file systems below the root's, whose fileids may be the same (one mount
  // has one st_dev here).
  static uint64_t ino(uint32_t export_index, const nfs4::fsid4& fsid, uint64_t fileid);

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> indices_;  // by fsid4
  std::map<uint32_t, ExportLimits> limits_;
};

uint32_t file_type_bits(nfs4::nfs_ftype4 type);

// What the server did not send keeps a harmless value. `uid` and `gid` are the mapped owners.
Attributes to_attributes(const nfs4::fattr4& from, uint32_t export_index, uint32_t uid, uint32_t gid);

// Whether a directory's `acl` lets everybody search it, by RFC 8881 section 6.2.1: an entry for EVERYONE@
// allows ACE4_EXECUTE, and none before it denies that to anybody. False where there is none: a server may
// obey ACLs that it does not show.
bool acl_lets_all_search(const nfs4::fattr4& from);

// SETATTR's or CREATE's attributes; owners as already mapped.
nfs4::fattr4 to_fattr(const SetAttributes& set, const std::string& owner, const std::string& owner_group);

}  // namespace nfsrdma::client

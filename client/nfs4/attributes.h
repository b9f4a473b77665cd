// SPDX-License-Identifier: Apache-2.0
// Converts attributes: fattr4 to Attributes and back (RFC 8881 section 5).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "client/api/filesystem.h"
#include "client/core/attributes/exports.h"
#include "client/nfs4/id_map.h"
#include "client/nfs4/protocol_types.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/attributes.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client::nfs4 {

// For every GETATTR of a file.
extern const nfs4::bitmap4 kFileAttributes;
// The ACL of a directory, and the change attribute that it belongs to.
extern const nfs4::bitmap4 kDirectoryAcl;
// The change attribute alone.
extern const nfs4::bitmap4 kChangeAttribute;
// For READDIR with attributes: kFileAttributes, the file handle, and what READDIR needs for entries that fail
// or are mount points.
extern const nfs4::bitmap4 kEntryAttributes;
// For a READDIR that only lists names.
extern const nfs4::bitmap4 kNameAttributes;
// What READDIR may return for an export inside the directory, whatever security flavor that export requires.
extern const nfs4::bitmap4 kBareAttributes;
// Attributes of a file system: its limits, fetched once, and its space, fetched for each statfs(2).
extern const nfs4::bitmap4 kLimitAttributes;
extern const nfs4::bitmap4 kSpaceAttributes;

// The limits of one file system of the server, and the attributes that an exclusive create may set.
struct ExportLimits {
  uint32_t rsize = 65536, wsize = 65536;      // bytes
  uint32_t name_max = 255;                    // bytes
  uint64_t file_max = INT64_MAX;              // bytes
  nfs4::bitmap4 exclusive_create_attributes;  // suppattr_exclcreat
};

// The limits of the server's file systems, by export index (client/core/attributes/exports.h). Any thread.
class ExportLimitsTable {
 public:
  // Returns nothing if they are not fetched yet.
  std::optional<ExportLimits> get(uint32_t export_index) const;
  void set(uint32_t export_index, const ExportLimits& limits);

 private:
  mutable Mutex mutex_;
  std::map<uint32_t, ExportLimits> limits_ NFSRDMA_GUARDED_BY(mutex_);
};

uint32_t file_type_bits(nfs4::nfs_ftype4 type);

inline FilesystemId to_filesystem_id(const nfs4::fsid4& fsid) {
  return {fsid.major, fsid.minor};
}

// Attributes that the server did not send get a harmless default. `uid` and `gid` are the mapped owners.
Attributes to_attributes(const nfs4::fattr4& from, uint32_t export_index, uint32_t uid, uint32_t gid);

// Whether a directory's ACL lets everybody search it, by RFC 8881 section 6.2.1: an ACE for EVERYONE@ allows
// ACE4_EXECUTE, and no ACE before it denies that to anybody. False without an ACL: a server may enforce ACLs
// that it does not show.
bool acl_lets_all_search(const nfs4::fattr4& from);

// Attributes for SETATTR or CREATE. The owners are already mapped.
nfs4::fattr4 to_fattr(const SetAttributes& set, const std::string& owner, const std::string& owner_group);

}  // namespace nfsrdma::client::nfs4

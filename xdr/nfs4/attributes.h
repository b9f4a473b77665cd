// SPDX-License-Identifier: Apache-2.0
// fattr4: typed file attributes (RFC 8881 section 5; RFC 7862 section 12; RFC 8275 section 5; RFC 8276
// section 8.2).
//
//     fattr4 = attrmask bitmap4, attr_vals opaque<> holding the values of the bits set, lowest bit first
//
// A member is valid only if its bit is set in `attrmask`. Attributes of an object are members of fattr4.
// Attributes of a file system or a server are in `fs`, and rarely requested ones are in `rare`. Both are
// boxes that take a pointer when empty, which keeps the entries of a READDIR small. Read with a->fs->maxread;
// write with a.fs.edit().maxread = n; a.attrmask.set(FATTR4_MAXREAD).
//
// Decoding checks that the values fill attr_vals exactly. An unknown bit is an error, because the values
// after it could not be located. Write-only attributes (time_*_set, mode_set_masked, ...) are encoded and
// decoded too, because a server decodes what a client encodes. Enumerations with a closed set are checked.
#pragma once

#include <cstdint>
#include <string_view>

#include "xdr/nfs4/acl.h"
#include "xdr/nfs4/attribute_types.h"
#include "xdr/nfs4/basic.h"
#include "xdr/support/box.h"

namespace nfsrdma::nfs4 {

enum fattr4_number : uint32_t {
  FATTR4_SUPPORTED_ATTRS = 0,
  FATTR4_TYPE = 1,
  FATTR4_FH_EXPIRE_TYPE = 2,
  FATTR4_CHANGE = 3,
  FATTR4_SIZE = 4,
  FATTR4_LINK_SUPPORT = 5,
  FATTR4_SYMLINK_SUPPORT = 6,
  FATTR4_NAMED_ATTR = 7,
  FATTR4_FSID = 8,
  FATTR4_UNIQUE_HANDLES = 9,
  FATTR4_LEASE_TIME = 10,
  FATTR4_RDATTR_ERROR = 11,
  FATTR4_ACL = 12,
  FATTR4_ACLSUPPORT = 13,
  FATTR4_ARCHIVE = 14,
  FATTR4_CANSETTIME = 15,
  FATTR4_CASE_INSENSITIVE = 16,
  FATTR4_CASE_PRESERVING = 17,
  FATTR4_CHOWN_RESTRICTED = 18,
  FATTR4_FILEHANDLE = 19,
  FATTR4_FILEID = 20,
  FATTR4_FILES_AVAIL = 21,
  FATTR4_FILES_FREE = 22,
  FATTR4_FILES_TOTAL = 23,
  FATTR4_FS_LOCATIONS = 24,
  FATTR4_HIDDEN = 25,
  FATTR4_HOMOGENEOUS = 26,
  FATTR4_MAXFILESIZE = 27,
  FATTR4_MAXLINK = 28,
  FATTR4_MAXNAME = 29,
  FATTR4_MAXREAD = 30,
  FATTR4_MAXWRITE = 31,
  FATTR4_MIMETYPE = 32,
  FATTR4_MODE = 33,
  FATTR4_NO_TRUNC = 34,
  FATTR4_NUMLINKS = 35,
  FATTR4_OWNER = 36,
  FATTR4_OWNER_GROUP = 37,
  FATTR4_QUOTA_AVAIL_HARD = 38,
  FATTR4_QUOTA_AVAIL_SOFT = 39,
  FATTR4_QUOTA_USED = 40,
  FATTR4_RAWDEV = 41,
  FATTR4_SPACE_AVAIL = 42,
  FATTR4_SPACE_FREE = 43,
  FATTR4_SPACE_TOTAL = 44,
  FATTR4_SPACE_USED = 45,
  FATTR4_SYSTEM = 46,
  FATTR4_TIME_ACCESS = 47,
  FATTR4_TIME_ACCESS_SET = 48,
  FATTR4_TIME_BACKUP = 49,
  FATTR4_TIME_CREATE = 50,
  FATTR4_TIME_DELTA = 51,
  FATTR4_TIME_METADATA = 52,
  FATTR4_TIME_MODIFY = 53,
  FATTR4_TIME_MODIFY_SET = 54,
  FATTR4_MOUNTED_ON_FILEID = 55,
  FATTR4_DIR_NOTIF_DELAY = 56,  // from here on new in NFSv4.1
  FATTR4_DIRENT_NOTIF_DELAY = 57,
  FATTR4_DACL = 58,
  FATTR4_SACL = 59,
  FATTR4_CHANGE_POLICY = 60,
  FATTR4_FS_STATUS = 61,
  FATTR4_FS_LAYOUT_TYPES = 62,
  FATTR4_LAYOUT_HINT = 63,
  FATTR4_LAYOUT_TYPES = 64,
  FATTR4_LAYOUT_BLKSIZE = 65,
  FATTR4_LAYOUT_ALIGNMENT = 66,
  FATTR4_FS_LOCATIONS_INFO = 67,
  FATTR4_MDSTHRESHOLD = 68,
  FATTR4_RETENTION_GET = 69,
  FATTR4_RETENTION_SET = 70,
  FATTR4_RETENTEVT_GET = 71,
  FATTR4_RETENTEVT_SET = 72,
  FATTR4_RETENTION_HOLD = 73,
  FATTR4_MODE_SET_MASKED = 74,
  FATTR4_SUPPATTR_EXCLCREAT = 75,
  FATTR4_FS_CHARSET_CAP = 76,
  FATTR4_CLONE_BLKSIZE = 77,  // from here on NFSv4.2
  FATTR4_SPACE_FREED = 78,
  FATTR4_CHANGE_ATTR_TYPE = 79,
  FATTR4_SEC_LABEL = 80,
  FATTR4_MODE_UMASK = 81,
  FATTR4_XATTR_SUPPORT = 82,
};
inline constexpr uint32_t kAttributeCount = FATTR4_XATTR_SUPPORT + 1;

// Values of fh_expire_type (RFC 8881 section 5.8.1.3).
enum fh_expire : uint32_t {
  FH4_PERSISTENT = 0x0,
  FH4_NOEXPIRE_WITH_OPEN = 0x1,
  FH4_VOLATILE_ANY = 0x2,
  FH4_VOL_MIGRATION = 0x4,
  FH4_VOL_RENAME = 0x8,
};

// Values of change_attr_type (RFC 7862 section 12.2.3).
enum change_attr_type4 : uint32_t {
  NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR = 0,
  NFS4_CHANGE_TYPE_IS_VERSION_COUNTER = 1,
  NFS4_CHANGE_TYPE_IS_VERSION_COUNTER_NOPNFS = 2,
  NFS4_CHANGE_TYPE_IS_TIME_METADATA = 3,
  NFS4_CHANGE_TYPE_IS_UNDEFINED = 4,
};

// Attributes of a file system, or of the server (RFC 8881 section 5.4: per file system, per server).
struct fs_attributes4 {
  bitmap4 supported_attrs{};
  bitmap4 suppattr_exclcreat{};
  uint32_t fh_expire_type = FH4_PERSISTENT;
  nfs_lease4 lease_time = 0;  // seconds
  uint32_t aclsupport = 0;
  uint32_t maxlink = 0;
  uint32_t maxname = 0;
  uint32_t layout_blksize = 0;
  uint32_t fs_charset_cap = 0;
  uint32_t clone_blksize = 0;
  change_attr_type4 change_attr_type = NFS4_CHANGE_TYPE_IS_UNDEFINED;
  uint64_t files_avail = 0;
  uint64_t files_free = 0;
  uint64_t files_total = 0;
  uint64_t maxfilesize = 0;
  uint64_t maxread = 0;
  uint64_t maxwrite = 0;
  uint64_t space_avail = 0;  // bytes
  uint64_t space_free = 0;
  uint64_t space_total = 0;
  nfstime4 time_delta{};
  bool link_support = false;
  bool symlink_support = false;
  bool unique_handles = false;
  bool cansettime = false;
  bool case_insensitive = false;
  bool case_preserving = false;
  bool chown_restricted = false;
  bool homogeneous = false;
  bool no_trunc = false;
  bool xattr_support = false;

  bool operator==(const fs_attributes4&) const = default;
};

// Legal attributes that are rarely requested.
struct rare_attributes4 {
  std::vector<nfsace4> acl{};
  nfsacl41 dacl{};
  nfsacl41 sacl{};
  bool archive = false;
  bool hidden = false;
  bool system = false;
  std::string mimetype{};
  uint64_t quota_avail_hard = 0;
  uint64_t quota_avail_soft = 0;
  uint64_t quota_used = 0;
  uint64_t space_freed = 0;
  nfstime4 time_backup{};
  fs_locations4 fs_locations{};
  fs_locations_info4 fs_locations_info{};
  fs4_status fs_status{};
  change_policy4 change_policy{};
  nfstime4 dir_notif_delay{};
  nfstime4 dirent_notif_delay{};
  std::vector<layouttype4> fs_layout_types{};
  std::vector<layouttype4> layout_types{};
  layouthint4 layout_hint{};
  uint32_t layout_alignment = 0;
  std::vector<threshold_item4> mdsthreshold{};
  retention_get4 retention_get{};
  retention_set4 retention_set{};
  retention_get4 retentevt_get{};
  retention_set4 retentevt_set{};
  uint64_t retention_hold = 0;
  mode_masked4 mode_set_masked{};
  mode_umask4 mode_umask{};
  sec_label4 sec_label{};

  bool operator==(const rare_attributes4&) const = default;
};

struct fattr4 {
  bitmap4 attrmask{};

  nfs_ftype4 type = NF4REG;
  nfsstat4 rdattr_error = NFS4_OK;
  changeid4 change = 0;
  uint64_t size = 0;  // bytes
  uint64_t space_used = 0;
  fsid4 fsid{};
  uint64_t fileid = 0;
  uint64_t mounted_on_fileid = 0;
  mode4 mode = 0;  // the low twelve bits of a POSIX mode, without the file type
  uint32_t numlinks = 0;
  std::string owner{};  // "user@domain", or a number in decimal
  std::string owner_group{};
  specdata4 rawdev{};
  nfstime4 time_access{};
  nfstime4 time_modify{};
  nfstime4 time_metadata{};
  nfstime4 time_create{};
  settime4 time_access_set{};
  settime4 time_modify_set{};
  nfs_fh4 filehandle{};
  bool named_attr = false;

  Box<fs_attributes4> fs{};
  Box<rare_attributes4> rare{};

  bool has(fattr4_number attribute) const { return attrmask.test(attribute); }
  bool operator==(const fattr4&) const = default;
};

bool xdr(xdr::Encoder& x, const fattr4& v);
bool xdr(xdr::Sizer& x, const fattr4& v);
bool xdr(xdr::Decoder& x, fattr4& v);

// "time_modify"; empty for an unknown number.
std::string_view attribute_name(uint32_t number);

}  // namespace nfsrdma::nfs4

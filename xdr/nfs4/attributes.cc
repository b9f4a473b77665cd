// SPDX-License-Identifier: Apache-2.0
#include "xdr/nfs4/attributes.h"

#include <iterator>

namespace nfsrdma::nfs4 {

namespace {

template <class X, class T>
decltype(auto) in(T& box) {
  if constexpr (xdr::kDecodes<X>) {
    return (box.edit());
  } else {
    return (*box);
  }
}

template <class X>
bool value_of_object(X& x, uint32_t number, Ref<X, fattr4> v) {
  switch (number) {
    case FATTR4_TYPE:
      return x(v.type) && ((v.type >= NF4REG && v.type <= NF4NAMEDATTR) || x.fail("unknown nfs_ftype4"));
    case FATTR4_CHANGE: return x(v.change);
    case FATTR4_SIZE: return x(v.size);
    case FATTR4_NAMED_ATTR: return x(v.named_attr);
    case FATTR4_FSID: return x(v.fsid);
    case FATTR4_RDATTR_ERROR: return x(v.rdattr_error);
    case FATTR4_FILEHANDLE: return x(v.filehandle);
    case FATTR4_FILEID: return x(v.fileid);
    case FATTR4_MODE: return x(v.mode);
    case FATTR4_NUMLINKS: return x(v.numlinks);
    case FATTR4_OWNER: return xdr::bytes(x, v.owner, kMaxPrincipal);
    case FATTR4_OWNER_GROUP: return xdr::bytes(x, v.owner_group, kMaxPrincipal);
    case FATTR4_RAWDEV: return x(v.rawdev);
    case FATTR4_SPACE_USED: return x(v.space_used);
    case FATTR4_TIME_ACCESS: return x(v.time_access);
    case FATTR4_TIME_ACCESS_SET: return x(v.time_access_set);
    case FATTR4_TIME_CREATE: return x(v.time_create);
    case FATTR4_TIME_METADATA: return x(v.time_metadata);
    case FATTR4_TIME_MODIFY: return x(v.time_modify);
    case FATTR4_TIME_MODIFY_SET: return x(v.time_modify_set);
    case FATTR4_MOUNTED_ON_FILEID: return x(v.mounted_on_fileid);
    default: return x.fail("attribute without a known encoding");
  }
}

template <class X>
bool value_of_fs(X& x, uint32_t number, Ref<X, fs_attributes4> v) {
  switch (number) {
    case FATTR4_SUPPORTED_ATTRS: return x(v.supported_attrs);
    case FATTR4_FH_EXPIRE_TYPE: return x(v.fh_expire_type);
    case FATTR4_LINK_SUPPORT: return x(v.link_support);
    case FATTR4_SYMLINK_SUPPORT: return x(v.symlink_support);
    case FATTR4_UNIQUE_HANDLES: return x(v.unique_handles);
    case FATTR4_LEASE_TIME: return x(v.lease_time);
    case FATTR4_ACLSUPPORT: return x(v.aclsupport);
    case FATTR4_CANSETTIME: return x(v.cansettime);
    case FATTR4_CASE_INSENSITIVE: return x(v.case_insensitive);
    case FATTR4_CASE_PRESERVING: return x(v.case_preserving);
    case FATTR4_CHOWN_RESTRICTED: return x(v.chown_restricted);
    case FATTR4_FILES_AVAIL: return x(v.files_avail);
    case FATTR4_FILES_FREE: return x(v.files_free);
    case FATTR4_FILES_TOTAL: return x(v.files_total);
    case FATTR4_HOMOGENEOUS: return x(v.homogeneous);
    case FATTR4_MAXFILESIZE: return x(v.maxfilesize);
    case FATTR4_MAXLINK: return x(v.maxlink);
    case FATTR4_MAXNAME: return x(v.maxname);
    case FATTR4_MAXREAD: return x(v.maxread);
    case FATTR4_MAXWRITE: return x(v.maxwrite);
    case FATTR4_NO_TRUNC: return x(v.no_trunc);
    case FATTR4_SPACE_AVAIL: return x(v.space_avail);
    case FATTR4_SPACE_FREE: return x(v.space_free);
    case FATTR4_SPACE_TOTAL: return x(v.space_total);
    case FATTR4_TIME_DELTA: return x(v.time_delta);
    case FATTR4_LAYOUT_BLKSIZE: return x(v.layout_blksize);
    case FATTR4_SUPPATTR_EXCLCREAT: return x(v.suppattr_exclcreat);
    case FATTR4_FS_CHARSET_CAP: return x(v.fs_charset_cap);
    case FATTR4_CLONE_BLKSIZE: return x(v.clone_blksize);
    case FATTR4_CHANGE_ATTR_TYPE: return x(v.change_attr_type);
    case FATTR4_XATTR_SUPPORT: return x(v.xattr_support);
    default: return x.fail("attribute without a known encoding");
  }
}

template <class X>
bool value_of_rare(X& x, uint32_t number, Ref<X, rare_attributes4> v) {
  switch (number) {
    case FATTR4_ACL: return xdr::array(x, v.acl, kMaxList, kMinAceBytes);
    case FATTR4_ARCHIVE: return x(v.archive);
    case FATTR4_FS_LOCATIONS: return x(v.fs_locations);
    case FATTR4_HIDDEN: return x(v.hidden);
    case FATTR4_MIMETYPE: return xdr::bytes(x, v.mimetype, kMaxUtf8);
    case FATTR4_QUOTA_AVAIL_HARD: return x(v.quota_avail_hard);
    case FATTR4_QUOTA_AVAIL_SOFT: return x(v.quota_avail_soft);
    case FATTR4_QUOTA_USED: return x(v.quota_used);
    case FATTR4_SYSTEM: return x(v.system);
    case FATTR4_TIME_BACKUP: return x(v.time_backup);
    case FATTR4_DIR_NOTIF_DELAY: return x(v.dir_notif_delay);
    case FATTR4_DIRENT_NOTIF_DELAY: return x(v.dirent_notif_delay);
    case FATTR4_DACL: return x(v.dacl);
    case FATTR4_SACL: return x(v.sacl);
    case FATTR4_CHANGE_POLICY: return x(v.change_policy);
    case FATTR4_FS_STATUS: return x(v.fs_status);
    case FATTR4_FS_LAYOUT_TYPES: return xdr::array(x, v.fs_layout_types, kMaxList, 4);
    case FATTR4_LAYOUT_HINT: return x(v.layout_hint);
    case FATTR4_LAYOUT_TYPES: return xdr::array(x, v.layout_types, kMaxList, 4);
    case FATTR4_LAYOUT_ALIGNMENT: return x(v.layout_alignment);
    case FATTR4_FS_LOCATIONS_INFO: return x(v.fs_locations_info);
    case FATTR4_MDSTHRESHOLD: return xdr::array(x, v.mdsthreshold, kMaxList, 12);
    case FATTR4_RETENTION_GET: return x(v.retention_get);
    case FATTR4_RETENTION_SET: return x(v.retention_set);
    case FATTR4_RETENTEVT_GET: return x(v.retentevt_get);
    case FATTR4_RETENTEVT_SET: return x(v.retentevt_set);
    case FATTR4_RETENTION_HOLD: return x(v.retention_hold);
    case FATTR4_MODE_SET_MASKED: return x(v.mode_set_masked);
    case FATTR4_SPACE_FREED: return x(v.space_freed);
    case FATTR4_SEC_LABEL: return x(v.sec_label);
    case FATTR4_MODE_UMASK: return x(v.mode_umask);
    default: return x.fail("attribute without a known encoding");
  }
}

// Attributes in fattr4::fs; the others are in fattr4 or fattr4::rare.
constexpr bitmap4 kFsAttributes =
    bitmap4::of({FATTR4_SUPPORTED_ATTRS, FATTR4_FH_EXPIRE_TYPE,   FATTR4_LINK_SUPPORT,
                 FATTR4_SYMLINK_SUPPORT, FATTR4_UNIQUE_HANDLES,   FATTR4_LEASE_TIME,
                 FATTR4_ACLSUPPORT,      FATTR4_CANSETTIME,       FATTR4_CASE_INSENSITIVE,
                 FATTR4_CASE_PRESERVING, FATTR4_CHOWN_RESTRICTED, FATTR4_FILES_AVAIL,
                 FATTR4_FILES_FREE,      FATTR4_FILES_TOTAL,      FATTR4_HOMOGENEOUS,
                 FATTR4_MAXFILESIZE,     FATTR4_MAXLINK,          FATTR4_MAXNAME,
                 FATTR4_MAXREAD,         FATTR4_MAXWRITE,         FATTR4_NO_TRUNC,
                 FATTR4_SPACE_AVAIL,     FATTR4_SPACE_FREE,       FATTR4_SPACE_TOTAL,
                 FATTR4_TIME_DELTA,      FATTR4_LAYOUT_BLKSIZE,   FATTR4_SUPPATTR_EXCLCREAT,
                 FATTR4_FS_CHARSET_CAP,  FATTR4_CLONE_BLKSIZE,    FATTR4_CHANGE_ATTR_TYPE,
                 FATTR4_XATTR_SUPPORT});
constexpr bitmap4 kObjectAttributes = bitmap4::of({FATTR4_TYPE,
                                                   FATTR4_CHANGE,
                                                   FATTR4_SIZE,
                                                   FATTR4_NAMED_ATTR,
                                                   FATTR4_FSID,
                                                   FATTR4_RDATTR_ERROR,
                                                   FATTR4_FILEHANDLE,
                                                   FATTR4_FILEID,
                                                   FATTR4_MODE,
                                                   FATTR4_NUMLINKS,
                                                   FATTR4_OWNER,
                                                   FATTR4_OWNER_GROUP,
                                                   FATTR4_RAWDEV,
                                                   FATTR4_SPACE_USED,
                                                   FATTR4_TIME_ACCESS,
                                                   FATTR4_TIME_ACCESS_SET,
                                                   FATTR4_TIME_CREATE,
                                                   FATTR4_TIME_METADATA,
                                                   FATTR4_TIME_MODIFY,
                                                   FATTR4_TIME_MODIFY_SET,
                                                   FATTR4_MOUNTED_ON_FILEID});

template <class X>
bool values(X& x, Ref<X, fattr4> v) {
  return v.attrmask.every([&](uint32_t number) {
    if (kObjectAttributes.test(number)) return value_of_object(x, number, v);
    if (kFsAttributes.test(number)) return value_of_fs(x, number, in<X>(v.fs));
    return value_of_rare(x, number, in<X>(v.rare));
  });
}

// Indexed by attribute number.
constexpr std::string_view kAttributeNames[] = {"supported_attrs",
                                                "type",
                                                "fh_expire_type",
                                                "change",
                                                "size",
                                                "link_support",
                                                "symlink_support",
                                                "named_attr",
                                                "fsid",
                                                "unique_handles",
                                                "lease_time",
                                                "rdattr_error",
                                                "acl",
                                                "aclsupport",
                                                "archive",
                                                "cansettime",
                                                "case_insensitive",
                                                "case_preserving",
                                                "chown_restricted",
                                                "filehandle",
                                                "fileid",
                                                "files_avail",
                                                "files_free",
                                                "files_total",
                                                "fs_locations",
                                                "hidden",
                                                "homogeneous",
                                                "maxfilesize",
                                                "maxlink",
                                                "maxname",
                                                "maxread",
                                                "maxwrite",
                                                "mimetype",
                                                "mode",
                                                "no_trunc",
                                                "numlinks",
                                                "owner",
                                                "owner_group",
                                                "quota_avail_hard",
                                                "quota_avail_soft",
                                                "quota_used",
                                                "rawdev",
                                                "space_avail",
                                                "space_free",
                                                "space_total",
                                                "space_used",
                                                "system",
                                                "time_access",
                                                "time_access_set",
                                                "time_backup",
                                                "time_create",
                                                "time_delta",
                                                "time_metadata",
                                                "time_modify",
                                                "time_modify_set",
                                                "mounted_on_fileid",
                                                "dir_notif_delay",
                                                "dirent_notif_delay",
                                                "dacl",
                                                "sacl",
                                                "change_policy",
                                                "fs_status",
                                                "fs_layout_types",
                                                "layout_hint",
                                                "layout_types",
                                                "layout_blksize",
                                                "layout_alignment",
                                                "fs_locations_info",
                                                "mdsthreshold",
                                                "retention_get",
                                                "retention_set",
                                                "retentevt_get",
                                                "retentevt_set",
                                                "retention_hold",
                                                "mode_set_masked",
                                                "suppattr_exclcreat",
                                                "fs_charset_cap",
                                                "clone_blksize",
                                                "space_freed",
                                                "change_attr_type",
                                                "sec_label",
                                                "mode_umask",
                                                "xattr_support"};
static_assert(std::size(kAttributeNames) == kAttributeCount);

}  // namespace

bool xdr(xdr::Encoder& x, const fattr4& v) {
  if (!x(v.attrmask)) return false;
  const size_t length_at = x.inline_bytes();
  if (!x(uint32_t{0})) return false;
  if (!values(x, v)) return false;
  return x.patch(length_at, static_cast<uint32_t>(x.inline_bytes() - length_at - 4));
}

bool xdr(xdr::Sizer& x, const fattr4& v) {
  return x(v.attrmask) && x(uint32_t{0}) && values(x, v);
}

bool xdr(xdr::Decoder& x, fattr4& v) {
  v = fattr4{};
  uint32_t length = 0;
  if (!x(v.attrmask) || !x(length)) return false;
  const size_t start = x.position();
  if (length > x.left()) return x.fail("truncated attributes");
  if (!values(x, v)) return false;
  return x.position() - start == length || x.fail("attributes do not fill attr_vals");
}

std::string_view attribute_name(uint32_t number) {
  return number < kAttributeCount ? kAttributeNames[number] : std::string_view{};
}

}  // namespace nfsrdma::nfs4

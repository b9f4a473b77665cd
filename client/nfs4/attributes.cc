// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/attributes.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {
namespace {

using namespace nfs4;  // NOLINT: attribute names

timespec to_timespec(const nfstime4& t) {
  // Section 2.2: nseconds must be below one second. A larger value counts as the last nanosecond.
  return {static_cast<time_t>(t.seconds), static_cast<long>(std::min(t.nseconds, 999'999'999U))};
}

settime4 to_settime(const SetAttributes::Time& t) {
  if (t.now) return {SET_TO_SERVER_TIME4, {}};
  return {SET_TO_CLIENT_TIME4, {t.value.tv_sec, static_cast<uint32_t>(t.value.tv_nsec)}};
}

}  // namespace

const bitmap4 kChangeAttribute = bitmap4::of({FATTR4_CHANGE});
const bitmap4 kFileAttributes =
    bitmap4::of({FATTR4_TYPE, FATTR4_CHANGE, FATTR4_SIZE, FATTR4_FSID, FATTR4_FILEID, FATTR4_MODE,
                 FATTR4_NUMLINKS, FATTR4_OWNER, FATTR4_OWNER_GROUP, FATTR4_RAWDEV, FATTR4_SPACE_USED,
                 FATTR4_TIME_ACCESS, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY});
const bitmap4 kDirectoryAcl = bitmap4::of({FATTR4_CHANGE, FATTR4_ACL});
const bitmap4 kNameAttributes =
    bitmap4::of({FATTR4_TYPE, FATTR4_FSID, FATTR4_RDATTR_ERROR, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID});
const bitmap4 kBareAttributes = bitmap4::of({FATTR4_RDATTR_ERROR, FATTR4_MOUNTED_ON_FILEID});
const bitmap4 kEntryAttributes = kFileAttributes | kNameAttributes | bitmap4::of({FATTR4_FILEHANDLE});
const bitmap4 kLimitAttributes =
    bitmap4::of({FATTR4_SUPPORTED_ATTRS, FATTR4_FH_EXPIRE_TYPE, FATTR4_LEASE_TIME, FATTR4_MAXFILESIZE,
                 FATTR4_MAXNAME, FATTR4_MAXREAD, FATTR4_MAXWRITE, FATTR4_SUPPATTR_EXCLCREAT});
const bitmap4 kSpaceAttributes =
    bitmap4::of({FATTR4_FILES_AVAIL, FATTR4_FILES_FREE, FATTR4_FILES_TOTAL, FATTR4_MAXNAME,
                 FATTR4_SPACE_AVAIL, FATTR4_SPACE_FREE, FATTR4_SPACE_TOTAL});

std::optional<ExportLimits> ExportLimitsTable::get(uint32_t export_index) const {
  MutexLock lock(mutex_);
  const auto known = limits_.find(export_index);
  return known == limits_.end() ? std::nullopt : std::optional(known->second);
}

void ExportLimitsTable::set(uint32_t export_index, const ExportLimits& limits) {
  MutexLock lock(mutex_);
  limits_.insert_or_assign(export_index, limits);
}

uint32_t file_type_bits(nfs_ftype4 type) {
  switch (type) {
    case NF4DIR:
    case NF4ATTRDIR: return S_IFDIR;
    case NF4BLK: return S_IFBLK;
    case NF4CHR: return S_IFCHR;
    case NF4LNK: return S_IFLNK;
    case NF4SOCK: return S_IFSOCK;
    case NF4FIFO: return S_IFIFO;
    case NF4REG:
    case NF4NAMEDATTR: break;
  }
  return S_IFREG;
}

Attributes to_attributes(const fattr4& from, uint32_t export_index, uint32_t uid, uint32_t gid) {
  Attributes a;
  const uint32_t plain = from.type == NF4DIR ? 0555 : 0444;
  a.ino = Exports::ino(export_index, to_filesystem_id(from.fsid), from.fileid);
  a.mode = file_type_bits(from.type) | ((from.has(FATTR4_MODE) ? from.mode : plain) & 07777);
  a.nlink = from.has(FATTR4_NUMLINKS) ? from.numlinks : 1;
  a.uid = uid;
  a.gid = gid;
  a.rdev_major = from.rawdev.specdata1;
  a.rdev_minor = from.rawdev.specdata2;
  // Limit the size, as Linux' client does: the kernel marks an inode with a larger size as bad. If that inode
  // is the root, the mount fails for good.
  a.size = std::min<uint64_t>(from.size, INT64_MAX);
  a.used = std::min<uint64_t>(from.has(FATTR4_SPACE_USED) ? from.space_used : from.size, INT64_MAX);
  a.atime = to_timespec(from.time_access);
  a.mtime = to_timespec(from.time_modify);
  a.ctime = to_timespec(from.has(FATTR4_TIME_METADATA) ? from.time_metadata : from.time_modify);
  a.change = from.change;
  return a;
}

bool acl_lets_all_search(const fattr4& from) {
  if (!from.has(FATTR4_ACL)) return false;
  for (const nfsace4& ace : from.rare->acl) {
    if ((ace.flag & ACE4_INHERIT_ONLY_ACE) != 0 || (ace.access_mask & ACE4_EXECUTE) == 0) continue;
    if (ace.type == ACE4_ACCESS_DENIED_ACE_TYPE) return false;
    if (ace.type == ACE4_ACCESS_ALLOWED_ACE_TYPE && ace.who == "EVERYONE@") return true;
  }
  return false;
}

fattr4 to_fattr(const SetAttributes& set, const std::string& owner, const std::string& owner_group) {
  fattr4 f;
  if (set.size) {
    f.attrmask.set(FATTR4_SIZE);
    f.size = *set.size;
  }
  if (set.mode) {
    f.attrmask.set(FATTR4_MODE);
    f.mode = *set.mode & 07777;
  }
  if (set.uid) {
    f.attrmask.set(FATTR4_OWNER);
    f.owner = owner;
  }
  if (set.gid) {
    f.attrmask.set(FATTR4_OWNER_GROUP);
    f.owner_group = owner_group;
  }
  if (set.atime) {
    f.attrmask.set(FATTR4_TIME_ACCESS_SET);
    f.time_access_set = to_settime(*set.atime);
  }
  if (set.mtime) {
    f.attrmask.set(FATTR4_TIME_MODIFY_SET);
    f.time_modify_set = to_settime(*set.mtime);
  }
  return f;
}

}  // namespace nfsrdma::client::nfs4

// SPDX-License-Identifier: Apache-2.0
#include "filer/tree/attributes.h"

#include <charconv>

namespace nfsrdma::filer::tree {

using namespace nfs4;

namespace {

constexpr bitmap4 kReadable = bitmap4::of({FATTR4_SUPPORTED_ATTRS,
                                           FATTR4_TYPE,
                                           FATTR4_FH_EXPIRE_TYPE,
                                           FATTR4_CHANGE,
                                           FATTR4_SIZE,
                                           FATTR4_LINK_SUPPORT,
                                           FATTR4_SYMLINK_SUPPORT,
                                           FATTR4_NAMED_ATTR,
                                           FATTR4_FSID,
                                           FATTR4_UNIQUE_HANDLES,
                                           FATTR4_LEASE_TIME,
                                           FATTR4_RDATTR_ERROR,
                                           FATTR4_FILEHANDLE,
                                           FATTR4_SUPPATTR_EXCLCREAT,
                                           FATTR4_ACLSUPPORT,
                                           FATTR4_CANSETTIME,
                                           FATTR4_CASE_INSENSITIVE,
                                           FATTR4_CASE_PRESERVING,
                                           FATTR4_CHOWN_RESTRICTED,
                                           FATTR4_FILEID,
                                           FATTR4_FILES_AVAIL,
                                           FATTR4_FILES_FREE,
                                           FATTR4_FILES_TOTAL,
                                           FATTR4_HOMOGENEOUS,
                                           FATTR4_MAXFILESIZE,
                                           FATTR4_MAXLINK,
                                           FATTR4_MAXNAME,
                                           FATTR4_MAXREAD,
                                           FATTR4_MAXWRITE,
                                           FATTR4_MODE,
                                           FATTR4_NO_TRUNC,
                                           FATTR4_NUMLINKS,
                                           FATTR4_OWNER,
                                           FATTR4_OWNER_GROUP,
                                           FATTR4_RAWDEV,
                                           FATTR4_SPACE_AVAIL,
                                           FATTR4_SPACE_FREE,
                                           FATTR4_SPACE_TOTAL,
                                           FATTR4_SPACE_USED,
                                           FATTR4_TIME_ACCESS,
                                           FATTR4_TIME_CREATE,
                                           FATTR4_TIME_DELTA,
                                           FATTR4_TIME_METADATA,
                                           FATTR4_TIME_MODIFY,
                                           FATTR4_MOUNTED_ON_FILEID,
                                           FATTR4_FS_CHARSET_CAP});
constexpr bitmap4 kWriteOnly =
    bitmap4::of({FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET, FATTR4_MODE_SET_MASKED});
// Not constexpr: clang 14 rejects it.
const bitmap4 kSettable =
    kWriteOnly | bitmap4::of({FATTR4_SIZE, FATTR4_MODE, FATTR4_OWNER, FATTR4_OWNER_GROUP});
const bitmap4 kSupported = kReadable | kWriteOnly;
constexpr bitmap4 kExclusive =
    bitmap4::of({FATTR4_SIZE, FATTR4_MODE, FATTR4_OWNER, FATTR4_OWNER_GROUP, FATTR4_MODE_SET_MASKED});

// Attributes that are stored in fattr4::fs.
constexpr bitmap4 kOfFileSystem =
    bitmap4::of({FATTR4_SUPPORTED_ATTRS,  FATTR4_SUPPATTR_EXCLCREAT, FATTR4_FH_EXPIRE_TYPE,
                 FATTR4_LEASE_TIME,       FATTR4_ACLSUPPORT,         FATTR4_MAXLINK,
                 FATTR4_MAXNAME,          FATTR4_FILES_AVAIL,        FATTR4_FILES_FREE,
                 FATTR4_FILES_TOTAL,      FATTR4_MAXFILESIZE,        FATTR4_MAXREAD,
                 FATTR4_MAXWRITE,         FATTR4_SPACE_AVAIL,        FATTR4_SPACE_FREE,
                 FATTR4_SPACE_TOTAL,      FATTR4_TIME_DELTA,         FATTR4_LINK_SUPPORT,
                 FATTR4_SYMLINK_SUPPORT,  FATTR4_UNIQUE_HANDLES,     FATTR4_CANSETTIME,
                 FATTR4_CASE_INSENSITIVE, FATTR4_CASE_PRESERVING,    FATTR4_CHOWN_RESTRICTED,
                 FATTR4_HOMOGENEOUS,      FATTR4_NO_TRUNC,           FATTR4_FS_CHARSET_CAP});

// Those of them that change over time.
constexpr bitmap4 kMeasured = bitmap4::of({FATTR4_FILES_AVAIL, FATTR4_FILES_FREE, FATTR4_FILES_TOTAL,
                                           FATTR4_SPACE_AVAIL, FATTR4_SPACE_FREE, FATTR4_SPACE_TOTAL});

uint64_t left(uint64_t total, uint64_t used) {
  return total - std::min(total, used);
}

void fill_fs(fs_attributes4& a, const FileSystem& fs, const ServerFacts& facts) {
  a.supported_attrs = kSupported;
  a.suppattr_exclcreat = kExclusive;
  a.fh_expire_type = FH4_PERSISTENT;
  a.lease_time = facts.lease_seconds;
  a.aclsupport = 0;
  a.maxlink = fs.max_links;
  a.maxname = static_cast<uint32_t>(fs.max_name);
  a.files_total = fs.files_total;
  a.files_free = left(fs.files_total, fs.files_used);
  a.files_avail = left(a.files_free, fs.files_kept);
  a.maxfilesize = fs.max_file_bytes;
  a.maxread = std::min(facts.max_read, fs.max_io);
  a.maxwrite = std::min(facts.max_write, fs.max_io);
  a.space_total = fs.bytes_total;
  a.space_free = left(fs.bytes_total, fs.bytes_used);
  a.space_avail = left(a.space_free, fs.bytes_kept);
  a.time_delta = {0, 1};
  a.link_support = a.symlink_support = a.unique_handles = a.cansettime = true;
  a.case_preserving = a.chown_restricted = a.homogeneous = a.no_trunc = true;
  a.case_insensitive = false;
  a.fs_charset_cap = 1;  // FSCHARSET_CAP4_CONTAINS_NON_UTF8: names are bytes
}

// "the fileid of the directory that is covered" (section 5.8.2.23); exports may be stacked.
uint64_t mounted_on(const Node& node) {
  const Node* at = &node;
  while (at->covers != nullptr) at = at->covers;
  return at->fileid;
}

// Parses an owner: this server uses decimal numbers. Some clients send "7@anything".
Answer<uint32_t> parse_id(const std::string& name) {
  const std::string_view digits = std::string_view(name).substr(0, name.find('@'));
  uint32_t id = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.empty()) {
    return refuse(NFS4ERR_BADOWNER);
  }
  return id;
}

bool valid(const settime4& time) {
  return time.set_it == SET_TO_SERVER_TIME4 || time.time.nseconds < 1'000'000'000;
}

// The rule of utimensat(2): explicit times need ownership, "now" needs only write permission.
bool may_set_time(const std::optional<settime4>& time, const Node& node, const Principal& who,
                  nfsstat4& refusal) {
  if (!time || owns(node, who)) return true;
  if (time->set_it == SET_TO_SERVER_TIME4 && may(node, who, kMayWrite)) return true;
  refusal = time->set_it == SET_TO_SERVER_TIME4 ? NFS4ERR_ACCESS : NFS4ERR_PERM;
  return false;
}

nfsstat4 check_allowed(const Node& node, const Changes& c, const Principal& who) {
  if (c.uid && *c.uid != node.uid && !who.root()) return NFS4ERR_PERM;
  if (c.gid && *c.gid != node.gid && !who.root() && !(owns(node, who) && who.in_group(*c.gid)))
    return NFS4ERR_PERM;
  // Only the owner may set owner or group, even to the same value: chown(2) changes ctime and clears set-ID
  // bits.
  if ((c.uid || c.gid) && !owns(node, who)) return NFS4ERR_PERM;
  if ((c.mode || c.mode_masked) && !owns(node, who)) return NFS4ERR_PERM;
  nfsstat4 refusal = NFS4_OK;
  if (!may_set_time(c.accessed, node, who, refusal) || !may_set_time(c.modified, node, who, refusal))
    return refusal;
  return NFS4_OK;
}

}  // namespace

const bitmap4& supported_attributes() {
  return kSupported;
}
const bitmap4& exclusive_create_attributes() {
  return kExclusive;
}

fattr4 read_attributes(const Tree& tree, const Node& node, const bitmap4& wanted, const ServerFacts& facts) {
  fattr4 a;
  a.attrmask = wanted & kReadable;
  a.type = node.type;
  if (a.has(FATTR4_CHANGE)) a.change = tree.told_change(node);
  a.size = node.size;
  a.space_used = node.allocated;
  a.fsid = node.fs->fsid;
  a.fileid = node.fileid;
  if (a.has(FATTR4_MOUNTED_ON_FILEID)) a.mounted_on_fileid = mounted_on(node);
  a.mode = node.mode;
  a.numlinks = node.links;
  a.rawdev = node.device;
  a.time_access = node.accessed;
  a.time_modify = node.modified;
  a.time_metadata = node.changed;
  a.time_create = node.created;
  if (a.has(FATTR4_OWNER)) a.owner = std::to_string(node.uid);
  if (a.has(FATTR4_OWNER_GROUP)) a.owner_group = std::to_string(node.gid);
  if (a.has(FATTR4_FILEHANDLE)) a.filehandle = tree.handle(node);
  if (facts.shows_acls && wanted.test(FATTR4_ACL)) {
    a.attrmask.set(FATTR4_ACL);
    a.rare.edit().acl = node.fs->store->acl(node);
  }
  if (!(a.attrmask & kMeasured).empty()) tree.measure(*node.fs);
  if (!(a.attrmask & kOfFileSystem).empty()) fill_fs(a.fs.edit(), *node.fs, facts);
  return a;
}

Answer<Changes> parse_changes(const fattr4& a) {
  if (!kSupported.contains(a.attrmask)) return refuse(NFS4ERR_ATTRNOTSUPP);
  if (!kSettable.contains(a.attrmask)) return refuse(NFS4ERR_INVAL);  // get-only attributes (section 5.5)
  if (a.has(FATTR4_MODE) && a.has(FATTR4_MODE_SET_MASKED)) return refuse(NFS4ERR_INVAL);
  Changes c;
  if (a.has(FATTR4_SIZE)) c.size = a.size;
  if (a.has(FATTR4_MODE)) {
    if ((a.mode & ~07777u) != 0) return refuse(NFS4ERR_INVAL);
    c.mode = a.mode;
  }
  if (a.has(FATTR4_MODE_SET_MASKED)) {
    const mode_masked4& masked = a.rare->mode_set_masked;
    if (((masked.mm_value_to_set | masked.mm_mask_bits) & ~07777u) != 0) return refuse(NFS4ERR_INVAL);
    c.mode_masked = masked;
  }
  if (a.has(FATTR4_OWNER)) {
    const Answer<uint32_t> id = parse_id(a.owner);
    if (!id) return refuse(id.error());
    c.uid = *id;
  }
  if (a.has(FATTR4_OWNER_GROUP)) {
    const Answer<uint32_t> id = parse_id(a.owner_group);
    if (!id) return refuse(id.error());
    c.gid = *id;
  }
  if (a.has(FATTR4_TIME_ACCESS_SET)) c.accessed = a.time_access_set;
  if (a.has(FATTR4_TIME_MODIFY_SET)) c.modified = a.time_modify_set;
  if ((c.accessed && !valid(*c.accessed)) || (c.modified && !valid(*c.modified)))
    return refuse(NFS4ERR_INVAL);
  return c;
}

void settle_initial(const Node& node, Changes& changes, bitmap4& set) {
  if (changes.mode != node.mode) return;
  changes.mode.reset();
  set.set(FATTR4_MODE);
}

nfsstat4 apply_changes(Tree& tree, Node& node, const Changes& c, const Principal& caller, bitmap4& set) {
  if (node.fs->read_only && !c.empty()) return NFS4ERR_ROFS;
  const Principal& who = acting(*node.fs, caller);
  if (const nfsstat4 status = check_allowed(node, c, who); status != NFS4_OK) return status;
  NewAttributes to{.uid = c.uid, .gid = c.gid, .accessed = c.accessed, .modified = c.modified};
  uint32_t mode = node.mode;
  // chown(2) clears set-ID bits, also when root calls it: "the set-user-ID and set-group-ID mode bits ... are
  // cleared". When root calls it, the group's bit stays if the group may not execute the file, because then
  // the bit does not mean set-group-ID.
  if ((c.uid || c.gid) && !node.is_directory()) {
    mode &= ~04000u;
    if ((mode & 010) != 0 || !who.root()) mode &= ~02000u;
  }
  // The mode of a symbolic link has no effect and cannot be changed on the host. Setting it succeeds and does
  // nothing, as on Linux' server.
  const bool sets_mode = (c.mode || c.mode_masked) && node.type != NF4LNK;
  if (sets_mode) {
    mode = c.mode ? *c.mode
                  : (mode & ~c.mode_masked->mm_mask_bits) |
                        (c.mode_masked->mm_value_to_set & c.mode_masked->mm_mask_bits);
    // A caller outside of the file's group cannot set the set-group-ID bit.
    if (!who.root() && !who.in_group(c.gid.value_or(node.gid))) mode &= ~02000u;
  }
  if (sets_mode) mode = without_set_id(*node.fs, node.type, mode);
  if (mode != node.mode || sets_mode) to.mode = mode;
  if (const nfsstat4 status = tree.set(node, to, who); status != NFS4_OK) return status;
  if (c.uid) set.set(FATTR4_OWNER);
  if (c.gid) set.set(FATTR4_OWNER_GROUP);
  if (c.mode) set.set(FATTR4_MODE);
  if (c.mode_masked) set.set(FATTR4_MODE_SET_MASKED);
  if (c.accessed) set.set(FATTR4_TIME_ACCESS_SET);
  if (c.modified) set.set(FATTR4_TIME_MODIFY_SET);
  return NFS4_OK;
}

}  // namespace nfsrdma::filer::tree

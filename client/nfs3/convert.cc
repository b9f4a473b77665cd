// SPDX-License-Identifier: Apache-2.0
#include "client/nfs3/convert.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

namespace nfsrdma::client::nfs3 {
namespace {

constexpr uint64_t kNanosecond = 1'000'000'000;

uint64_t change_of(const nfstime3& ctime) {
  return ctime.seconds * kNanosecond + std::min<uint64_t>(ctime.nseconds, kNanosecond - 1);
}

timespec to_timespec(const nfstime3& t) {
  return {static_cast<time_t>(t.seconds), static_cast<long>(std::min<uint64_t>(t.nseconds, kNanosecond - 1))};
}

nfstime3 to_time(const timespec& t) {
  // NFSv3 has no times before 1970 and from 2106 on.
  const auto seconds = std::clamp<int64_t>(t.tv_sec, 0, UINT32_MAX);
  return {static_cast<u_int>(seconds), static_cast<u_int>(t.tv_nsec)};
}

uint32_t type_bits(ftype3 type) {
  switch (type) {
    case NF3DIR: return S_IFDIR;
    case NF3BLK: return S_IFBLK;
    case NF3CHR: return S_IFCHR;
    case NF3LNK: return S_IFLNK;
    case NF3SOCK: return S_IFSOCK;
    case NF3FIFO: return S_IFIFO;
    case NF3REG: break;
  }
  return S_IFREG;
}

PostAttributes post(const post_op_attr& a) {
  if (a.attributes_follow == 0) return std::nullopt;
  return from_wire(a.post_op_attr_u.attributes);
}

Wcc wcc(const wcc_data& w) {
  Wcc out;
  if (w.before.attributes_follow != 0) out.before = change_of(w.before.pre_op_attr_u.attributes.ctime);
  out.after = post(w.after);
  return out;
}

nfs4::verifier4 verifier(const char (&bytes)[8]) {
  nfs4::verifier4 v;
  std::memcpy(v.data.data(), bytes, sizeof bytes);
  return v;
}

Error malformed(const char* what) {
  return system_error(EIO, "", what);
}

Result<> copy(const nfs_fh3& from, std::string& into) {
  const u_int size = from.data.data_len;
  if (size == 0 || size > NFS3_FHSIZE) return fail(malformed("a file handle of an impossible size"));
  into.assign(from.data.data_val, size);
  return {};
}

Result<> copy(const post_op_fh3& from, std::string& into) {
  if (from.handle_follows == 0) return {};
  return copy(from.post_op_fh3_u.handle, into);
}

Result<> copy_name(const char* from, std::string& into) {
  if (from == nullptr) return fail(malformed("an entry without a name"));
  into = from;
  // A name becomes a component of paths in the client.
  if (into.empty() || into.find('/') != std::string::npos) return fail(malformed("an impossible file name"));
  return {};
}

template <class Ok, class Failed>
Result<> created(uint32_t status, const Ok& ok, const Failed& failed, ObjectAnswer& into) {
  into.status = status;
  if (status != NFS3_OK) {
    into.directory = wcc(failed.dir_wcc);
    return {};
  }
  into.directory = wcc(ok.dir_wcc);
  into.object = post(ok.obj_attributes);
  return copy(ok.obj, into.handle);
}

// The client adds "." and ".." itself.
bool is_dot(const std::string& name) {
  return name == "." || name == "..";
}

}  // namespace

nfs_fh3 to_wire(const std::string& handle) {
  nfs_fh3 fh;
  fh.data.data_len = static_cast<u_int>(handle.size());
  fh.data.data_val = const_cast<char*>(handle.data());  // the library only reads it
  return fh;
}

sattr3 to_wire(const client::SetAttributes& set) {
  sattr3 out{};
  if (set.mode) {
    out.mode.set_it = 1;
    out.mode.set_mode3_u.mode = *set.mode & 07777;
  }
  if (set.uid) {
    out.uid.set_it = 1;
    out.uid.set_uid3_u.uid = *set.uid;
  }
  if (set.gid) {
    out.gid.set_it = 1;
    out.gid.set_gid3_u.gid = *set.gid;
  }
  if (set.size) {
    out.size.set_it = 1;
    out.size.set_size3_u.size = *set.size;
  }
  if (set.atime) {
    out.atime.set_it = set.atime->now ? SET_TO_SERVER_TIME : SET_TO_CLIENT_TIME;
    out.atime.set_atime_u.atime = to_time(set.atime->value);
  }
  if (set.mtime) {
    out.mtime.set_it = set.mtime->now ? SET_TO_SERVER_TIME : SET_TO_CLIENT_TIME;
    out.mtime.set_mtime_u.mtime = to_time(set.mtime->value);
  }
  return out;
}

FileAttributes from_wire(const fattr3& a) {
  FileAttributes out;
  client::Attributes& to = out.attributes;
  to.ino = a.fileid;
  to.mode = type_bits(a.type) | (a.mode & 07777);
  to.nlink = a.nlink;
  to.uid = a.uid;
  to.gid = a.gid;
  to.rdev_major = a.rdev.specdata1;
  to.rdev_minor = a.rdev.specdata2;
  // The kernel treats an inode with a larger size as corrupt.
  to.size = std::min<uint64_t>(a.size, INT64_MAX);
  to.used = std::min<uint64_t>(a.used, INT64_MAX);
  to.atime = to_timespec(a.atime);
  to.mtime = to_timespec(a.mtime);
  to.ctime = to_timespec(a.ctime);
  to.change = change_of(a.ctime);
  out.fsid = a.fsid;
  return out;
}

Result<> take(const GETATTR3res& from, AttributesAnswer& into) {
  into.status = from.status;
  if (from.status == NFS3_OK) into.object = from_wire(from.GETATTR3res_u.resok.obj_attributes);
  return {};
}

Result<> take(const SETATTR3res& from, ChangeAnswer& into) {
  into.status = from.status;
  into.wcc =
      wcc(from.status == NFS3_OK ? from.SETATTR3res_u.resok.obj_wcc : from.SETATTR3res_u.resfail.obj_wcc);
  return {};
}

Result<> take(const REMOVE3res& from, ChangeAnswer& into) {
  into.status = from.status;
  into.wcc =
      wcc(from.status == NFS3_OK ? from.REMOVE3res_u.resok.dir_wcc : from.REMOVE3res_u.resfail.dir_wcc);
  return {};
}

Result<> take(const RMDIR3res& from, ChangeAnswer& into) {
  into.status = from.status;
  into.wcc = wcc(from.status == NFS3_OK ? from.RMDIR3res_u.resok.dir_wcc : from.RMDIR3res_u.resfail.dir_wcc);
  return {};
}

Result<> take(const LOOKUP3res& from, ObjectAnswer& into) {
  into.status = from.status;
  if (from.status != NFS3_OK) {
    into.directory.after = post(from.LOOKUP3res_u.resfail.dir_attributes);
    return {};
  }
  const LOOKUP3resok& ok = from.LOOKUP3res_u.resok;
  into.directory.after = post(ok.dir_attributes);
  into.object = post(ok.obj_attributes);
  return copy(ok.object, into.handle);
}

Result<> take(const CREATE3res& from, ObjectAnswer& into) {
  return created(from.status, from.CREATE3res_u.resok, from.CREATE3res_u.resfail, into);
}
Result<> take(const MKDIR3res& from, ObjectAnswer& into) {
  return created(from.status, from.MKDIR3res_u.resok, from.MKDIR3res_u.resfail, into);
}
Result<> take(const SYMLINK3res& from, ObjectAnswer& into) {
  return created(from.status, from.SYMLINK3res_u.resok, from.SYMLINK3res_u.resfail, into);
}
Result<> take(const MKNOD3res& from, ObjectAnswer& into) {
  return created(from.status, from.MKNOD3res_u.resok, from.MKNOD3res_u.resfail, into);
}

Result<> take(const ACCESS3res& from, AccessAnswer& into) {
  into.status = from.status;
  if (from.status != NFS3_OK) {
    into.object = post(from.ACCESS3res_u.resfail.obj_attributes);
    return {};
  }
  into.object = post(from.ACCESS3res_u.resok.obj_attributes);
  into.access = from.ACCESS3res_u.resok.access;
  return {};
}

Result<> take(const READLINK3res& from, ReadlinkAnswer& into) {
  into.status = from.status;
  if (from.status != NFS3_OK) {
    into.object = post(from.READLINK3res_u.resfail.symlink_attributes);
    return {};
  }
  into.object = post(from.READLINK3res_u.resok.symlink_attributes);
  if (from.READLINK3res_u.resok.data != nullptr) into.target = from.READLINK3res_u.resok.data;
  return {};
}

Result<> take(const READ3res& from, ReadAnswer& into) {
  into.status = from.status;
  if (from.status != NFS3_OK) {
    into.object = post(from.READ3res_u.resfail.file_attributes);
    return {};
  }
  const READ3resok& ok = from.READ3res_u.resok;
  into.object = post(ok.file_attributes);
  into.eof = ok.eof != 0;
  into.count = ok.data.data_len;
  if (into.count > into.destination.size()) return fail(malformed("the server sent more than was asked for"));
  if (into.count != 0) std::memcpy(into.destination.data(), ok.data.data_val, into.count);
  return {};
}

Result<> take(const WRITE3res& from, WriteAnswer& into) {
  into.status = from.status;
  if (from.status != NFS3_OK) {
    into.wcc = wcc(from.WRITE3res_u.resfail.file_wcc);
    return {};
  }
  const WRITE3resok& ok = from.WRITE3res_u.resok;
  into.wcc = wcc(ok.file_wcc);
  into.count = ok.count;
  into.committed = ok.committed;
  into.verifier = verifier(ok.verf);
  return {};
}

Result<> take(const COMMIT3res& from, WriteAnswer& into) {
  into.status = from.status;
  if (from.status != NFS3_OK) {
    into.wcc = wcc(from.COMMIT3res_u.resfail.file_wcc);
    return {};
  }
  into.wcc = wcc(from.COMMIT3res_u.resok.file_wcc);
  into.verifier = verifier(from.COMMIT3res_u.resok.verf);
  return {};
}

Result<> take(const RENAME3res& from, RenameAnswer& into) {
  into.status = from.status;
  const bool ok = from.status == NFS3_OK;
  into.from = wcc(ok ? from.RENAME3res_u.resok.fromdir_wcc : from.RENAME3res_u.resfail.fromdir_wcc);
  into.to = wcc(ok ? from.RENAME3res_u.resok.todir_wcc : from.RENAME3res_u.resfail.todir_wcc);
  return {};
}

Result<> take(const LINK3res& from, LinkAnswer& into) {
  into.status = from.status;
  const bool ok = from.status == NFS3_OK;
  into.object = post(ok ? from.LINK3res_u.resok.file_attributes : from.LINK3res_u.resfail.file_attributes);
  into.directory = wcc(ok ? from.LINK3res_u.resok.linkdir_wcc : from.LINK3res_u.resfail.linkdir_wcc);
  return {};
}

namespace {

// The library places the elements of a list one after the other, without alignment.
template <class Entry>
Entry copied(const Entry* from) {
  Entry entry;
  std::memcpy(&entry, from, sizeof entry);
  return entry;
}

}  // namespace

Result<> take(const READDIR3res& from, ReaddirAnswer& into) {
  into.status = from.status;
  if (from.status != NFS3_OK) {
    into.directory = post(from.READDIR3res_u.resfail.dir_attributes);
    return {};
  }
  const READDIR3resok& ok = from.READDIR3res_u.resok;
  into.directory = post(ok.dir_attributes);
  into.verifier = verifier(ok.cookieverf);
  into.eof = ok.reply.eof != 0;
  for (const entry3* next = ok.reply.entries; next != nullptr;) {
    const entry3 e = copied(next);
    next = e.nextentry;
    ReaddirAnswer::Item item{e.fileid, e.cookie, {}, {}, {}};
    NFSRDMA_TRY(copy_name(e.name, item.name));
    if (!is_dot(item.name)) into.entries.push_back(std::move(item));
  }
  return {};
}

Result<> take(const READDIRPLUS3res& from, ReaddirAnswer& into) {
  into.status = from.status;
  if (from.status != NFS3_OK) {
    into.directory = post(from.READDIRPLUS3res_u.resfail.dir_attributes);
    return {};
  }
  const READDIRPLUS3resok& ok = from.READDIRPLUS3res_u.resok;
  into.directory = post(ok.dir_attributes);
  into.verifier = verifier(ok.cookieverf);
  into.eof = ok.reply.eof != 0;
  for (const entryplus3* next = ok.reply.entries; next != nullptr;) {
    const entryplus3 e = copied(next);
    next = e.nextentry;
    ReaddirAnswer::Item item{e.fileid, e.cookie, {}, post(e.name_attributes), {}};
    NFSRDMA_TRY(copy_name(e.name, item.name));
    NFSRDMA_TRY(copy(e.name_handle, item.handle));
    if (!is_dot(item.name)) into.entries.push_back(std::move(item));
  }
  return {};
}

Result<> take(const FSSTAT3res& from, FsstatAnswer& into) {
  into.status = from.status;
  if (from.status != NFS3_OK) return {};
  const FSSTAT3resok& ok = from.FSSTAT3res_u.resok;
  into.space.total_bytes = ok.tbytes;
  into.space.free_bytes = ok.fbytes;
  into.space.available_bytes = ok.abytes;
  into.space.total_files = ok.tfiles;
  into.space.free_files = ok.ffiles;
  into.space.available_files = ok.afiles;
  return {};
}

Result<> take(const FSINFO3res& from, FsinfoAnswer& into) {
  into.status = from.status;
  if (from.status != NFS3_OK) return {};
  into.root = post(from.FSINFO3res_u.resok.obj_attributes);
  into.rtmax = from.FSINFO3res_u.resok.rtmax;
  into.wtmax = from.FSINFO3res_u.resok.wtmax;
  into.maxfilesize = from.FSINFO3res_u.resok.maxfilesize;
  return {};
}

Result<> take(const PATHCONF3res& from, PathconfAnswer& into) {
  into.status = from.status;
  if (from.status == NFS3_OK) into.name_max = from.PATHCONF3res_u.resok.name_max;
  return {};
}

}  // namespace nfsrdma::client::nfs3

// SPDX-License-Identifier: Apache-2.0
// Permission checks of an RPC credential against POSIX mode bits, or by the store for nodes with an ACL.
//
// User 0 may do everything, unless the file system maps it to another user; executing a file still needs an x
// bit. The owner of a file may always read and write it through an existing open; callers make that exception
// (ops_io.cc). Under the server's lock.
#pragma once

#include <cstdint>

#include "filer/tree/store.h"

namespace nfsrdma::filer::tree {

enum Permission : uint32_t { kMayExecute = 1, kMayWrite = 2, kMayRead = 4 };

// Where the server acts as one user for everybody: a Kerberos principal that is not that user. The connection
// decides whether an AUTH_SYS caller is taken (links/peer_check.h). A Kerberos principal is taken from
// anywhere, so his name decides. A principal without an account is never that user, even if a server runs as
// 65534.
inline bool is_stranger(const FileSystem& fs, const Principal& who) {
  return fs.everybody && who.flavor == rpc::RPCSEC_GSS &&
         (who.uid != fs.everybody->uid || who.uid == Principal::kAnonymous);
}

// The principal that a file system uses for `who`. acting() of the result is the result.
inline const Principal& acting(const FileSystem& fs, const Principal& who) {
  if (is_stranger(fs, who)) {
    static const Principal kStranger{.flavor = rpc::RPCSEC_GSS};
    return kStranger;
  }
  if (fs.everybody) return *fs.everybody;
  if (!fs.root_becomes) return who;
  if (who.root()) return *fs.root_becomes;
  return who.squashed ? *who.squashed : who;
}

// The permissions of a caller on `node`, as a mask of Permission.
inline uint32_t permissions(const Node& node, const Principal& caller) {
  const Principal& who = acting(*node.fs, caller);
  if (who.root()) {
    const bool executable = node.is_directory() || (node.mode & 0111) != 0;
    return kMayRead | kMayWrite | (executable ? uint32_t{kMayExecute} : 0);
  }
  // A stranger may only read what everybody may read: the server cannot make a file that is not its user's.
  if (is_stranger(*node.fs, caller)) return node.mode & (kMayRead | kMayExecute);
  if (node.has_acl) return node.fs->store->acl_permissions(node, who);
  if (who.uid == node.uid) return node.mode >> 6 & 7;
  if (who.in_group(node.gid)) return node.mode >> 3 & 7;
  return node.mode & 7;
}

inline bool may(const Node& node, const Principal& who, uint32_t wanted) {
  return (permissions(node, who) & wanted) == wanted;
}

inline bool owns(const Node& node, const Principal& caller) {
  if (is_stranger(*node.fs, caller)) return false;
  const Principal& who = acting(*node.fs, caller);
  if (who.root()) return true;
  // Kerberos principals without an account share this number: what one of them made is not the others'.
  if (who.flavor == rpc::RPCSEC_GSS && who.uid == Principal::kAnonymous) return false;
  return who.has_user() && who.uid == node.uid;
}

// Whether `who` may remove `node` from `dir`: it needs write and search permission, and in a sticky directory
// it must own the directory or the object.
inline bool may_delete(const Node& dir, const Node& node, const Principal& who) {
  if (!may(dir, who, kMayWrite | kMayExecute)) return false;
  return (dir.mode & 01000) == 0 || owns(dir, who) || owns(node, who);
}

// Removes the set-ID bits if every caller is the server's own user (docs/conformance/filer.md). A set-ID
// program would then give that user's rights to whoever runs it on this machine. On directories these bits
// give no rights, so they stay.
inline uint32_t without_set_id(const FileSystem& fs, nfs4::nfs_ftype4 type, uint32_t mode) {
  return fs.everybody && type != nfs4::NF4DIR ? mode & ~06000u : mode;
}

// The group of a new object: in a set-group-ID directory that of the directory, else that of the caller.
inline uint32_t inherited_group(const Node& dir, const Principal& who) {
  return (dir.mode & 02000) != 0 ? dir.gid : acting(*dir.fs, who).gid;
}

}  // namespace nfsrdma::filer::tree

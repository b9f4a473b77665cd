// Who may do what: POSIX mode bits against an RPC credential.
//
// AUTH_SYS user 0 may do everything; execute still needs one x bit on a file. AUTH_NONE is the anonymous user
// 65534. Supplementary groups count as far as the credential carries them. The owner of a file may always
// read and write it through an open he holds already; that exception is the callers' (ops_io.cc). Pure
// functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "filer/tree/node.h"
#include "xdr/rpc.h"

namespace nfsrdma::filer {

struct Principal {
  static constexpr uint32_t kAnonymous = 65534;

  rpc::auth_flavor flavor = rpc::AUTH_NONE;
  uint32_t uid = kAnonymous;
  uint32_t gid = kAnonymous;
  std::vector<uint32_t> groups;

  bool root() const { return flavor == rpc::AUTH_SYS && uid == 0; }
  bool in_group(uint32_t group) const {
    return gid == group || std::find(groups.begin(), groups.end(), group) != groups.end();
  }
  // The same user, as far as client IDs, sessions and retries are concerned (RFC 8881 section 18.35.4
  // "principal").
  bool same_user(const Principal& b) const { return flavor == b.flavor && uid == b.uid; }
};

enum Permission : uint32_t { kMayExecute = 1, kMayWrite = 2, kMayRead = 4 };

// The permissions of `who` on `node`, as a mask of Permission.
inline uint32_t permissions(const Node& node, const Principal& who) {
  if (who.root()) {
    const bool executable = node.is_directory() || (node.mode & 0111) != 0;
    return kMayRead | kMayWrite | (executable ? uint32_t{kMayExecute} : 0);
  }
  if (who.uid == node.uid) return node.mode >> 6 & 7;
  if (who.in_group(node.gid)) return node.mode >> 3 & 7;
  return node.mode & 7;
}

inline bool may(const Node& node, const Principal& who, uint32_t wanted) {
  return (permissions(node, who) & wanted) == wanted;
}

inline bool owns(const Node& node, const Principal& who) {
  return who.root() || (who.flavor == rpc::AUTH_SYS && who.uid == node.uid);
}

// Whether `who` may take `node` out of `dir`: write and search permission, and in a sticky directory,
// ownership.
inline bool may_delete(const Node& dir, const Node& node, const Principal& who) {
  if (!may(dir, who, kMayWrite | kMayExecute)) return false;
  return (dir.mode & 01000) == 0 || owns(dir, who) || owns(node, who);
}

// In a set-group-id directory new objects get its group, and new directories the bit.
inline uint32_t inherited_group(const Node& dir, const Principal& who) {
  return (dir.mode & 02000) != 0 ? dir.gid : who.gid;
}

}  // namespace nfsrdma::filer

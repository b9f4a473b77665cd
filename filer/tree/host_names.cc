// SPDX-License-Identifier: Apache-2.0
// HostStore: names and directories.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "filer/tree/host_path.h"
#include "filer/tree/host_status.h"
#include "filer/tree/host_store.h"

namespace nfsrdma::filer::tree {

using namespace nfs4;

namespace {

constexpr unsigned kMaxNameDepth = 4096;

mode_t kind_of(nfs_ftype4 type) {
  switch (type) {
    case NF4BLK: return S_IFBLK;
    case NF4CHR: return S_IFCHR;
    case NF4SOCK: return S_IFSOCK;
    default: return S_IFIFO;
  }
}

bool same_object(const struct statx& a, const struct statx& b) {
  return a.stx_ino == b.stx_ino && a.stx_dev_major == b.stx_dev_major && a.stx_dev_minor == b.stx_dev_minor;
}

Fd directory_above(int directory) {
  return Fd(openat(directory, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

Answer<HostStore::HostNodePtr> HostStore::child_node(HostNode& dir, std::string_view name, Seen how) {
  const Answer<int> at = path_of(dir);
  if (!at) return refuse(at.error());
  Fd fd(openat(*at, std::string(name).c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return refuse(status_of(errno));
  Answer<HostNodePtr> node = adopt(std::move(fd), how);
  if (node) locator_.saw((*node)->fileid, dir.fileid, name);
  return node;
}

Answer<NodePtr> HostStore::child(Node& dir, std::string_view name) {
  return child_node(of_host(dir), name, Seen::kLooking);
}

// Whether a directory is still below the export's root; the host may have moved it.
bool HostStore::inside(int directory) const {
  struct statx root {};
  struct statx here {};
  if (!stat_of(root_fd_.get(), root) || !stat_of(directory, here)) return false;
  Fd at(openat(directory, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (unsigned depth = 0; at && depth < kMaxNameDepth; ++depth) {
    if (same_object(here, root)) return true;
    Fd up = directory_above(at.get());
    struct statx above {};
    if (!up || !stat_of(up.get(), above) || same_object(above, here)) return false;
    at = std::move(up);
    here = above;
  }
  return false;
}

Answer<NodePtr> HostStore::parent(Node& dir) {
  const Answer<int> at = path_of(of_host(dir));
  if (!at) return refuse(at.error());
  if (&dir == root_.get()) return NodePtr();
  Fd up = directory_above(*at);
  if (!up) return refuse(status_of(errno));
  if (!inside(up.get())) return refuse(NFS4ERR_STALE);
  return adopt(std::move(up), Seen::kLooking);
}

// A directory that this process may read but not search has names, but no accessible entries.
bool HostStore::may_search(HostNode& dir) {
  const Answer<int> at = path_of(dir);
  return at && faccessat(*at, ".", F_OK, AT_EACCESS) == 0;
}

Answer<NamedNode> HostStore::next(Node& node, uint64_t cookie) {
  HostNode& dir = of_host(node);
  if (!dir.listing) {
    const Answer<int> at = path_of(dir);
    if (!at) return refuse(at.error());
    Answer<HostListing> listing = HostListing::read(*at, cookie_hash_);
    if (!listing) return refuse(listing.error());
    dir.listing = *std::move(listing);
  }
  while (const HostListing::Entry* entry = dir.listing->next(cookie)) {
    cookie = entry->cookie;
    Answer<HostNodePtr> found = child_node(dir, entry->name, Seen::kLooking);
    if (found) return NamedNode{entry->cookie, entry->name, *std::move(found)};
    if (found.error() == NFS4ERR_ACCESS && !may_search(dir))
      return NamedNode{cookie, entry->name, nullptr, NFS4ERR_ACCESS};
    // An entry that is gone, or a mount point, is left out. Any other error fails the READDIR: a shorter list
    // would be wrong.
    const bool skipped =
        found.error() == NFS4ERR_NOENT || found.error() == NFS4ERR_ACCESS || found.error() == NFS4ERR_STALE;
    if (!skipped) return refuse(found.error());
  }
  // An entry added in the same clock tick would not be noticed, so the list is not kept.
  if (dir.doubtful) dir.listing.reset();
  return NamedNode{};
}

bool HostStore::issued(const Node&, uint64_t cookie) const {
  return cookie >= HostListing::kFirstCookie;
}

nfsstat4 HostStore::make_object(int directory, const std::string& name, const Initial& initial,
                                const Principal& who, Fd& file) {
  const mode_t mode = initial.mode & 07777;
  nfsstat4 status = NFS4ERR_SERVERFAULT;
  (void)callers_.act_as(who, [&] {
    int done = 0;
    switch (initial.type) {
      case NF4REG:
        file = Fd(openat(directory, name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, mode));
        done = file ? 0 : -1;
        break;
      case NF4DIR: done = mkdirat(directory, name.c_str(), mode); break;
      case NF4LNK: done = symlinkat(initial.target.c_str(), directory, name.c_str()); break;
      default:
        done = mknodat(directory, name.c_str(), kind_of(initial.type) | mode,
                       makedev(initial.device.specdata1, initial.device.specdata2));
    }
    status = done == 0 ? NFS4_OK : status_of(errno);
  });
  return status;
}

Answer<NodePtr> HostStore::create(Node& dir, std::string_view name, const Initial& initial,
                                  const Principal& who) {
  if (dir.fs->read_only) return refuse(NFS4ERR_ROFS);
  if (initial.type == NF4LNK && initial.target.find('\0') != std::string::npos) return refuse(NFS4ERR_INVAL);
  HostNode& own = of_host(dir);
  const Answer<int> at = path_of(own);
  if (!at) return refuse(at.error());
  Fd file;
  const nfsstat4 status = make_object(*at, std::string(name), initial, who, file);
  if (status != NFS4_OK) return refuse(status);
  Answer<HostNodePtr> node = child_node(own, name, Seen::kOwnChange);
  changed(dir);
  if (!node) return refuse(node.error());
  if ((*node)->type != initial.type) return refuse(NFS4ERR_EXIST);  // a program on the host was faster
  if (file) {
    (*node)->created_by.reset();
    // Keep the descriptor of the creation: it allows writing whatever the mode says, as the creator may.
    struct statx made {};
    if (!stat_of(file.get(), made) || made.stx_ino != (*node)->fileid) return refuse(NFS4ERR_EXIST);
    (*node)->writer = std::move(file);
  }
  settle(own);
  return node;
}

nfsstat4 HostStore::link(Node& node, Node& dir, std::string_view name, const Principal& who) {
  if (dir.fs->read_only) return NFS4ERR_ROFS;
  const Answer<int> from = path_of(of_host(node));
  const Answer<int> to = path_of(of_host(dir));
  if (!from || !to) return from ? to.error() : from.error();
  int error = 0;
  const bool acted = callers_.act_as(who, [&] {
    // AT_SYMLINK_FOLLOW follows the link in /proc to the object, not the object itself.
    const int done =
        linkat(AT_FDCWD, host_path(*from).c_str(), *to, std::string(name).c_str(), AT_SYMLINK_FOLLOW);
    error = done == 0 ? 0 : errno;
  });
  if (!acted) return NFS4ERR_SERVERFAULT;
  if (error != 0) return status_of(error);
  changed(node);
  changed(dir);
  locator_.saw(node.fileid, dir.fileid, name);
  settle(of_host(dir));
  return NFS4_OK;
}

nfsstat4 HostStore::remove(Node& dir, std::string_view name, const Principal& who) {
  if (dir.fs->read_only) return NFS4ERR_ROFS;
  HostNode& own = of_host(dir);
  // Opens the object, so that an open file survives its removal.
  const Answer<HostNodePtr> node = child_node(own, name, Seen::kLooking);
  if (!node) return node.error();
  const Answer<int> at = path_of(own);
  if (!at) return at.error();
  int error = 0;
  const bool acted = callers_.act_as(who, [&] {
    const int flags = (*node)->is_directory() ? AT_REMOVEDIR : 0;
    error = unlinkat(*at, std::string(name).c_str(), flags) == 0 ? 0 : errno;
  });
  if (!acted) return NFS4ERR_SERVERFAULT;
  if (error != 0) return status_of(error);
  changed(**node);
  changed(dir);
  settle(own);
  return NFS4_OK;
}

nfsstat4 HostStore::rename(Node& from, std::string_view old_name, Node& to, std::string_view new_name,
                           const Principal& who) {
  if (from.fs->read_only) return NFS4ERR_ROFS;
  const Answer<HostNodePtr> node = child_node(of_host(from), old_name, Seen::kLooking);
  if (!node) return node.error();
  const Answer<HostNodePtr> victim = child_node(of_host(to), new_name, Seen::kLooking);
  if (!victim && victim.error() != NFS4ERR_NOENT) return victim.error();  // it may be open and must survive
  if (victim && *victim == *node) return NFS4_OK;  // two names of one object: "MUST perform no action"
  const Answer<int> source = path_of(of_host(from));
  const Answer<int> target = path_of(of_host(to));
  if (!source || !target) return source ? target.error() : source.error();
  int error = 0;
  const bool acted = callers_.act_as(who, [&] {
    const std::string old_one(old_name);
    const std::string new_one(new_name);
    error = renameat(*source, old_one.c_str(), *target, new_one.c_str()) == 0 ? 0 : errno;
  });
  if (!acted) return NFS4ERR_SERVERFAULT;
  // If the target exists and cannot be replaced, the error is NFS4ERR_EXIST (RFC 8881 section 18.26.3).
  if (error == EISDIR || error == ENOTDIR || error == ENOTEMPTY) return NFS4ERR_EXIST;
  if (error != 0) return status_of(error);
  changed(**node);
  changed(from);
  if (&to != &from) changed(to);
  locator_.saw((*node)->fileid, to.fileid, new_name);
  if (victim) changed(**victim);
  settle(of_host(from));
  if (&to != &from) settle(of_host(to));
  return NFS4_OK;
}

}  // namespace nfsrdma::filer::tree

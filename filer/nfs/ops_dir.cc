// SPDX-License-Identifier: Apache-2.0
// Names: CREATE, LINK, REMOVE, RENAME (RFC 8881 sections 18.4, 18.9, 18.25, 18.26). The tree implements the
// POSIX rules. This file adds permissions, the grace period, delegations, and opens that deny removal.

#include "filer/nfs/ops.h"
#include "filer/nfs/stateid_use.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

// During the grace period LINK, REMOVE and RENAME are refused, because a client may still reclaim an open of
// the file (NFS4ERR_GRACE in section 15.2).
bool names_are_frozen(const Context& c) {
  return c.core.recovery.in_grace();
}

nfsstat4 need_directory(const tree::NodePtr& node) {
  if (!node->is_directory()) return NFS4ERR_NOTDIR;
  return NFS4_OK;
}

nfsstat4 need_writable_directory(const Context& c, const tree::Node& dir) {
  if (!dir.is_directory()) return NFS4ERR_NOTDIR;
  if (!tree::may(dir, c.who, tree::kMayWrite | tree::kMayExecute)) return NFS4ERR_ACCESS;
  return NFS4_OK;
}

// "The server SHOULD NOT delete the file's directory entry if the file was opened with OPEN4_SHARE_DENY_WRITE
// or OPEN4_SHARE_DENY_BOTH" (section 18.25.4).
nfsstat4 may_lose_name(Context& c, const tree::Node& node) {
  if (recall_conflicting(c, node, true)) return NFS4ERR_DELAY;
  for (state::State* state : c.core.states.of(node.id)) {
    const bool denies = (state->deny & OPEN4_SHARE_DENY_WRITE) != 0;
    if (state->kind != state::StateKind::kOpen || !state->live() || !denies) continue;
    if (!c.core.take_from_expired(*state)) return NFS4ERR_FILE_OPEN;
  }
  return NFS4_OK;
}

nfsstat4 need_saved(const Context& c) {
  if (c.saved.node == nullptr) return NFS4ERR_NOFILEHANDLE;
  return c.core.tree.refresh(*c.saved.node);
}

}  // namespace

CREATE4res execute(Context& c, const CREATE4args& args) {
  using Res = CREATE4res;
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<Res>(status);
  const tree::NodePtr dir = c.current.node;
  switch (args.objtype.type) {
    case NF4DIR:
    case NF4LNK:
    case NF4BLK:
    case NF4CHR:
    case NF4SOCK:
    case NF4FIFO: break;
    default: return refused<Res>(NFS4ERR_BADTYPE);  // OPEN creates regular files
  }
  if (const nfsstat4 status = need_directory(dir); status != NFS4_OK) return refused<Res>(status);
  if (const nfsstat4 status = c.core.tree.check_name(*dir->fs, args.objname); status != NFS4_OK) {
    return refused<Res>(status);
  }
  tree::Answer<tree::Changes> changes = tree::parse_changes(args.createattrs);
  if (!changes) return refused<Res>(changes.error());
  if (changes->size) return refused<Res>(NFS4ERR_INVAL);
  if (args.objtype.type == NF4LNK && args.objtype.linkdata.empty()) return refused<Res>(NFS4ERR_INVAL);
  // A caller without search permission must not learn whether the name exists.
  if (!tree::may(*dir, c.who, tree::kMayExecute)) return refused<Res>(NFS4ERR_ACCESS);
  const tree::Answer<tree::NodePtr> there = c.core.tree.child(*dir, args.objname);
  if (there || there.error() != NFS4ERR_NOENT) return refused<Res>(there ? NFS4ERR_EXIST : there.error());
  if (const nfsstat4 status = need_writable_directory(c, *dir); status != NFS4_OK)
    return refused<Res>(status);
  const tree::Principal& who = tree::acting(*dir->fs, c.who);
  if (changes->uid && *changes->uid != who.uid && !who.root()) return refused<Res>(NFS4ERR_PERM);
  const bool inherits = args.objtype.type == NF4DIR && (dir->mode & 02000) != 0;
  if (inherits && changes->mode) *changes->mode |= 02000;
  if (args.objtype.type == NF4LNK) changes->mode.reset();  // the mode of a symbolic link has no effect
  const uint32_t usual = args.objtype.type == NF4DIR ? 0755 : args.objtype.type == NF4LNK ? 0777 : 0644;

  const tree::Initial initial{
      .type = args.objtype.type,
      .mode = tree::without_set_id(*dir->fs, args.objtype.type,
                                   changes->mode.value_or(usual | (inherits ? 02000u : 0u))),
      .uid = who.uid,
      .gid = tree::inherited_group(*dir, c.who),
      .target = args.objtype.linkdata,
      .device = args.objtype.devdata};
  const ChangeInfo change(c, dir);
  const tree::Answer<tree::NodePtr> node = c.core.tree.create(*dir, args.objname, initial, who);
  if (!node) return refused<Res>(node.error());
  Res res;
  tree::settle_initial(**node, *changes, res.resok4.attrset);
  // An attribute that the caller may not set (for example a group that it does not belong to) makes CREATE
  // fail; the new object is removed again.
  res.status = tree::apply_changes(c.core.tree, **node, *changes, c.who, res.resok4.attrset);
  if (res.status != NFS4_OK) {
    c.core.tree.remove(*dir, args.objname, who);
    return refused<Res>(res.status);
  }
  res.resok4.cinfo = change.done();
  c.go_to(*node);
  return res;
}

LINK4res execute(Context& c, const LINK4args& args) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<LINK4res>(status);
  if (const nfsstat4 status = need_saved(c); status != NFS4_OK) return refused<LINK4res>(status);
  const tree::NodePtr dir = c.current.node;
  const tree::NodePtr node = c.saved.node;
  if (const nfsstat4 status = need_directory(dir); status != NFS4_OK) return refused<LINK4res>(status);
  if (node->is_directory()) return refused<LINK4res>(NFS4ERR_ISDIR);
  if (node->fs != dir->fs) return refused<LINK4res>(NFS4ERR_XDEV);
  if (names_are_frozen(c)) return refused<LINK4res>(NFS4ERR_GRACE);
  if (const nfsstat4 status = need_writable_directory(c, *dir); status != NFS4_OK)
    return refused<LINK4res>(status);
  if (recall_conflicting(c, *node, true)) return refused<LINK4res>(NFS4ERR_DELAY);
  const ChangeInfo change(c, dir);
  LINK4res res;
  res.status = c.core.tree.link(*node, *dir, args.newname, tree::acting(*dir->fs, c.who));
  res.resok4.cinfo = change.done();
  return res;
}

REMOVE4res execute(Context& c, const REMOVE4args& args) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<REMOVE4res>(status);
  const tree::NodePtr dir = c.current.node;
  if (const nfsstat4 status = need_directory(dir); status != NFS4_OK) return refused<REMOVE4res>(status);
  if (const nfsstat4 status = c.core.tree.check_name(*dir->fs, args.target); status != NFS4_OK) {
    return refused<REMOVE4res>(status);
  }
  if (!tree::may(*dir, c.who, tree::kMayExecute)) return refused<REMOVE4res>(NFS4ERR_ACCESS);
  const tree::Answer<tree::NodePtr> found = c.core.tree.child(*dir, args.target);
  if (!found) return refused<REMOVE4res>(found.error());
  const tree::NodePtr& node = *found;
  if (!tree::may_delete(*dir, *node, c.who)) return refused<REMOVE4res>(NFS4ERR_ACCESS);
  if (names_are_frozen(c)) return refused<REMOVE4res>(NFS4ERR_GRACE);
  if (const nfsstat4 status = may_lose_name(c, *node); status != NFS4_OK) return refused<REMOVE4res>(status);
  const ChangeInfo change(c, dir);
  REMOVE4res res;
  res.status = c.core.tree.remove(*dir, args.target, tree::acting(*dir->fs, c.who));
  res.resok4.cinfo = change.done();
  return res;
}

RENAME4res execute(Context& c, const RENAME4args& args) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<RENAME4res>(status);
  if (const nfsstat4 status = need_saved(c); status != NFS4_OK) return refused<RENAME4res>(status);
  const tree::NodePtr from = c.saved.node;
  const tree::NodePtr to = c.current.node;
  if (!from->is_directory() || !to->is_directory()) return refused<RENAME4res>(NFS4ERR_NOTDIR);
  if (from->fs != to->fs) return refused<RENAME4res>(NFS4ERR_XDEV);
  tree::Tree& tree = c.core.tree;
  if (const nfsstat4 s = tree.check_name(*from->fs, args.oldname); s != NFS4_OK)
    return refused<RENAME4res>(s);
  if (const nfsstat4 s = tree.check_name(*to->fs, args.newname); s != NFS4_OK) return refused<RENAME4res>(s);
  if (!tree::may(*from, c.who, tree::kMayExecute) || !tree::may(*to, c.who, tree::kMayExecute))
    return refused<RENAME4res>(NFS4ERR_ACCESS);
  const tree::Answer<tree::NodePtr> source = tree.child(*from, args.oldname);
  if (!source) return refused<RENAME4res>(source.error());
  const tree::NodePtr& node = *source;
  const tree::Answer<tree::NodePtr> target = tree.child(*to, args.newname);
  if (!target && target.error() != NFS4ERR_NOENT) return refused<RENAME4res>(target.error());
  const tree::NodePtr victim = target ? *target : nullptr;
  if (!tree::may_delete(*from, *node, c.who)) return refused<RENAME4res>(NFS4ERR_ACCESS);
  if (const nfsstat4 s = need_writable_directory(c, *to); s != NFS4_OK) return refused<RENAME4res>(s);
  if (victim != nullptr && !tree::may_delete(*to, *victim, c.who)) return refused<RENAME4res>(NFS4ERR_ACCESS);
  // Moving a directory changes its "..", which needs write permission on it.
  if (node->is_directory() && from != to && !tree::may(*node, c.who, tree::kMayWrite))
    return refused<RENAME4res>(NFS4ERR_ACCESS);
  if (names_are_frozen(c)) return refused<RENAME4res>(NFS4ERR_GRACE);
  if (node != victim) {
    if (recall_conflicting(c, *node, true)) return refused<RENAME4res>(NFS4ERR_DELAY);
    if (victim != nullptr) {
      if (const nfsstat4 s = may_lose_name(c, *victim); s != NFS4_OK) return refused<RENAME4res>(s);
    }
  }
  const ChangeInfo source_change(c, from);
  const ChangeInfo target_change(c, to);
  RENAME4res res;
  res.status = tree.rename(*from, args.oldname, *to, args.newname, tree::acting(*from->fs, c.who));
  res.resok4.source_cinfo = source_change.done();
  res.resok4.target_cinfo = target_change.done();
  return res;
}

}  // namespace nfsrdma::filer::nfs

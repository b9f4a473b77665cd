// SPDX-License-Identifier: Apache-2.0
// Filehandles and names: PUTFH, PUTPUBFH, PUTROOTFH, GETFH, SAVEFH, RESTOREFH, LOOKUP, LOOKUPP, SECINFO,
// SECINFO_NO_NAME (RFC 8881 sections 18.8, 18.13, 18.14, 18.19 to 18.21, 18.27 to 18.29, 18.45).

#include "filer/nfs/ops.h"
#include "filer/nfs/security_policy.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

tree::Answer<tree::NodePtr> look_up(Context& c, const std::string& name) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return tree::refuse(status);
  tree::Node& dir = *c.current.node;
  if (dir.is_directory() && !tree::may(dir, c.who, tree::kMayExecute)) return tree::refuse(NFS4ERR_ACCESS);
  return c.core.tree.lookup(dir, name);
}

tree::Answer<tree::NodePtr> look_up_parent(Context& c) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return tree::refuse(status);
  tree::Node& dir = *c.current.node;
  if (dir.is_directory() && !tree::may(dir, c.who, tree::kMayExecute)) return tree::refuse(NFS4ERR_ACCESS);
  return c.core.tree.parent(dir);
}

}  // namespace

PUTFH4res execute(Context& c, const PUTFH4args& args) {
  const tree::Answer<tree::NodePtr> node = c.core.tree.find(args.object);
  if (!node) return refused<PUTFH4res>(node.error());
  c.go_to(*node);
  return {};
}

PUTROOTFH4res execute(Context& c, const PUTROOTFH4args&) {
  c.go_to(c.core.tree.top(c.core.tree.root()));
  return {};
}

// "The public filehandle may be the same as the root filehandle" (section 4.1.2).
PUTPUBFH4res execute(Context& c, const PUTPUBFH4args&) {
  c.go_to(c.core.tree.top(c.core.tree.root()));
  return {};
}

GETFH4res execute(Context& c, const GETFH4args&) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<GETFH4res>(status);
  GETFH4res res;
  res.resok4.object = c.core.tree.handle(*c.current.node);
  return res;
}

SAVEFH4res execute(Context& c, const SAVEFH4args&) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<SAVEFH4res>(status);
  c.saved = c.current;
  return {};
}

RESTOREFH4res execute(Context& c, const RESTOREFH4args&) {
  if (c.saved.node == nullptr) return refused<RESTOREFH4res>(NFS4ERR_NOFILEHANDLE);
  c.current = c.saved;
  return {};
}

LOOKUP4res execute(Context& c, const LOOKUP4args& args) {
  const tree::Answer<tree::NodePtr> node = look_up(c, args.objname);
  if (!node) return refused<LOOKUP4res>(node.error());
  if (!accepts(c, **node)) return refused<LOOKUP4res>(NFS4ERR_WRONGSEC);
  c.go_to(*node);
  return {};
}

LOOKUPP4res execute(Context& c, const LOOKUPP4args&) {
  const tree::Answer<tree::NodePtr> node = look_up_parent(c);
  if (!node) return refused<LOOKUPP4res>(node.error());
  if (!accepts(c, **node)) return refused<LOOKUPP4res>(NFS4ERR_WRONGSEC);
  c.go_to(*node);
  return {};
}

// "On success, the current filehandle is consumed" (section 2.6.3.1.1.8). Both operations are open to every
// flavor: "The NFSv4.1 server MUST NOT return NFS4ERR_WRONGSEC from SECINFO or SECINFO_NO_NAME."
SECINFO4res execute(Context& c, const SECINFO4args& args) {
  const tree::Answer<tree::NodePtr> node = look_up(c, args.name);
  if (!node) return refused<SECINFO4res>(node.error() == NFS4ERR_SYMLINK ? NFS4ERR_NOTDIR : node.error());
  c.go_to(nullptr);
  return {NFS4_OK, security_of(*(*node)->fs)};
}

SECINFO_NO_NAME4res execute(Context& c, const SECINFO_NO_NAME4args& args) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<SECINFO_NO_NAME4res>(status);
  tree::Answer<tree::NodePtr> node = c.current.node;
  if (args.style == SECINFO_STYLE4_PARENT) node = look_up_parent(c);
  if (!node)
    return refused<SECINFO_NO_NAME4res>(node.error() == NFS4ERR_SYMLINK ? NFS4ERR_NOTDIR : node.error());
  c.go_to(nullptr);
  return {NFS4_OK, security_of(*(*node)->fs)};
}

}  // namespace nfsrdma::filer::nfs

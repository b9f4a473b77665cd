// SPDX-License-Identifier: Apache-2.0
// Data: READ, WRITE, COMMIT, READLINK (RFC 8881 sections 18.3, 18.22, 18.24, 18.32).

#include "filer/nfs/ops.h"
#include "filer/nfs/stateid_use.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

// If the object is not a regular file, "an error will be returned": the error of section 15.2 for its type.
nfsstat4 need_regular(const Context& c) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return status;
  switch (c.current.node->type) {
    case NF4REG: return NFS4_OK;
    case NF4DIR: return NFS4ERR_ISDIR;
    case NF4LNK: return NFS4ERR_SYMLINK;
    default: return NFS4ERR_WRONG_TYPE;
  }
}

// "the server is REQUIRED to perform access checking on the READs and WRITEs themselves" (section 18.16.4).
// As on other UNIX servers the owner is always allowed, because the open may be older than the present mode,
// and permission to execute includes permission to read.
bool may_io(const tree::Node& node, const tree::Principal& who, tree::Permission wanted) {
  if (tree::may(node, who, wanted) || tree::owns(node, who)) return true;
  return wanted == tree::kMayRead && tree::may(node, who, tree::kMayExecute);
}

}  // namespace

READ4res execute(Context& c, const READ4args& args) {
  if (const nfsstat4 status = need_regular(c); status != NFS4_OK) return refused<READ4res>(status);
  const tree::Answer<state::State*> state = io_state(c, args.stateid, OPEN4_SHARE_ACCESS_READ);
  if (!state) return refused<READ4res>(state.error());
  tree::Node& node = *c.current.node;
  if (!may_io(node, c.who, tree::kMayRead)) return refused<READ4res>(NFS4ERR_ACCESS);
  uint64_t count = std::min<uint64_t>(args.count, std::min(c.core.options.max_read_bytes, node.fs->max_io));
  if (c.core.switches.short_read_bytes != 0) count = std::min(count, c.core.switches.short_read_bytes);
  if (args.offset < node.size) count = std::min(count, node.size - args.offset);
  if (args.offset >= node.size) count = 0;
  ByteVector& reply = c.data_room(count);
  const tree::Answer<size_t> got = c.core.tree.read(node, args.offset, count, reply);
  if (!got) return refused<READ4res>(got.error());
  READ4res res;
  res.resok4.data = ConstBytes(reply).last(*got);
  // Fewer bytes than expected: a program on the host has truncated the file meanwhile.
  res.resok4.eof = *got < count || args.offset >= node.size || args.offset + count >= node.size;
  return res;
}

WRITE4res execute(Context& c, const WRITE4args& args) {
  if (const nfsstat4 status = need_regular(c); status != NFS4_OK) return refused<WRITE4res>(status);
  const tree::Answer<state::State*> state = io_state(c, args.stateid, OPEN4_SHARE_ACCESS_WRITE);
  if (!state) return refused<WRITE4res>(state.error());
  tree::Node& node = *c.current.node;
  if (!may_io(node, c.who, tree::kMayWrite)) return refused<WRITE4res>(NFS4ERR_ACCESS);
  const uint64_t most = std::min(c.core.options.max_write_bytes, node.fs->max_io);
  ConstBytes data = args.data.first(std::min<uint64_t>(args.data.size(), most));
  if (c.core.switches.short_write_bytes != 0) {
    data = data.first(std::min<uint64_t>(data.size(), c.core.switches.short_write_bytes));
  }
  const stable_how4 stable = c.core.switches.writes_are_stable     ? FILE_SYNC4
                             : c.core.switches.writes_are_unstable ? UNSTABLE4
                                                                   : args.stable;
  const nfsstat4 status = c.core.tree.write(node, args.offset, data, stable != UNSTABLE4, c.who);
  c.core.renew_verifier_after_loss(node);
  if (status != NFS4_OK) return refused<WRITE4res>(status);
  if (!data.empty()) c.core.tree.clear_set_id(node, c.who);
  WRITE4res res;
  res.resok4.count = static_cast<count4>(data.size());
  // The server makes data and metadata stable together, so DATA_SYNC4 is FILE_SYNC4.
  res.resok4.committed = stable == UNSTABLE4 ? UNSTABLE4 : FILE_SYNC4;
  res.resok4.writeverf = c.core.write_verifier;
  return res;
}

COMMIT4res execute(Context& c, const COMMIT4args& args) {
  if (const nfsstat4 status = need_regular(c); status != NFS4_OK) return refused<COMMIT4res>(status);
  tree::Node& node = *c.current.node;
  if (!may_io(node, c.who, tree::kMayWrite)) return refused<COMMIT4res>(NFS4ERR_ACCESS);
  COMMIT4res res;
  res.status = c.core.tree.commit(node, args.offset, args.count);
  c.core.renew_verifier_after_loss(node);
  res.resok4.writeverf = c.core.write_verifier;
  return res;
}

READLINK4res execute(Context& c, const READLINK4args&) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<READLINK4res>(status);
  // "an error of NFS4ERR_WRONG_TYPE must be returned if the object is not a symbolic link" (section 18.24).
  if (c.current.node->type != NF4LNK) return refused<READLINK4res>(NFS4ERR_WRONG_TYPE);
  READLINK4res res;
  tree::Answer<std::string> target = c.core.tree.read_link(*c.current.node, c.who);
  if (!target) return refused<READLINK4res>(target.error());
  res.resok4.link = *std::move(target);
  return res;
}

}  // namespace nfsrdma::filer::nfs

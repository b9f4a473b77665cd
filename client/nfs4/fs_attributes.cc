// GETATTR, SETATTR, ACCESS, and attributes that come with other answers (RFC 8881 sections
// 5, 10.4, 18.1, 18.7, 18.30). What follows from them is in client/cache/fs_attributes.cc.
#include <cerrno>

#include "client/nfs4/nfs4_filesystem.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client {

Task<Attributes> Nfs4Filesystem::to_booked(nfs4::fattr4 from, uint32_t export_index) {
  auto uid = ids_.known(IdMap::Kind::kUser, from.owner);
  auto gid = ids_.known(IdMap::Kind::kGroup, from.owner_group);
  if (!uid) uid = co_await ids_.resolve(IdMap::Kind::kUser, from.owner);
  if (!gid) gid = co_await ids_.resolve(IdMap::Kind::kGroup, from.owner_group);
  co_return to_attributes(from, export_index, *uid, *gid);
}

Task<bool> Nfs4Filesystem::apply(NodeRef node, nfs4::fattr4 from, uint64_t order, Cause cause) {
  const Attributes attributes = co_await to_booked(std::move(from), nfs4_node(node).export_index());
  co_return co_await book(node, attributes, order, cause);
}

Task<Entry> Nfs4Filesystem::make_entry(nfs4::nfs_fh4 fh, nfs4::fattr4 from, uint64_t order, Cause cause) {
  const NodeRef node = nodes_.get(fh, exports_.index_of(from.fsid));
  co_await apply(node, std::move(from), order, cause);
  co_await learn_limits(node);
  co_return cached_entry(node, Duration::zero());
}

Task<Result<>> Nfs4Filesystem::fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) {
  attribute_misses_.fetch_add(1, std::memory_order_relaxed);
  const nfs4::nfs_fh4 fh = fh_of(node);
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kFileAttributes); };
  const Request request{nfs4::OP_GETATTR, ctx.credential, false, build, {}};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(gone(node, std::move(put.error())));
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(gone(node, std::move(res.error())));
  co_await apply(node, std::move(res->resok4.obj_attributes), order, cause);
  co_return Result<>{};
}

Task<Result<AttributesReply>> Nfs4Filesystem::setattr(RequestContext ctx, NodeRef node, SetAttributes set,
                                                      OpenFileRef open) {
  Nfs4Node& n = nfs4_node(node);
  // Servers let the owner change the size whatever the mode says, for the sake of those who have it open for
  // writing. truncate(2) and open(2) with O_TRUNC are about the mode.
  const bool opened_to_write = open && (nfs4_file(open).access & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0;
  if (set.size && !opened_to_write)
    NFSRDMA_CO_TRY(
        co_await require_access(ctx, node, nfs4::ACCESS4_MODIFY | nfs4::ACCESS4_EXTEND, "SETATTR"));
  std::shared_ptr<FileState> file;
  OpenStateRef state;
  {
    std::lock_guard lock(n.mutex);
    file = n.file;
    if (open) state = nfs4_file(open).state;
    // truncate(2) of a file the user has open for writing goes under that open.
    for (size_t i = 0; file && !state && i < file->opens.size(); ++i) {
      const OpenState& o = *file->opens[i];
      if (o.uid == ctx.credential->uid() && (o.needed_access() & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0)
        state = file->opens[i];
    }
    if (open && !opened_to_write) state.reset();
  }
  if (file && (set.size || set.mtime || set.mode)) {
    // A write that is sent again after a restart must not undo the truncation, the time or a set-id bit.
    co_await write_back(node, file);
  } else {
    co_await settle_node(node);
  }
  std::string owner, group;
  if (set.uid) owner = co_await ids_.name_of(IdMap::Kind::kUser, *set.uid);
  if (set.gid) group = co_await ids_.name_of(IdMap::Kind::kGroup, *set.gid);

  if (set.size) nodes_.data().drop(n);
  const nfs4::nfs_fh4 fh = n.fh();
  nfs4::SETATTR4args args;
  args.obj_attributes = to_fattr(set, owner, group);
  const uint64_t order = nodes_.next_start();
  bool under_open = set.size.has_value() && state != nullptr;
  IoAccount account{state, ctx.credential, {}};
  if (open && under_open) account.lock_owners = nfs4_file(open).account(ctx).lock_owners;
  auto build = [&](CompoundBuilder& b) {
    if (under_open) {
      auto stateid = StateManager::io_stateid(*file, account, CachedOpen::kWrite);
      if (!stateid) return b.refuse(std::move(stateid.error()));
      args.stateid = *stateid;
    }
    b.putfh(fh).add(args).getattr(kFileAttributes);
  };
  const Request request{nfs4::OP_SETATTR, ctx.credential, true, build, {}};
  // Two statements: g++ 12 destroys the result of `c ? co_await a : co_await b` twice.
  Result<CompoundReply> reply = fail(Error{});
  if (under_open) {
    reply = co_await states_.run(request, node, file, state);
    // truncate(2) beside the last close(2), or the last one of a writer: without an open then.
    const bool closed = !reply && reply.error().errnum == EBADF;
    const bool downgraded = reply && reply->status() == nfs4::NFS4ERR_OPENMODE;
    if (!open && (closed || downgraded)) under_open = false;
  }
  if (!under_open) {
    args.stateid = {};
    reply = co_await session_.run(request);
  }
  // Also what was read ahead while it was under way, by whatever change attribute.
  if (set.size) nodes_.data().drop(n);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(gone(node, std::move(put.error())));
  NFSRDMA_CO_TRY(reply->expect<nfs4::SETATTR4res>());
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(std::move(res.error()));
  co_await apply(node, std::move(res->resok4.obj_attributes), order, Cause::kOwn);
  co_return attributes_reply(node);
}

Task<Result<uint32_t>> Nfs4Filesystem::ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) {
  Nfs4Node& n = nfs4_node(node);
  const nfs4::nfs_fh4 fh = n.fh();
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh).add(nfs4::ACCESS4args{kEveryAccess}).getattr(kFileAttributes);
  };
  const Request request{nfs4::OP_ACCESS, ctx.credential, false, build, {}};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(gone(node, std::move(put.error())));
  auto answer = reply->take<nfs4::ACCESS4res>();
  if (!answer) co_return fail(std::move(answer.error()));
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(std::move(res.error()));
  const uint64_t change = res->resok4.obj_attributes.change;
  co_await apply(node, std::move(res->resok4.obj_attributes), order, Cause::kAsked);
  co_return note_access(ctx, n, answer->resok4.supported, answer->resok4.access, change) & wanted;
}

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// SETATTR (RFC 8881 section 18.30), ordered after the writes that must precede it.
#include <cerrno>

#include "client/nfs4/ops/nfs4_filesystem.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

bool opened_to_write(const OpenFileRef& open) {
  return open && (nfs4_file(open).access & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0;
}

}  // namespace

OpenStateRef Nfs4Filesystem::open_for_writing(const RequestContext& ctx, const FileState* file,
                                              const OpenFileRef& open) {
  if (open) return opened_to_write(open) ? nfs4_file(open).state : nullptr;
  if (file == nullptr) return nullptr;
  for (const OpenStateRef& state : file->opens) {
    if (state->uid == ctx.credential->uid() && (state->needed_access() & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0)
      return state;
  }
  return nullptr;
}

Result<Nfs4Filesystem::SetReply> Nfs4Filesystem::take_set(Result<CompoundReply>& reply, const NodeRef& node,
                                                          bool asked) {
  if (!reply) {
    attributes_.expire(node);  // the server may have executed it
    return fail(std::move(reply.error()));
  }
  NFSRDMA_TRY(recorder_.take_handle(reply, node));
  const auto before = ReplyAttributes::take_change_before(*reply, asked);
  if (!before) return fail(before.error());
  NFSRDMA_TRY(reply->expect<nfs4::SETATTR4res>());
  auto after = reply->take<nfs4::GETATTR4res>();
  if (!after) {
    attributes_.expire(node);
    return fail(std::move(after.error()));
  }
  SetReply done{*before, std::move(*after), std::nullopt};
  if (const auto access = reply->take<nfs4::ACCESS4res>()) {
    const uint64_t change = done.after.resok4.obj_attributes.change;
    done.rights = {access->resok4.supported, access->resok4.access, change};
  }
  return done;
}

Task<Result<AttributesReply>> Nfs4Filesystem::setattr(RequestContext ctx, NodeRef node, SetAttributes set,
                                                      OpenFileRef open) {
  Nfs4Node& n = nfs4_node(node);
  // Servers let a file's owner change the size whatever the mode says, because a process may have the file
  // open for writing. But truncate(2), and open(2) with O_TRUNC, need the mode's permission: ask for it with
  // ACCESS.
  if (set.size && !opened_to_write(open))
    NFSRDMA_CO_TRY(
        co_await access_.require_access(ctx, node, nfs4::ACCESS4_MODIFY | nfs4::ACCESS4_EXTEND, "SETATTR"));
  std::shared_ptr<FileState> file;
  OpenStateRef state;
  {
    MutexLock lock(n.mutex);
    file = n.file;
    state = open_for_writing(ctx, file.get(), open);
  }
  std::string owner, group;
  if (set.uid) owner = co_await ids_.name_of(IdMap::Kind::kUser, *set.uid);
  if (set.gid) group = co_await ids_.name_of(IdMap::Kind::kGroup, *set.gid);
  nfs4::SETATTR4args args;
  args.obj_attributes = to_fattr(set, owner, group);
  if (file && !set.size) {
    auto setting = set_with_data(ctx, node, file, args);
    auto answer = co_await std::move(setting);
    if (answer) co_return std::move(*answer);
  }
  if (file && (set.size || set.mtime || set.mode)) {
    // A write that is repeated after a server restart must not undo the truncation, the time or the set-id
    // bits.
    co_await write_back_.write_back(node, file);
  } else {
    co_await write_back_.settle_node(node);
  }

  if (set.size) kept_.drop_kept(n);
  const nfs4::nfs_fh4 fh = n.fh();
  const uint64_t order = nodes_.next_start();
  bool under_open = set.size.has_value() && state != nullptr;
  IoAccount account{state, ctx.credential, {}};
  if (open && under_open) account.lock_owners = nfs4_file(open).account(ctx).lock_owners;
  bool asked = false;
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh);
    replies_.ask_change_before(b, node, asked);
    b.add(args).getattr(kFileAttributes).add(nfs4::ACCESS4args{kEveryAccess});
  };
  const Request request = change_request(nfs4::OP_SETATTR, ctx, build);
  // Two statements: g++ 12 destroys the result of `c ? co_await a : co_await b` twice.
  Result<CompoundReply> reply = fail(Error{});
  if (under_open) {
    const StateUse use = StateUse::by_io(node, file, account, CachedOpen::kWrite, args.stateid);
    reply = co_await states_.run(request, use);
    // The open was closed or downgraded during this truncate(2); retry without an open.
    const bool closed = !reply && reply.error().errnum == EBADF;
    const bool downgraded = reply && reply->status() == nfs4::NFS4ERR_OPENMODE;
    if (!open && (closed || downgraded)) under_open = false;
  }
  if (!under_open) {
    args.stateid = {};
    reply = co_await session_.run(request);
  }
  // Drop also data that was read ahead during the request, whatever its change attribute.
  if (set.size) kept_.drop_kept(n);
  const Result<SetReply> done = take_set(reply, node, asked);
  if (!done) co_return fail(done.error());
  const Cause cause = replies_.cause_of_own(node, order, asked);
  co_await recorder_.apply(node, done->after.resok4.obj_attributes, order, cause, done->change_before);
  if (done->rights) access_.note_access(ctx, n, *done->rights);
  co_return co_await attributes_.sure_attributes(ctx, node);
}

// tar and cp write a small file and set its time: both go in one COMPOUND. If data has to be written again,
// the SETATTR is sent again, too, because the time must be set after every WRITE. It does no harm if the
// server executes both twice.
Task<std::optional<Result<AttributesReply>>> Nfs4Filesystem::set_with_data(RequestContext ctx, NodeRef node,
                                                                           std::shared_ptr<FileState> file,
                                                                           nfs4::SETATTR4args args) {
  Nfs4Node& n = nfs4_node(node);
  const auto taken = write_back_.take_only_extent(file, *ctx.credential);
  if (!taken) co_return std::nullopt;
  const WriteExtent& extent = (*taken)->second;
  const nfs4::nfs_fh4 fh = n.fh();
  const uint64_t sent_in = session_.epoch();
  const uint64_t order = nodes_.next_start();
  nfs4::WRITE4args write;
  write.offset = extent.offset;
  write.stable = nfs4::FILE_SYNC4;
  write.data = extent.data.bytes;
  bool asked = false;
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh);
    replies_.ask_change_before(b, node, asked);
    b.add(write).add(args).getattr(kFileAttributes).keep(extent.data);
  };
  const Request request{
      .op = nfs4::OP_SETATTR, .credential = ctx.credential, .cache_this = true, .build = build};
  const StateUse use = StateUse::by_io(node, file, extent.account, CachedOpen::kWrite, write.stateid);
  Result<CompoundReply> reply = co_await states_.run(request, use);
  const bool too_big = reply && reply->status() == nfs4::NFS4ERR_REQ_TOO_BIG;
  std::optional<uint64_t> change_before;
  const auto wrote = ReplyAttributes::take_own<nfs4::WRITE4res>(reply, asked, change_before);
  const bool whole = wrote && wrote->resok4.count == extent.data.size();

  Result<Written> written = fail(Error{});
  if (whole) {
    written = Written{wrote->resok4.committed, wrote->resok4.writeverf};
  } else if (wrote || too_big) {
    written = co_await write_back_.write_on_server(node, file, extent.account, extent.offset, extent.data,
                                                   write.stable);
  } else {
    written = fail(wrote.error());
  }
  const bool done = whole && written->committed == nfs4::FILE_SYNC4;
  Result<> set = fail(Error{});
  if (whole) {
    set = reply->expect<nfs4::SETATTR4res>();
    Result<nfs4::GETATTR4res> after = fail(Error{});
    if (set) after = reply->take<nfs4::GETATTR4res>();
    if (after) {
      co_await recorder_.apply(node, after->resok4.obj_attributes, order,
                               replies_.cause_of_own(node, order, asked), change_before);
    } else {
      if (set) set = fail(std::move(after.error()));
      // The cached attributes are from before the WRITE.
      {
        MutexLock lock(n.mutex);
        n.attributes.expire(nodes_.next_start());
      }
      (void)co_await attributes_.fetch(ctx, node);
    }
  }
  write_back_.extent_answered(node, file, *taken, sent_in, std::move(written));
  if (!done) co_return std::nullopt;
  if (!set) co_return fail(std::move(set.error()));
  co_return co_await attributes_.sure_attributes(ctx, node);
}

}  // namespace nfsrdma::client::nfs4

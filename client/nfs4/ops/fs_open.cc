// SPDX-License-Identifier: Apache-2.0
// OPEN and CLOSE (RFC 8881 sections 9.9, 10.3.1, 18.2, 18.16), with close-to-open consistency.
//
// Every open(2) is an OPEN with GETATTR, unless a delegation covers it (open_under_delegation()). The kernel
// keeps its pages only if the change attribute is the one under which they were read. The kernel identifies
// files by node, so open() uses CLAIM_FH; create() uses CLAIM_NULL with a name.
#include <fcntl.h>

#include <cerrno>
#include <optional>
#include <random>

#include "client/core/names/name_errors.h"
#include "client/nfs4/ops/create_how.h"
#include "client/nfs4/ops/nfs4_filesystem.h"
#include "client/nfs4/state/locks.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/handle_ops.h"
#include "xdr/nfs4/open_ops.h"
#include "xdr/nfs4/state_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

nfs4::verifier4 random_verifier() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return nfs4::verifier4::of(random());
}

// OPEN with CLAIM_FH, ACCESS, GETATTR, and READ unless `room` is empty.
void add_open_by_handle(CompoundBuilder& b, const nfs4::nfs_fh4& fh, const nfs4::OPEN4args& args,
                        const Slice& room) {
  b.putfh(fh).add(args).add(nfs4::ACCESS4args{kEveryAccess}).getattr(kFileAttributes);
  if (room.bytes.empty()) return;
  b.add(nfs4::READ4args{nfs4::kCurrentStateid, 0, static_cast<uint32_t>(room.size())});
  b.getattr(kChangeAttribute).expect_read_with_open(room);
}

// The results of ACCESS and GETATTR, which come next in the reply.
Result<AccessBits> take_rights(Result<CompoundReply>& reply, nfs4::GETATTR4res& attributes) {
  if (!reply) return fail(std::move(reply.error()));
  const auto access = reply->take<nfs4::ACCESS4res>();
  if (!access) return fail(access.error());
  auto after = reply->take<nfs4::GETATTR4res>();
  if (!after) return fail(std::move(after.error()));
  attributes = std::move(*after);
  return AccessBits{access->resok4.supported, access->resok4.access, attributes.resok4.obj_attributes.change};
}

bool is_unsaved(const NodeRef& node, const FileState& file) {
  MutexLock lock(nfs4_node(node).mutex);
  return file.unsaved();
}

// The rights that the delegation's ACE gives everybody, for which no ACCESS is needed (section 18.16.3).
uint32_t granted_to_everyone(const nfs4::nfsace4& ace) {
  if (ace.type != nfs4::ACE4_ACCESS_ALLOWED_ACE_TYPE || ace.who != "EVERYONE@") return 0;
  uint32_t access = 0;
  if ((ace.access_mask & nfs4::ACE4_READ_DATA) != 0) access |= nfs4::ACCESS4_READ;
  if ((ace.access_mask & nfs4::ACE4_EXECUTE) != 0) access |= nfs4::ACCESS4_EXECUTE;
  if ((ace.access_mask & nfs4::ACE4_WRITE_DATA) != 0) access |= nfs4::ACCESS4_MODIFY | nfs4::ACCESS4_EXTEND;
  return access;
}

}  // namespace

std::optional<Task<>> Nfs4Filesystem::make_way_for_open(const NodeRef& node, uint32_t access) {
  // Return a read delegation before an open for writing: a server may recall it because of our own OPEN, and
  // it may grant a write delegation instead.
  if ((access & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0) return delegating_.end_delegation_of(node, true);
  // No read delegation is granted for a file that is open for writing.
  if (delegating_.wants_delegations() && states_.closer().open_to_write(nfs4_node(node)))
    return states_.closer().close_now(node);
  return std::nullopt;
}

Task<Result<OpenReply>> Nfs4Filesystem::open(RequestContext ctx, NodeRef node, int flags) {
  const uint32_t access = CachedOpen::access_of(flags);
  Nfs4Node& n = nfs4_node(node);
  auto locally = open_under_delegation(ctx, node, flags);
  auto local = co_await std::move(locally);
  if (local) co_return std::move(*local);
  if (auto making_way = make_way_for_open(node, access)) co_await std::move(*making_way);
  const std::shared_ptr<FileState> file = states_.registry().pin_file(n);
  const nfs4::nfs_fh4 fh = n.fh();
  // The server must have our writes before it returns the file's attributes.
  co_await write_back_.settle_node(node);
  auto guard = co_await file->open_mutex.lock();
  const uint64_t order = nodes_.next_start();
  const uint32_t touched = n.data_touched;  // before the check for written data
  Slice room = room_for_read_with_open(node, flags);
  nfs4::OPEN4args args;
  args.owner = states_.registry().open_owner(ctx.credential->uid());
  args.claim.claim = nfs4::CLAIM_FH;
  auto build = [&](CompoundBuilder& b) {
    args.owner.clientid = session_.client_id();
    args.share_access = access | delegating_.delegation_wish();
    add_open_by_handle(b, fh, args, room);
  };
  // The reply need not be cached by the server (sa_cachethis) when it has data. A retry then executes the
  // same OPEN once more, which changes nothing.
  const Request request{.op = nfs4::OP_OPEN,
                        .credential = ctx.credential,
                        .cache_this = room.bytes.empty(),
                        .build = build,
                        .sink = room};
  const uint64_t epoch = session_.epoch();
  const Delegations::Asking asking(delegations_);
  Result<CompoundReply> reply = co_await session_.run(request);
  Result<nfs4::OPEN4res> opened = take_behind_putfh<nfs4::OPEN4res>(reply);
  OpenStateRef state;
  DelegationRef delegation;
  if (opened) {
    state = states_.registry().opened(*file, ctx.credential, access, opened->resok4, epoch);
    delegation = delegating_.take_delegation(*file, opened->resok4, ctx.credential, epoch);
  } else if (opened.error().is_status(nfs4::NFS4ERR_ACCESS)) {
    state = states_.registry().opened_as_held(*file, ctx.credential, access);
  }
  guard.unlock();
  states_.registry().unpin_file(n);
  if (!state) co_return co_await open_again(ctx, node, flags, opened.error());
  if (!opened) {
    room = {};  // nothing was read
    reply = co_await ask_rights(ctx, fh);
  }
  OpenReply result;
  result.file = std::make_shared<Nfs4File>(node, file, state, ctx.credential, access, synchronous(flags));
  nfs4::GETATTR4res attributes;
  const Result<AccessBits> rights = take_rights(reply, attributes);
  if (!rights) {
    if (delegation) delegating_.give_back_soon(delegation);  // nothing relies on it yet
    co_await release(ctx, result.file);
    co_return fail(rights.error());
  }
  result.keep_cache = co_await recorder_.apply(node, attributes.resok4.obj_attributes, order, Cause::kOpened);
  delegating_.begin_promise(node, delegation, order);
  if (!take_opened(ctx, {*reply, room, epoch, touched, *rights}, flags, result)) {
    co_await release(ctx, result.file);
    co_return fail(system_error(EACCES, "OPEN"));
  }
  co_return result;
}

Task<Result<CompoundReply>> Nfs4Filesystem::ask_rights(const RequestContext& ctx, const nfs4::nfs_fh4& fh) {
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh).add(nfs4::ACCESS4args{kEveryAccess}).getattr(kFileAttributes);
  };
  const Request request{.op = nfs4::OP_ACCESS, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (reply) NFSRDMA_CO_TRY(reply->expect<nfs4::PUTFH4res>());
  co_return reply;
}

Task<Result<OpenReply>> Nfs4Filesystem::open_again(const RequestContext& ctx, const NodeRef& node, int flags,
                                                   Error& error) {
  if (!error.is_status(nfs4::NFS4ERR_ACCESS) || !states_.closer().open_to_write(nfs4_node(node)))
    co_return fail(attributes_.gone(node, std::move(error)));
  // nfs-ganesha 6 checks the permission for this open and for earlier ones of this user together
  // (opened_as_held()). Send the delayed CLOSE of the earlier open, and try again.
  co_await states_.closer().close_now(node);
  auto once_more = open(ctx, node, flags);
  co_return co_await std::move(once_more);
}

bool Nfs4Filesystem::take_opened(const RequestContext& ctx, const Opened& opened, int flags,
                                 OpenReply& result) {
  Nfs4File& handle = nfs4_file(result.file);
  Nfs4Node& n = nfs4_node(handle.node);
  if (!opened.room.bytes.empty())
    take_read_with_open(opened.reply, opened.room, handle, opened.rights.change, opened.epoch,
                        opened.touched);
  if (!AccessService::suffices(access_.note_access(ctx, n, opened.rights), flags)) return false;
  if (!options_.close_to_open) result.keep_cache = true;
  MutexLock lock(n.mutex);
  result.size_is_news = attributes_.size_is_news(n);
  return true;
}

Slice Nfs4Filesystem::room_for_read_with_open(const NodeRef& node, int flags) {
  if (!reads_with_open_) return {};
  const size_t size = ahead_.worth_reading_with_open(node, flags);
  return size == 0 || size > protocol_.limits_of(node).rsize ? Slice{} : parts_.buffers.slice(size);
}

void Nfs4Filesystem::take_read_with_open(CompoundReply& reply, Slice room, Nfs4File& handle, uint64_t change,
                                         uint64_t epoch, uint32_t touched) {
  const Result<ReadPiece> piece = Nfs4Protocol::take_read(reply, room, true);
  if (piece) return ahead_.keep_read_with_open(handle, *piece, change, epoch, touched);
  // Ignore other errors: the application's own READ will meet them.
  if (piece.error().is_status(nfs4::NFS4ERR_BAD_STATEID) && reads_with_open_.exchange(false))
    log::debug("the server does not know the current stateid: files are not read with their OPEN");
}

Task<Result<CreateReply>> Nfs4Filesystem::create(RequestContext ctx, NodeRef directory, std::string name,
                                                 uint32_t mode, int flags) {
  const ExportLimits limits = server_limits_.of(directory);
  if (name.size() > limits.name_max) co_return fail(system_error(ENAMETOOLONG, "OPEN"));
  const nfs4::nfs_fh4 directory_fh = fh_of(directory);
  const uint32_t access = CachedOpen::access_of(flags);
  const uint64_t order = nodes_.next_start();
  nfs4::OPEN4args args;
  args.owner = states_.registry().open_owner(ctx.credential->uid());
  args.claim.file = name;
  args.openhow.opentype = nfs4::OPEN4_CREATE;
  nfs4::createhow4& how = args.openhow.how;
  how = how_to_create(flags, mode, limits.exclusive_create_attributes, random_verifier());
  auto build = [&](CompoundBuilder& b) {
    args.owner.clientid = session_.client_id();
    args.share_access = access | delegating_.delegation_wish();
    b.putfh(directory_fh).add(args).add(nfs4::GETFH4args{}).getattr(kFileAttributes);
    replies_.ask_of_made(b, directory_fh);
  };
  const Request request = change_request(nfs4::OP_OPEN, ctx, build);
  const uint64_t epoch = session_.epoch();
  const Delegations::Asking asking(delegations_);
  NameService::NameToBe to_be(names_, directory, name);
  Result<CompoundReply> reply = co_await session_.run(request);
  NFSRDMA_CO_TRY(recorder_.take_handle(reply, directory));
  auto opened = reply->take<nfs4::OPEN4res>();
  if (!opened) {
    to_be.refused(opened.error(), reply->maybe_executed_before);
    co_return fail(because_of_names(std::move(opened.error()), name));
  }
  auto handle = reply->take<nfs4::GETFH4res>();
  Result<nfs4::GETATTR4res> attributes = fail(Error{});
  if (handle) attributes = reply->take<nfs4::GETATTR4res>();
  if (!handle || !attributes) {
    co_await close_unknown(directory_fh, name, handle, opened->resok4, access, ctx.credential);
    co_return fail(std::move(handle ? attributes.error() : handle.error()));
  }

  CreateReply result;
  const nfs4::nfs_fh4 fh = handle->resok4.object;
  const NodeRef node =
      nodes_.get(fh, exports_.index_of(to_filesystem_id(attributes->resok4.obj_attributes.fsid)));
  const std::shared_ptr<FileState> file = states_.registry().pin_file(nfs4_node(node));
  const OpenStateRef state = states_.registry().opened(*file, ctx.credential, access, opened->resok4, epoch);
  const DelegationRef delegation = delegating_.take_delegation(*file, opened->resok4, ctx.credential, epoch);
  // If the file has unwritten data here, another client gave this name to it. That data would be written
  // after the truncation, so truncate once more.
  const bool cut_again = how.createattrs.attrmask.test(nfs4::FATTR4_SIZE) && is_unsaved(node, *file);
  states_.registry().unpin_file(nfs4_node(node));
  result.open.file =
      std::make_shared<Nfs4File>(node, file, state, ctx.credential, access, synchronous(flags));
  result.open.keep_cache =
      co_await recorder_.apply(node, attributes->resok4.obj_attributes, order, Cause::kCreated);
  delegating_.begin_promise(node, delegation, order);
  auto after = ReplyAttributes::take_directory_of_made(*reply);
  NameBelief belief = co_await recorder_.directory_changed(directory, opened->resok4.cinfo, after, order);
  belief.asked = order;
  to_be.made(*node.get(), belief);
  recorder_.take_access_of_made(ctx, node, *reply, attributes->resok4.obj_attributes.change);

  if (how.mode == nfs4::EXCLUSIVE4_1)
    note_owner(ctx.credential->uid(), AttributeService::known_attributes(node).uid);
  SetAttributes rest = left_to_set(how, opened->resok4.attrset, mode);
  if (cut_again) rest.size = 0;
  const bool old = existed(how, opened->resok4.cinfo);
  NFSRDMA_CO_TRY(co_await complete_created(ctx, result.open.file, flags, old, rest));
  result.entry = attributes_.cached_entry(node, names_.entry_ttl(directory, belief));
  co_return result;
}

ValueTask<Result<>> Nfs4Filesystem::complete_created(const RequestContext& ctx, const OpenFileRef& open,
                                                     int flags, bool old, const SetAttributes& rest) {
  if (!old && !rest.any()) return Result<>{};
  return check_and_set_created(ctx, open, flags, old, rest);
}

Task<Result<>> Nfs4Filesystem::check_and_set_created(const RequestContext& ctx, const OpenFileRef& open,
                                                     int flags, bool old, const SetAttributes& rest) {
  const NodeRef node = nfs4_file(open).node;
  // The kernel did not know the file, so nobody has checked the caller's permission.
  if (old) {
    const Result<uint32_t> allowed = co_await access_.access_bits(ctx, node, kEveryAccess);
    if (!allowed || !AccessService::suffices(*allowed, flags)) {
      co_await release(ctx, open);
      co_return fail(allowed ? system_error(EACCES, "OPEN") : allowed.error());
    }
  }
  if (!rest.any()) co_return Result<>{};
  RequestContext whoever_waits = ctx;
  whoever_waits.cancellation.reset();
  auto set = co_await setattr(whoever_waits, node, rest, open);
  // If only the times are wrong, the caller still gets the file. If the mode is wrong, or the truncation
  // failed, it is not the file that the caller asked for.
  if (!set && (rest.mode || rest.size)) {
    co_await release(ctx, open);
    co_return fail(std::move(set.error()));
  }
  co_return Result<>{};
}

Task<> Nfs4Filesystem::close_unknown(nfs4::nfs_fh4 directory, std::string name,
                                     const Result<nfs4::GETFH4res>& handle, nfs4::OPEN4resok opened,
                                     uint32_t access, rpc::CredentialPtr credential) {
  const nfs4::nfs_fh4* fh = handle ? &handle->resok4.object : nullptr;
  if (fh != nullptr && opened.delegation.granted()) {
    auto unwanted = std::make_shared<Delegation>(*fh, opened.delegation, credential, session_.epoch());
    Loop::current()->spawn(states_.delegation_states().return_unwanted(std::move(unwanted)));
  }
  if (states_.registry().note_upgrade(opened.stateid, access)) co_return;
  auto build = [&](CompoundBuilder& b) {
    if (fh != nullptr) {
      b.putfh(*fh);
    } else {
      b.putfh(directory).add(nfs4::LOOKUP4args{name});
    }
    b.add(nfs4::CLOSE4args{0, opened.stateid});
    if (fh == nullptr && opened.delegation.granted())
      b.add(nfs4::DELEGRETURN4args{opened.delegation.stateid});
  };
  const Request request{
      .op = nfs4::OP_CLOSE, .credential = std::move(credential), .cache_this = true, .build = build};
  (void)co_await session_.run(request);
}

Task<> Nfs4Filesystem::release(RequestContext, OpenFileRef open) {
  Nfs4File& handle = nfs4_file(open);
  const NodeRef node = handle.node;
  const std::shared_ptr<FileState> file = handle.file;
  const OpenStateRef state = handle.state;
  // End the lock-owners at once, before another request asks for these locks.
  std::vector<LockUse> lockers = locks_.end_owners(handle, nullptr);
  auto dropping = locks_.drop_locks_of(open, std::move(lockers), Lock{});
  const HiddenRemovals::Pending closing = removals_.perhaps_last_close(*file);
  (void)co_await std::move(dropping);
  co_await ahead_.end_read_ahead(open);
  // Data is written before its open is closed. flush() has reported the errors, except those of later writes
  // through a mapping.
  if (is_unsaved(node, *file) && (handle.access & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0) {
    co_await write_back_.write_back(node, file);
  }
  co_await states_.closer().closed(file, state, handle.access);
  co_await removals_.remove_if_hidden(node, file);
  states_.registry().drop_if_unused(nfs4_node(node));
}

void Nfs4Filesystem::delegation_ended(NodeRef node) {
  // Section 10.5: "When locks and delegations are revoked, the assumptions upon which successful caching
  // depends are no longer guaranteed." The next open asks the server anyway. But reads through an open
  // descriptor would not ask, so their cached data is dropped.
  attributes_.expire(node);
  bool opened = false;
  {
    MutexLock lock(nfs4_node(node).mutex);
    const auto& file = nfs4_node(node).file;
    opened = file && file->opened();
  }
  if (opened) return kept_.invalidate_data(node);
  kernel_.invalidate_attributes(std::move(node));
}

Task<std::optional<Result<OpenReply>>> Nfs4Filesystem::open_under_delegation(RequestContext ctx, NodeRef node,
                                                                             int flags) {
  const uint32_t access = CachedOpen::access_of(flags);
  Nfs4Node& n = nfs4_node(node);
  for (bool asked = false;; asked = true) {
    {
      MutexLock lock(n.mutex);
      if (!n.file || !n.file->delegated() || !n.file->delegation->covers(access)) break;
      const std::shared_ptr<FileState> file = n.file;
      const DelegationRef delegation = file->delegation;
      uint32_t allowed = granted_to_everyone(delegation->permissions);
      const bool everyone = AccessService::suffices(allowed, flags);
      const std::optional<uint32_t> known = access_.known_access(ctx, n);
      if (known) allowed |= *known;
      if (attributes_.vouched_for(n) && (known || everyone)) {
        if (!AccessService::suffices(allowed, flags)) co_return fail(system_error(EACCES, "OPEN"));
        OpenReply reply;
        const uint64_t change = n.attributes.get().change;
        reply.keep_cache = n.pages_are_of(change) && !n.kernel.knows_other_than(change);
        reply.size_is_news = attributes_.size_is_news(n);
        n.contents.set(change);
        const OpenStateRef state = states_.registry().opened_locally(*file, ctx.credential, access);
        delegations_.used(delegation);
        delegations_.count_local_open();
        reply.file = std::make_shared<Nfs4File>(node, file, state, ctx.credential, access, synchronous(flags),
                                                file->writes.errors());
        co_return reply;
      }
    }
    if (asked) break;
    // One ACCESS now; the next opens need none.
    const Result<uint32_t> answer = co_await access_.ask(ctx, node, kEveryAccess);
    if (!answer) break;
  }
  co_return std::nullopt;
}

}  // namespace nfsrdma::client::nfs4

// SPDX-License-Identifier: Apache-2.0
// REMOVE and RENAME (RFC 8881 sections 18.25, 18.26). Removals calls them.
#include <cerrno>

#include "client/core/names/name_errors.h"
#include "client/nfs4/ops/nfs4_protocol.h"
#include "client/nfs4/state/node.h"
#include "xdr/nfs4/dir_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

constexpr uint32_t kRemoveOperations = 3;
constexpr uint32_t kRenameOperations = 7;

}  // namespace

Task<Result<CompoundReply>> Nfs4Protocol::run_without(NodeRef victim, Request request, uint32_t operations) {
  DelegationStates::Purpose purpose{request, operations};
  if (victim) {
    co_await delegating_.end_delegation_of(victim, false, &purpose);
    if (purpose.reply) co_return std::move(*purpose.reply);
    co_await delegating_.end_delegation_of(victim,
                                           false);  // one that a server restart has granted in its place
    co_await states_.closer().close_now(victim);
  }
  Result<CompoundReply> reply = co_await session_.run(request);
  if (reply) reply->maybe_executed_before |= purpose.maybe_executed_before;
  co_return reply;
}

Task<Result<>> Nfs4Protocol::remove_on_server(RequestContext ctx, NodeRef directory, std::string name,
                                              bool is_directory) {
  const nfs4::nfs_fh4 fh = fh_of(directory);
  // The file of that name: its link count changes. Data of an unlinked file need not be written back.
  NodeRef victim;
  if (auto found = nodes_.names().find(*directory.get(), name)) victim = found->child;
  uint64_t order = 0;
  auto build = [&](CompoundBuilder& b) {
    if (order == 0) order = nodes_.next_start();
    b.putfh(fh).add(nfs4::REMOVE4args{name}).getattr(kFileAttributes);
  };
  const Request request = change_request(nfs4::OP_REMOVE, ctx, build);
  auto removing = run_without(victim, request, kRemoveOperations);
  Result<CompoundReply> reply = co_await std::move(removing);
  // For a removed directory, fstat(2) can only return what is known.
  if (!is_directory) attributes_.expire(victim);
  if (!reply) {
    names_.name_in_doubt(directory, name);
    co_return fail(std::move(reply.error()));
  }
  NFSRDMA_CO_TRY(replies_.take_handle(reply, directory));
  auto removed = reply->take<nfs4::REMOVE4res>();
  if (!removed) {
    if (leaves_doubt(removed.error(), reply->maybe_executed_before)) names_.name_in_doubt(directory, name);
    // The server executed it before it restarted and lost the reply.
    if (reply->maybe_executed_before && removed.error().is_status(nfs4::NFS4ERR_NOENT)) co_return Result<>{};
    // Section 18.25.4: for a directory that is not empty, servers return NOTEMPTY or EXIST.
    if (is_directory && removed.error().is_status(nfs4::NFS4ERR_EXIST)) removed.error().errnum = ENOTEMPTY;
    co_return fail(because_of_names(std::move(removed.error()), name));
  }
  auto after = reply->take<nfs4::GETATTR4res>();
  const NameBelief belief =
      co_await replies_.directory_changed(directory, removed->resok4.cinfo, std::move(after), order);
  nodes_.names().put(*directory.get(), name, nullptr, belief);
  co_return Result<>{};
}

Task<Result<>> Nfs4Protocol::rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                              NodeRef to_directory, std::string to) {
  const nfs4::nfs_fh4 from_fh = fh_of(from_directory);
  const nfs4::nfs_fh4 to_fh = fh_of(to_directory);
  const bool one_directory = from_directory == to_directory;
  const NameService::Moving known = names_.moving(from_directory, from, to_directory, to);
  NodeRef victim;
  if (known.replaced != known.moved) victim = known.replaced;
  uint64_t order = 0;
  auto build = [&](CompoundBuilder& b) {
    if (order == 0) order = nodes_.next_start();
    b.putfh(from_fh)
        .add(nfs4::SAVEFH4args{})
        .putfh(to_fh)
        .add(nfs4::RENAME4args{from, to})
        .getattr(kFileAttributes);
    if (!one_directory) b.add(nfs4::RESTOREFH4args{}).getattr(kFileAttributes);
  };
  const Request request = change_request(nfs4::OP_RENAME, ctx, build);
  auto renaming = run_without(victim, request, kRenameOperations);
  Result<CompoundReply> reply = co_await std::move(renaming);
  names_.expire_moved(known);
  const auto in_doubt = [&] {
    names_.name_in_doubt(from_directory, from);
    names_.name_in_doubt(to_directory, to);
  };
  if (!reply) {
    in_doubt();
    co_return fail(std::move(reply.error()));
  }
  NFSRDMA_CO_TRY(replies_.take_handle(reply, from_directory));
  NFSRDMA_CO_TRY(reply->expect<nfs4::SAVEFH4res>());
  NFSRDMA_CO_TRY(replies_.take_handle(reply, to_directory));
  auto renamed = reply->take<nfs4::RENAME4res>();
  if (!renamed) {
    if (leaves_doubt(renamed.error(), reply->maybe_executed_before)) in_doubt();
    if (reply->maybe_executed_before && known.moved && renamed.error().is_status(nfs4::NFS4ERR_NOENT)) {
      // The server executed it before it restarted if the moved file has the new name.
      Result<Entry> now = co_await lookup_on_server(ctx, to_directory, to);
      if (now && now->node == known.moved) co_return Result<>{};
    }
    // Section 18.26.3: RENAME replaces the target. If it fails with EXIST, the target is a directory that is
    // not empty.
    if (renamed.error().is_status(nfs4::NFS4ERR_EXIST)) renamed.error().errnum = ENOTEMPTY;
    co_return fail(because_of_names(std::move(renamed.error()), from, to));
  }
  auto target_after = reply->take<nfs4::GETATTR4res>();
  const NameBelief to_belief = co_await replies_.directory_changed(to_directory, renamed->resok4.target_cinfo,
                                                                   std::move(target_after), order);
  NameBelief from_belief = to_belief;
  if (!one_directory) {
    Result<nfs4::GETATTR4res> source_after = fail(Error{});
    if (reply->expect<nfs4::RESTOREFH4res>()) source_after = reply->take<nfs4::GETATTR4res>();
    from_belief = co_await replies_.directory_changed(from_directory, renamed->resok4.source_cinfo,
                                                      std::move(source_after), order);
  }
  names_.names_moved(known, from_directory, from, from_belief, to_directory, to, to_belief);
  co_return Result<>{};
}

}  // namespace nfsrdma::client::nfs4

// SPDX-License-Identifier: Apache-2.0
// REMOVE and RENAME (RFC 8881 sections 18.25, 18.26). NameService is the caller.
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

Task<RemoveOutcome> Nfs4Protocol::remove(RequestContext ctx, NodeRef directory, std::string name,
                                         bool is_directory, NodeRef victim) {
  const nfs4::nfs_fh4 fh = fh_of(directory);
  RemoveOutcome answer;
  auto build = [&](CompoundBuilder& b) {
    if (answer.fate.order == 0) answer.fate.order = nodes_.next_start();
    b.putfh(fh).add(nfs4::REMOVE4args{name}).getattr(kFileAttributes);
  };
  const Request request = change_request(nfs4::OP_REMOVE, ctx, build);
  auto removing = run_without(victim, request, kRemoveOperations);
  Result<CompoundReply> reply = co_await std::move(removing);
  answer.fate.answered = reply.has_value();
  answer.fate.repeated = reply && reply->maybe_executed_before;
  const Result<> handle = ReplyAttributes::take_handle(reply);
  if (!handle) {
    answer.changed = fail(handle.error());
    co_return answer;
  }
  auto removed = reply->take<nfs4::REMOVE4res>();
  if (!removed) {
    // The server executed the REMOVE before it restarted and lost the reply.
    if (answer.fate.repeated && removed.error().is_status(nfs4::NFS4ERR_NOENT)) co_return answer;
    // Section 18.25.4: for a directory that is not empty, servers return NOTEMPTY or EXIST.
    if (is_directory && removed.error().is_status(nfs4::NFS4ERR_EXIST)) removed.error().errnum = ENOTEMPTY;
    answer.changed = fail(because_of_names(std::move(removed.error()), name));
    co_return answer;
  }
  auto after = reply->take<nfs4::GETATTR4res>();
  answer.changed = co_await replies_.change_of(directory, removed->resok4.cinfo, after);
  co_return answer;
}

Task<RenameOutcome> Nfs4Protocol::rename(RequestContext ctx, NodeRef from_directory, std::string from,
                                         NodeRef to_directory, std::string to, NodeRef victim) {
  const nfs4::nfs_fh4 from_fh = fh_of(from_directory);
  const nfs4::nfs_fh4 to_fh = fh_of(to_directory);
  const bool one_directory = from_directory == to_directory;
  RenameOutcome answer;
  auto build = [&](CompoundBuilder& b) {
    if (answer.fate.order == 0) answer.fate.order = nodes_.next_start();
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
  answer.fate.answered = reply.has_value();
  answer.fate.repeated = reply && reply->maybe_executed_before;
  auto renamed = take_rename(reply);
  if (!renamed) {
    // Section 18.26.3: RENAME replaces the target. If it fails with EXIST, the target is a directory that is
    // not empty.
    if (renamed.error().is_status(nfs4::NFS4ERR_EXIST)) renamed.error().errnum = ENOTEMPTY;
    answer.changed = fail(because_of_names(std::move(renamed.error()), from, to));
    co_return answer;
  }
  RenameOutcome::Changes changes;
  auto target_after = reply->take<nfs4::GETATTR4res>();
  changes.to = co_await replies_.change_of(to_directory, renamed->resok4.target_cinfo, target_after);
  if (!one_directory) {
    Result<nfs4::GETATTR4res> source_after = fail(Error{});
    if (reply->expect<nfs4::RESTOREFH4res>()) source_after = reply->take<nfs4::GETATTR4res>();
    changes.from = co_await replies_.change_of(from_directory, renamed->resok4.source_cinfo, source_after);
  }
  answer.changed = changes;
  co_return answer;
}

Result<nfs4::RENAME4res> Nfs4Protocol::take_rename(Result<CompoundReply>& reply) {
  NFSRDMA_TRY(ReplyAttributes::take_handle(reply));
  NFSRDMA_TRY(reply->expect<nfs4::SAVEFH4res>());
  NFSRDMA_TRY(reply->expect<nfs4::PUTFH4res>());
  return reply->take<nfs4::RENAME4res>();
}

}  // namespace nfsrdma::client::nfs4

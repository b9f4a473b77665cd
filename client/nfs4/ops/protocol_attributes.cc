// SPDX-License-Identifier: Apache-2.0
// GETATTR and ACCESS (RFC 8881 sections 5, 10.4, 18.1, 18.7). AttributeService decides what the answers mean.
#include "client/nfs4/ops/nfs4_protocol.h"
#include "client/nfs4/state/node.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client::nfs4 {

Task<Result<>> Nfs4Protocol::fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) {
  attributes_.count_miss();
  const nfs4::nfs_fh4 fh = fh_of(node);
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kFileAttributes); };
  const Request request{.op = nfs4::OP_GETATTR, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  NFSRDMA_CO_TRY(replies_.take_handle(reply, node));
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(attributes_.gone(node, std::move(res.error())));
  co_await replies_.apply(node, std::move(res->resok4.obj_attributes), order, cause);
  co_return Result<>{};
}

Task<Result<uint32_t>> Nfs4Protocol::ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) {
  Nfs4Node& n = nfs4_node(node);
  const nfs4::nfs_fh4 fh = n.fh();
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh).add(nfs4::ACCESS4args{kEveryAccess}).getattr(kFileAttributes);
  };
  const Request request{.op = nfs4::OP_ACCESS, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  NFSRDMA_CO_TRY(replies_.take_handle(reply, node));
  auto answer = reply->take<nfs4::ACCESS4res>();
  if (!answer) co_return fail(std::move(answer.error()));
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(std::move(res.error()));
  const uint64_t change = res->resok4.obj_attributes.change;
  co_await replies_.apply(node, std::move(res->resok4.obj_attributes), order, Cause::kAsked);
  co_return access_.note_access(ctx, n, answer->resok4.supported, answer->resok4.access, change) & wanted;
}

Task<> Nfs4Protocol::ask_who_searches(RequestContext ctx, NodeRef directory) {
  const nfs4::nfs_fh4 fh = fh_of(directory);
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kDirectoryAcl); };
  const Request request{.op = nfs4::OP_GETATTR, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (reply && reply->expect<nfs4::PUTFH4res>()) take_acl(*reply, directory);
}

void Nfs4Protocol::take_acl(CompoundReply& reply, const NodeRef& directory) {
  const auto answer = reply.take<nfs4::GETATTR4res>();
  if (!answer) return;
  const nfs4::fattr4& attributes = answer->resok4.obj_attributes;
  access_.note_everybody(directory, acl_lets_all_search(attributes), attributes.change);
}

}  // namespace nfsrdma::client::nfs4

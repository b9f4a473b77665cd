// SPDX-License-Identifier: Apache-2.0
// GETATTR and ACCESS (RFC 8881 sections 5, 10.4, 18.1, 18.7). AttributeService decides what the answers mean.
#include "client/nfs4/ops/nfs4_protocol.h"
#include "client/nfs4/state/node.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client::nfs4 {

Task<Result<AnsweredAttributes>> Nfs4Protocol::get_attributes(RequestContext ctx, NodeRef node) {
  const nfs4::nfs_fh4 fh = fh_of(node);
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kFileAttributes); };
  const Request request{.op = nfs4::OP_GETATTR, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  NFSRDMA_CO_TRY(ReplyAttributes::take_handle(reply));
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(std::move(res.error()));
  co_return co_await replies_.answered(node, res->resok4.obj_attributes, order);
}

Task<Result<AccessOutcome>> Nfs4Protocol::get_access(RequestContext ctx, NodeRef node) {
  const nfs4::nfs_fh4 fh = fh_of(node);
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh).add(nfs4::ACCESS4args{kEveryAccess}).getattr(kFileAttributes);
  };
  const Request request{.op = nfs4::OP_ACCESS, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  NFSRDMA_CO_TRY(ReplyAttributes::take_handle(reply));
  auto access = reply->take<nfs4::ACCESS4res>();
  if (!access) co_return fail(std::move(access.error()));
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(std::move(res.error()));
  AccessOutcome answer;
  answer.bits = {access->resok4.supported, access->resok4.access, res->resok4.obj_attributes.change};
  answer.after = co_await replies_.answered(node, res->resok4.obj_attributes, order);
  co_return answer;
}

Task<std::optional<AclOutcome>> Nfs4Protocol::get_acl(RequestContext ctx, NodeRef directory) {
  const nfs4::nfs_fh4 fh = fh_of(directory);
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kDirectoryAcl); };
  const Request request{.op = nfs4::OP_GETATTR, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply || !reply->expect<nfs4::PUTFH4res>()) co_return std::nullopt;
  co_return take_acl(*reply);
}

std::optional<AclOutcome> Nfs4Protocol::take_acl(CompoundReply& reply) {
  const auto answer = reply.take<nfs4::GETATTR4res>();
  if (!answer) return std::nullopt;
  const nfs4::fattr4& attributes = answer->resok4.obj_attributes;
  return AclOutcome{acl_lets_all_search(attributes), attributes.change};
}

}  // namespace nfsrdma::client::nfs4

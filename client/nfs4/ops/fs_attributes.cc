// SPDX-License-Identifier: Apache-2.0
// GETATTR, ACCESS, and attributes in other replies (RFC 8881 sections 5, 10.4, 18.1, 18.7).
// AttributeService decides what they mean.
#include <cerrno>

#include "client/nfs4/ops/nfs4_filesystem.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client::nfs4 {

Task<Attributes> Nfs4Filesystem::as_cached(nfs4::fattr4 from, uint32_t export_index) {
  auto uid = ids_.known(IdMap::Kind::kUser, from.owner);
  auto gid = ids_.known(IdMap::Kind::kGroup, from.owner_group);
  if (!uid) uid = co_await ids_.resolve(IdMap::Kind::kUser, from.owner);
  if (!gid) gid = co_await ids_.resolve(IdMap::Kind::kGroup, from.owner_group);
  co_return to_attributes(from, export_index, *uid, *gid);
}

Task<bool> Nfs4Filesystem::apply(NodeRef node, nfs4::fattr4 from, uint64_t order, Cause cause,
                                 std::optional<uint64_t> before) {
  const Attributes attributes = co_await as_cached(std::move(from), nfs4_node(node).export_index());
  co_return co_await attributes_.record(node, attributes, order, cause, before);
}

void Nfs4Filesystem::ask_change_before(CompoundBuilder& b, const NodeRef& node, bool& asked) const {
  {
    const Nfs4Node& n = nfs4_node(node);
    MutexLock lock(n.mutex);
    asked = !attributes_.promised(n);
  }
  if (asked) b.getattr(kChangeAttribute);
}

Result<std::optional<uint64_t>> Nfs4Filesystem::take_change_before(CompoundReply& reply, bool asked) {
  if (!asked) return std::nullopt;
  auto res = reply.take<nfs4::GETATTR4res>();
  if (!res) return fail(std::move(res.error()));
  const nfs4::fattr4& attributes = res->resok4.obj_attributes;
  return attributes.attrmask.test(nfs4::FATTR4_CHANGE) ? std::optional(attributes.change) : std::nullopt;
}

Task<Entry> Nfs4Filesystem::make_entry(nfs4::nfs_fh4 fh, nfs4::fattr4 from, uint64_t order, Cause cause) {
  const NodeRef node = nodes_.get(fh, exports_.index_of(to_filesystem_id(from.fsid)));
  co_await apply(node, std::move(from), order, cause);
  co_await learn_limits(node);
  co_return attributes_.cached_entry(node, Duration::zero());
}

Task<Result<>> Nfs4Filesystem::fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) {
  attribute_misses_.fetch_add(1, std::memory_order_relaxed);
  const nfs4::nfs_fh4 fh = fh_of(node);
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kFileAttributes); };
  const Request request{.op = nfs4::OP_GETATTR, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(attributes_.gone(node, std::move(put.error())));
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(attributes_.gone(node, std::move(res.error())));
  co_await apply(node, std::move(res->resok4.obj_attributes), order, cause);
  co_return Result<>{};
}

Task<Result<uint32_t>> Nfs4Filesystem::ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) {
  Nfs4Node& n = nfs4_node(node);
  const nfs4::nfs_fh4 fh = n.fh();
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh).add(nfs4::ACCESS4args{kEveryAccess}).getattr(kFileAttributes);
  };
  const Request request{.op = nfs4::OP_ACCESS, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(attributes_.gone(node, std::move(put.error())));
  auto answer = reply->take<nfs4::ACCESS4res>();
  if (!answer) co_return fail(std::move(answer.error()));
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(std::move(res.error()));
  const uint64_t change = res->resok4.obj_attributes.change;
  co_await apply(node, std::move(res->resok4.obj_attributes), order, Cause::kAsked);
  co_return access_.note_access(ctx, n, answer->resok4.supported, answer->resok4.access, change) & wanted;
}

Task<> Nfs4Filesystem::ask_who_searches(RequestContext ctx, NodeRef directory) {
  const nfs4::nfs_fh4 fh = fh_of(directory);
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kDirectoryAcl); };
  const Request request{.op = nfs4::OP_GETATTR, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (reply && reply->expect<nfs4::PUTFH4res>()) take_acl(*reply, directory);
}

void Nfs4Filesystem::take_acl(CompoundReply& reply, const NodeRef& directory) {
  const auto answer = reply.take<nfs4::GETATTR4res>();
  if (!answer) return;
  const nfs4::fattr4& attributes = answer->resok4.obj_attributes;
  access_.note_everybody(directory, acl_lets_all_search(attributes), attributes.change);
}

}  // namespace nfsrdma::client::nfs4

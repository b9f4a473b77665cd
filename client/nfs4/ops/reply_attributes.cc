// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/ops/reply_attributes.h"

#include <utility>

#include "client/nfs4/state/node.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {

Result<> ReplyAttributes::take_handle(Result<CompoundReply>& reply, const NodeRef& node) {
  if (!reply) return fail(std::move(reply.error()));
  Result<> put = reply->expect<nfs4::PUTFH4res>();
  if (!put) return fail(attributes_.gone(node, std::move(put.error())));
  return put;
}

Task<Attributes> ReplyAttributes::as_cached(nfs4::fattr4 from, uint32_t export_index) {
  auto uid = ids_.known(IdMap::Kind::kUser, from.owner);
  auto gid = ids_.known(IdMap::Kind::kGroup, from.owner_group);
  if (!uid) uid = co_await ids_.resolve(IdMap::Kind::kUser, from.owner);
  if (!gid) gid = co_await ids_.resolve(IdMap::Kind::kGroup, from.owner_group);
  co_return to_attributes(from, export_index, *uid, *gid);
}

Task<bool> ReplyAttributes::apply(NodeRef node, nfs4::fattr4 from, uint64_t order, Cause cause,
                                  std::optional<uint64_t> before) {
  const Attributes attributes = co_await as_cached(std::move(from), nfs4_node(node).export_index());
  co_return co_await attributes_.record(node, attributes, order, cause, before);
}

void ReplyAttributes::ask_change_before(CompoundBuilder& b, const NodeRef& node, bool& asked) const {
  {
    const Nfs4Node& n = nfs4_node(node);
    MutexLock lock(n.mutex);
    asked = !attributes_.promised(n);
  }
  if (asked) b.getattr(kChangeAttribute);
}

Result<std::optional<uint64_t>> ReplyAttributes::take_change_before(CompoundReply& reply, bool asked) {
  if (!asked) return std::nullopt;
  auto res = reply.take<nfs4::GETATTR4res>();
  if (!res) return fail(std::move(res.error()));
  const nfs4::fattr4& attributes = res->resok4.obj_attributes;
  return attributes.attrmask.test(nfs4::FATTR4_CHANGE) ? std::optional(attributes.change) : std::nullopt;
}

Task<Entry> ReplyAttributes::make_entry(nfs4::nfs_fh4 fh, nfs4::fattr4 from, uint64_t order, Cause cause) {
  const NodeRef node = nodes_.get(fh, exports_.index_of(to_filesystem_id(from.fsid)));
  co_await apply(node, std::move(from), order, cause);
  co_await limits_.learn(node);
  co_return attributes_.cached_entry(node, Duration::zero());
}

Cause ReplyAttributes::cause_of_own(const NodeRef& node, uint64_t order, bool asked) const {
  if (asked) return Cause::kOwn;
  const CachedNode& n = cached_node(node);
  MutexLock lock(n.mutex);
  return attributes_.promised(n) && n.promised_since <= order ? Cause::kOwn : Cause::kAsked;
}

Task<NameBelief> ReplyAttributes::directory_changed(NodeRef directory, nfs4::change_info4 info,
                                                    Result<nfs4::GETATTR4res> after, uint64_t order) {
  std::optional<Attributes> attributes;
  if (after) {
    Task<Attributes> converting =
        as_cached(std::move(after->resok4.obj_attributes), nfs4_node(directory).export_index());
    attributes = co_await std::move(converting);
  }
  co_return co_await names_.record_own_change(directory, info.before, info.after, info.atomic, attributes,
                                              order);
}

void ReplyAttributes::ask_of_made(CompoundBuilder& b, const nfs4::nfs_fh4& directory) const {
  b.add(nfs4::SAVEFH4args{}).putfh(directory).getattr(kFileAttributes);
  if (session_.fore_channel().operations() < kOperationsWithAccess) return;
  b.add(nfs4::RESTOREFH4args{}).add(nfs4::ACCESS4args{kEveryAccess});
}

Result<nfs4::GETATTR4res> ReplyAttributes::take_directory_of_made(CompoundReply& reply) {
  if (Result<> saved = reply.expect<nfs4::SAVEFH4res>(); !saved) return fail(std::move(saved.error()));
  if (Result<> put = reply.expect<nfs4::PUTFH4res>(); !put) return fail(std::move(put.error()));
  return reply.take<nfs4::GETATTR4res>();
}

void ReplyAttributes::take_access_of_made(const RequestContext& ctx, const NodeRef& node,
                                          CompoundReply& reply, uint64_t change) {
  if (!reply.expect<nfs4::RESTOREFH4res>()) return;
  if (const auto access = reply.take<nfs4::ACCESS4res>())
    access_.note_access(ctx, nfs4_node(node), access->resok4.supported, access->resok4.access, change);
}

}  // namespace nfsrdma::client::nfs4

// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/ops/reply_attributes.h"

#include <utility>

#include "client/nfs4/state/node.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {

Result<> ReplyAttributes::take_handle(Result<CompoundReply>& reply) {
  if (!reply) return fail(std::move(reply.error()));
  return reply->expect<nfs4::PUTFH4res>();
}

std::optional<Attributes> ReplyAttributes::as_known(const nfs4::fattr4& from, uint32_t export_index) {
  const auto uid = ids_.known(IdMap::Kind::kUser, from.owner);
  const auto gid = ids_.known(IdMap::Kind::kGroup, from.owner_group);
  if (!uid || !gid) return std::nullopt;
  return to_attributes(from, export_index, *uid, *gid);
}

Task<Attributes> ReplyAttributes::as_cached(nfs4::fattr4 from, uint32_t export_index) {
  auto uid = ids_.known(IdMap::Kind::kUser, from.owner);
  auto gid = ids_.known(IdMap::Kind::kGroup, from.owner_group);
  if (!uid) uid = co_await ids_.resolve(IdMap::Kind::kUser, from.owner);
  if (!gid) gid = co_await ids_.resolve(IdMap::Kind::kGroup, from.owner_group);
  co_return to_attributes(from, export_index, *uid, *gid);
}

Task<AnsweredAttributes> ReplyAttributes::answered(NodeRef node, nfs4::fattr4 from, uint64_t order,
                                                   Cause cause, std::optional<uint64_t> before) {
  AnsweredAttributes answered{.order = order, .cause = cause, .before = before};
  answered.attributes = as_known(from, nfs4_node(node).export_index());
  if (!answered.attributes) {
    Task<Attributes> converting = as_cached(std::move(from), nfs4_node(node).export_index());
    answered.attributes = co_await std::move(converting);
  }
  co_return answered;
}

Task<AnsweredAttributes> ReplyAttributes::answered_own(NodeRef node, Result<nfs4::GETATTR4res> after,
                                                       uint64_t order, bool asked,
                                                       std::optional<uint64_t> before) {
  const Cause cause = cause_of_own(node, order, asked);
  if (!after) co_return AnsweredAttributes{.order = order, .cause = cause};
  co_return co_await answered(node, std::move(after->resok4.obj_attributes), order, cause, before);
}

void ReplyAttributes::ask_change_before(CompoundBuilder& b, const NodeRef& node, bool& asked) const {
  {
    const Nfs4Node& n = nfs4_node(node);
    MutexLock lock(n.mutex);
    asked = !promised(n);
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

Task<ReplyAttributes::Object> ReplyAttributes::object(nfs4::nfs_fh4 fh, nfs4::fattr4 from, uint64_t order,
                                                      Cause cause) {
  Object object;
  const uint32_t index = exports_.index_of(to_filesystem_id(from.fsid));
  object.node = nodes_.get(fh, index);
  object.attributes = {.attributes = as_known(from, index), .order = order, .cause = cause};
  if (!object.attributes.attributes) {
    Task<Attributes> converting = as_cached(std::move(from), index);
    object.attributes.attributes = co_await std::move(converting);
  }
  if (index != 0) co_await limits_.learn(object.node);
  co_return object;
}

Cause ReplyAttributes::cause_of_own(const NodeRef& node, uint64_t order, bool asked) const {
  if (asked) return Cause::kOwn;
  const CachedNode& n = cached_node(node);
  MutexLock lock(n.mutex);
  return promised(n) && n.promised_since <= order ? Cause::kOwn : Cause::kAsked;
}

bool ReplyAttributes::promised(const CachedNode& n) const {
  return n.attributes.promised() && session_.lease().holds();
}

Task<DirectoryChange> ReplyAttributes::change_of(NodeRef directory, nfs4::change_info4 info,
                                                 Result<nfs4::GETATTR4res> after) {
  DirectoryChange change{.before = info.before, .after = info.after, .atomic = info.atomic};
  if (!after) co_return change;
  const uint32_t index = nfs4_node(directory).export_index();
  change.attributes = as_known(after->resok4.obj_attributes, index);
  if (!change.attributes) {
    Task<Attributes> converting = as_cached(std::move(after->resok4.obj_attributes), index);
    change.attributes = co_await std::move(converting);
  }
  co_return change;
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

}  // namespace nfsrdma::client::nfs4

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

ValueTask<AnsweredAttributes> ReplyAttributes::answered(const NodeRef& node, const nfs4::fattr4& from,
                                                        uint64_t order, Cause cause,
                                                        std::optional<uint64_t> before) {
  return complete(
      AnsweredAttributes{.order = order, .cause = cause, .before = before},
      [](AnsweredAttributes& answered, const Attributes& a) { answered.attributes = a; }, from,
      nfs4_node(node).export_index());
}

ValueTask<AnsweredAttributes> ReplyAttributes::answered_own(const NodeRef& node,
                                                            const Result<nfs4::GETATTR4res>& after,
                                                            uint64_t order, bool asked,
                                                            std::optional<uint64_t> before) {
  const Cause cause = cause_of_own(node, order, asked);
  if (!after) return AnsweredAttributes{.order = order, .cause = cause};
  return answered(node, after->resok4.obj_attributes, order, cause, before);
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

ValueTask<ReplyAttributes::Object> ReplyAttributes::object(const nfs4::nfs_fh4& fh, const nfs4::fattr4& from,
                                                           uint64_t order, Cause cause) {
  const uint32_t index = exports_.index_of(to_filesystem_id(from.fsid));
  ValueTask<Object> here = complete(
      Object{nodes_.get(fh, index), {.order = order, .cause = cause}},
      [](Object& object, const Attributes& a) { object.attributes.attributes = a; }, from, index);
  if (index != 0) return elsewhere(std::move(here));
  return here;
}

Task<ReplyAttributes::Object> ReplyAttributes::elsewhere(ValueTask<Object> here) {
  Object object = co_await std::move(here);
  co_await limits_.learn(object.node);
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

ValueTask<DirectoryChange> ReplyAttributes::change_of(const NodeRef& directory,
                                                      const nfs4::change_info4& info,
                                                      const Result<nfs4::GETATTR4res>& after) {
  DirectoryChange change{.before = info.before, .after = info.after, .atomic = info.atomic};
  if (!after) return change;
  return complete(
      change, [](DirectoryChange& c, const Attributes& a) { c.attributes = a; }, after->resok4.obj_attributes,
      nfs4_node(directory).export_index());
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

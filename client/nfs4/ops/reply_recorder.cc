// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/ops/reply_recorder.h"

#include <utility>

#include "client/nfs4/state/node.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {

Result<> ReplyRecorder::take_handle(Result<CompoundReply>& reply, const NodeRef& node) {
  Result<> put = ReplyAttributes::take_handle(reply);
  if (!put) return fail(attributes_.gone(node, std::move(put.error())));
  return put;
}

Task<bool> ReplyRecorder::apply(NodeRef node, const nfs4::fattr4& from, uint64_t order, Cause cause,
                                std::optional<uint64_t> before) {
  const AnsweredAttributes answered = co_await replies_.answered(node, from, order, cause, before);
  co_return co_await attributes_.record(node, answered);
}

Task<Entry> ReplyRecorder::make_entry(const nfs4::nfs_fh4& fh, const nfs4::fattr4& from, uint64_t order,
                                      Cause cause) {
  const ReplyAttributes::Object object = co_await replies_.object(fh, from, order, cause);
  co_await attributes_.record(object.node, object.attributes);
  co_return attributes_.cached_entry(object.node, Duration::zero());
}

void ReplyRecorder::take_access_of_made(const RequestContext& ctx, const NodeRef& node, CompoundReply& reply,
                                        uint64_t change) {
  if (!reply.expect<nfs4::RESTOREFH4res>()) return;
  const auto access = reply.take<nfs4::ACCESS4res>();
  if (!access) return;
  const AccessBits bits{access->resok4.supported, access->resok4.access, change};
  access_.note_access(ctx, nfs4_node(node), bits);
}

Task<NameBelief> ReplyRecorder::directory_changed(NodeRef directory, nfs4::change_info4 info,
                                                  const Result<nfs4::GETATTR4res>& after, uint64_t order) {
  const DirectoryChange change = co_await replies_.change_of(directory, info, after);
  co_return co_await names_.record_own_change(directory, change, order);
}

}  // namespace nfsrdma::client::nfs4

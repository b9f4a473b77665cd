// SPDX-License-Identifier: Apache-2.0
// LOOKUP and LINK (RFC 8881 sections 18.9, 18.13). An answer belongs to the directory's attributes that
// precede it in its COMPOUND.
#include "client/core/names/name_errors.h"
#include "client/nfs4/ops/nfs4_protocol.h"
#include "client/nfs4/state/node.h"
#include "xdr/nfs4/dir_ops.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {

Task<Result<LookupOutcome>> Nfs4Protocol::lookup(RequestContext ctx, NodeRef directory, std::string name) {
  const nfs4::nfs_fh4 fh = fh_of(directory);
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh)
        .getattr(kFileAttributes)
        .add(nfs4::LOOKUP4args{name})
        .add(nfs4::GETFH4args{})
        .getattr(kFileAttributes)
        .add(nfs4::ACCESS4args{kEveryAccess});
  };
  const Request request{.op = nfs4::OP_LOOKUP, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  NFSRDMA_CO_TRY(ReplyAttributes::take_handle(reply));
  auto of_directory = reply->take<nfs4::GETATTR4res>();
  if (!of_directory) co_return fail(std::move(of_directory.error()));
  LookupOutcome answer;
  answer.names_change = of_directory->resok4.obj_attributes.change;
  answer.directory = co_await replies_.answered(directory, of_directory->resok4.obj_attributes, order);

  const Result<> looked_up = reply->expect<nfs4::LOOKUP4res>();
  if (!looked_up) {
    if (!looked_up.error().is_status(nfs4::NFS4ERR_NOENT))
      answer.found = fail(because_of_names(looked_up.error(), name));
    co_return answer;
  }
  auto handle = reply->take<nfs4::GETFH4res>();
  Result<nfs4::GETATTR4res> attributes = fail(Error{});
  if (handle) attributes = reply->take<nfs4::GETATTR4res>();
  if (!attributes) {
    answer.found = fail(std::move(handle ? attributes.error() : handle.error()));
    co_return answer;
  }
  const uint64_t change = attributes->resok4.obj_attributes.change;
  ReplyAttributes::Object object =
      co_await replies_.object(handle->resok4.object, attributes->resok4.obj_attributes, order);
  answer.found = std::move(object.node);
  answer.attributes = object.attributes;
  if (const auto access = reply->take<nfs4::ACCESS4res>())
    answer.access = AccessBits{access->resok4.supported, access->resok4.access, change};
  co_return answer;
}

Task<LinkOutcome> Nfs4Protocol::link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) {
  const nfs4::nfs_fh4 fh = fh_of(node);
  const nfs4::nfs_fh4 directory_fh = fh_of(directory);
  LinkOutcome answer;
  const uint64_t order = answer.fate.order = nodes_.next_start();
  bool asked = false;
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh);
    replies_.ask_change_before(b, node, asked);
    b.add(nfs4::SAVEFH4args{}).putfh(directory_fh).add(nfs4::LINK4args{name}).getattr(kFileAttributes);
    if (session_.fore_channel().operations() >= ReplyAttributes::kOperationsWithAccess)
      b.add(nfs4::RESTOREFH4args{}).getattr(kFileAttributes);
  };
  const Request request = change_request(nfs4::OP_LINK, ctx, build);
  Result<CompoundReply> reply = co_await session_.run(request);
  answer.fate.answered = reply.has_value();
  answer.fate.repeated = reply && reply->maybe_executed_before;
  std::optional<uint64_t> before;
  auto linked = take_link(reply, asked, before);
  if (!linked) {
    answer.changed = fail(because_of_names(std::move(linked.error()), name));
    co_return answer;
  }
  auto after = reply->take<nfs4::GETATTR4res>();
  answer.changed = co_await replies_.change_of(directory, linked->resok4.cinfo, after);
  Result<nfs4::GETATTR4res> attributes = fail(Error{});
  if (reply->expect<nfs4::RESTOREFH4res>()) attributes = reply->take<nfs4::GETATTR4res>();
  answer.node = co_await replies_.answered_own(node, attributes, order, asked, before);
  co_return answer;
}

Result<nfs4::LINK4res> Nfs4Protocol::take_link(Result<CompoundReply>& reply, bool asked,
                                               std::optional<uint64_t>& before) {
  NFSRDMA_TRY(ReplyAttributes::take_handle(reply));
  auto change = ReplyAttributes::take_change_before(*reply, asked);
  if (!change) return fail(std::move(change.error()));
  before = *change;
  NFSRDMA_TRY(reply->expect<nfs4::SAVEFH4res>());
  NFSRDMA_TRY(reply->expect<nfs4::PUTFH4res>());
  return reply->take<nfs4::LINK4res>();
}

}  // namespace nfsrdma::client::nfs4

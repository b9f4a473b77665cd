// SPDX-License-Identifier: Apache-2.0
// LOOKUP and LINK, and how long a name is believed (RFC 8881 sections 10.8, 18.9, 18.13).
//
// A cached name is valid while its directory's attributes are fresh and the directory has the change
// attribute under which the name was learnt. Our own changes bring the directory's new attributes in the same
// COMPOUND, so the names stay valid. A change by another client shows as another change attribute and ends
// the epoch of the names. An answer belongs to the epoch of the directory's attributes that precede it in its
// COMPOUND.
#include <cerrno>

#include "client/core/names/name_errors.h"
#include "client/core/names/valid_name.h"
#include "client/nfs4/ops/nfs4_protocol.h"
#include "client/nfs4/state/node.h"
#include "xdr/nfs4/dir_ops.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {

Task<Result<Entry>> Nfs4Protocol::lookup_on_server(RequestContext ctx, NodeRef directory, std::string name) {
  const nfs4::nfs_fh4 fh = fh_of(directory);
  const uint64_t order = nodes_.next_start();
  NameBelief belief{Clock::now(), 0, order};
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
  NFSRDMA_CO_TRY(replies_.take_handle(reply, directory));
  auto of_directory = reply->take<nfs4::GETATTR4res>();
  if (!of_directory) co_return fail(std::move(of_directory.error()));
  const uint64_t change = of_directory->resok4.obj_attributes.change;
  co_await replies_.apply(directory, std::move(of_directory->resok4.obj_attributes), order, Cause::kAsked);
  belief.epoch = NameService::names_epoch(directory, change);

  Result<> looked_up = reply->expect<nfs4::LOOKUP4res>();
  if (!looked_up) {
    if (!looked_up.error().is_status(nfs4::NFS4ERR_NOENT))
      co_return fail(because_of_names(std::move(looked_up.error()), name));
    const NodeRef nobody;
    co_return names_.learnt_entry(directory, name, nobody, belief);
  }
  auto handle = reply->take<nfs4::GETFH4res>();
  if (!handle) co_return fail(std::move(handle.error()));
  auto attributes = reply->take<nfs4::GETATTR4res>();
  if (!attributes) co_return fail(std::move(attributes.error()));
  const uint64_t child_change = attributes->resok4.obj_attributes.change;
  const Entry entry = co_await replies_.make_entry(
      handle->resok4.object, std::move(attributes->resok4.obj_attributes), order, Cause::kAsked);
  if (auto access = reply->take<nfs4::ACCESS4res>())
    access_.note_access(ctx, nfs4_node(entry.node), access->resok4.supported, access->resok4.access,
                        child_change);
  co_return names_.learnt_entry(directory, name, entry.node, belief);
}

Task<Result<Entry>> Nfs4Protocol::link_on_server(RequestContext ctx, NodeRef node, NodeRef directory,
                                                 std::string name) {
  NFSRDMA_CO_TRY(check_new_name(name, limits_of(directory).name_max, "LINK"));
  co_await write_back_.settle_node(node);
  const nfs4::nfs_fh4 fh = fh_of(node);
  const nfs4::nfs_fh4 directory_fh = fh_of(directory);
  const uint64_t order = nodes_.next_start();
  bool asked = false;
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh);
    replies_.ask_change_before(b, node, asked);
    b.add(nfs4::SAVEFH4args{}).putfh(directory_fh).add(nfs4::LINK4args{name}).getattr(kFileAttributes);
    if (session_.fore_channel().operations() >= ReplyAttributes::kOperationsWithAccess)
      b.add(nfs4::RESTOREFH4args{}).getattr(kFileAttributes);
  };
  NameService::NameToBe to_be(names_, directory, name);
  const Request request = change_request(nfs4::OP_LINK, ctx, build);
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) {
    attributes_.expire(node);  // the server may have executed it
    co_return fail(std::move(reply.error()));
  }
  NFSRDMA_CO_TRY(replies_.take_handle(reply, node));
  const auto before = ReplyAttributes::take_change_before(*reply, asked);
  if (!before) co_return fail(before.error());
  NFSRDMA_CO_TRY(reply->expect<nfs4::SAVEFH4res>());
  NFSRDMA_CO_TRY(replies_.take_handle(reply, directory));
  auto linked = reply->take<nfs4::LINK4res>();
  if (!linked) {
    to_be.refused(linked.error(), reply->maybe_executed_before);
    if (reply->maybe_executed_before && linked.error().is_status(nfs4::NFS4ERR_EXIST)) {
      to_be.in_doubt();
      Result<Entry> there = co_await lookup_on_server(ctx, directory, name);
      if (there && there->node == node) co_return there;
    }
    co_return fail(because_of_names(std::move(linked.error()), name));
  }
  auto after = reply->take<nfs4::GETATTR4res>();
  const NameBelief belief =
      co_await replies_.directory_changed(directory, linked->resok4.cinfo, std::move(after), order);
  to_be.made(*node.get(), belief);
  Result<nfs4::GETATTR4res> attributes = fail(Error{});
  if (reply->expect<nfs4::RESTOREFH4res>()) attributes = reply->take<nfs4::GETATTR4res>();
  if (attributes) {
    co_await replies_.apply(node, std::move(attributes->resok4.obj_attributes), order,
                            replies_.cause_of_own(node, order, asked), *before);
  } else {
    attributes_.expire(node);
  }
  co_return attributes_.cached_entry(node, names_.entry_ttl(directory, belief));
}

}  // namespace nfsrdma::client::nfs4

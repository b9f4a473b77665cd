// SPDX-License-Identifier: Apache-2.0
// GETATTR, ACCESS, and attributes in other replies (RFC 1813 sections 2.6, 3.3.1, 3.3.4).
#include "client/nfs3/nfs3_protocol.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs3 {

uint32_t Nfs3Protocol::export_of(const nfs3::FileAttributes& from) {
  return exports_.index_of({from.fsid, 0});
}

Attributes Nfs3Protocol::as_cached(const nfs3::FileAttributes& from) {
  Attributes a = from.attributes;
  a.ino = Exports::ino(export_of(from), {from.fsid, 0}, a.ino);
  return a;
}

AnsweredAttributes Nfs3Protocol::answered(const nfs3::PostAttributes& from, uint64_t order, Cause cause) {
  AnsweredAttributes answered{.order = order, .cause = cause};
  if (from) answered.attributes = as_cached(*from);
  return answered;
}

AnsweredAttributes Nfs3Protocol::answered_own(const nfs3::Wcc& wcc, uint64_t order) {
  AnsweredAttributes own = answered(wcc.after, order, Cause::kOwn);
  own.before = wcc.before;
  return own;
}

DirectoryChange Nfs3Protocol::change_of(const nfs3::Wcc& wcc) {
  // Without attributes on both sides, all that is known is that there was a change.
  constexpr uint64_t kUnknown = UINT64_MAX;
  DirectoryChange change;
  if (wcc.after) change.attributes = as_cached(*wcc.after);
  change.before = wcc.after ? wcc.before.value_or(kUnknown) : kUnknown;
  change.after = change.attributes ? change.attributes->change : 0;
  return change;
}

uint64_t Nfs3Protocol::names_change(const NodeRef& directory) {
  const Nfs3Node& d = nfs3_node(directory);
  MutexLock lock(d.mutex);
  return d.contents.known ? d.contents.change : 0;
}

std::optional<uint64_t> Nfs3Protocol::names_change(uint64_t before, const nfs3::PostAttributes& after) {
  // The attributes are from after the operation. If they differ from those before, the answer may be from
  // before the change.
  if (!after || before == 0 || after->attributes.change != before) return std::nullopt;
  return before;
}

Task<Result<AnsweredAttributes>> Nfs3Protocol::get_attributes(RequestContext ctx, NodeRef node) {
  const uint64_t order = nodes_.next_start();
  auto asking = server_.getattr(ctx.credential, fh_of(node));
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(nfs3_error(answer->status, "GETATTR"));
  co_return answered(answer->object, order);
}

Task<Result<AccessOutcome>> Nfs3Protocol::get_access(RequestContext ctx, NodeRef node) {
  const uint64_t order = nodes_.next_start();
  auto asking = server_.access(ctx.credential, fh_of(node), kEveryAccess);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(nfs3_error(answer->status, "ACCESS"));
  AccessOutcome access{.after = answered(answer->object, order)};
  // NFSv3 does not say which bits the server can check.
  access.bits = {kEveryAccess, answer->access, answer->object ? access.after.attributes->change : 0};
  co_return access;
}

}  // namespace nfsrdma::client::nfs3

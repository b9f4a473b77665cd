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

Task<bool> Nfs3Protocol::note(NodeRef node, nfs3::PostAttributes from, uint64_t order, Cause cause,
                              std::optional<uint64_t> before) {
  if (!from) {
    attributes_.expire(node);
    co_return false;
  }
  const Attributes attributes = as_cached(*from);
  co_return co_await attributes_.record(node, attributes, order, cause, before);
}

Task<> Nfs3Protocol::note_own(NodeRef node, nfs3::Wcc wcc, uint64_t order) {
  co_await note(node, wcc.after, order, Cause::kOwn, wcc.before);
}

Task<NameBelief> Nfs3Protocol::note_change(NodeRef directory, nfs3::Wcc wcc, uint64_t order) {
  // Without attributes on both sides, all that is known is that there was a change.
  constexpr uint64_t kUnknown = UINT64_MAX;
  std::optional<Attributes> after;
  if (wcc.after) after = as_cached(*wcc.after);
  const uint64_t before = after ? wcc.before.value_or(kUnknown) : kUnknown;
  co_return co_await names_.record_own_change(directory, before, after ? after->change : 0, false, after,
                                              order);
}

uint64_t Nfs3Protocol::names_change(const NodeRef& directory) {
  const Nfs3Node& d = nfs3_node(directory);
  MutexLock lock(d.mutex);
  return d.contents.known ? d.contents.change : 0;
}

uint64_t Nfs3Protocol::epoch_of(const NodeRef& directory, uint64_t before,
                                const nfs3::PostAttributes& after) {
  // The attributes are from after the operation. If they differ from those before, the answer may be from
  // before the change.
  if (!after || before == 0 || after->attributes.change != before) return 0;
  return NameService::names_epoch(directory, before);
}

Error Nfs3Protocol::failed(const NodeRef& node, uint32_t status, const char* op) {
  return attributes_.gone(node, nfs3::nfs3_error(status, op));
}

Task<Result<>> Nfs3Protocol::fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) {
  attributes_.count_miss();
  const uint64_t order = nodes_.next_start();
  auto asking = server_.getattr(ctx.credential, fh_of(node));
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(failed(node, answer->status, "GETATTR"));
  co_await note(node, answer->object, order, cause);
  co_return Result<>{};
}

Task<Result<uint32_t>> Nfs3Protocol::ask_access_for(RequestContext ctx, NodeRef node, Cause cause,
                                                    bool* good) {
  const uint64_t order = nodes_.next_start();
  auto asking = server_.access(ctx.credential, fh_of(node), kEveryAccess);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(failed(node, answer->status, "ACCESS"));
  if (answer->object) {
    *good = co_await note(node, answer->object, order, cause);
  } else {
    NFSRDMA_CO_TRY(co_await fetch_attributes(ctx, node, cause));
    *good = false;
  }
  const uint64_t change = AttributeService::known_attributes(node).change;
  // NFSv3 does not say which bits the server can check.
  co_return access_.note_access(ctx, nfs3_node(node), kEveryAccess, answer->access, change);
}

Task<Result<uint32_t>> Nfs3Protocol::ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) {
  bool good = false;
  auto allowed = co_await ask_access_for(ctx, node, Cause::kAsked, &good);
  if (!allowed) co_return allowed;
  co_return *allowed& wanted;
}

}  // namespace nfsrdma::client::nfs3

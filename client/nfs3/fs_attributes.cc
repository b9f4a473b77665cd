// SPDX-License-Identifier: Apache-2.0
// GETATTR, SETATTR, ACCESS, FSSTAT, and attributes in other replies (RFC 1813 sections 2.6, 3.3.1, 3.3.2,
// 3.3.4, 3.3.18).
#include <cerrno>

#include "client/nfs3/nfs3_client.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs3 {

uint32_t Nfs3Filesystem::export_of(const nfs3::FileAttributes& from) {
  return exports_.index_of({from.fsid, 0});
}

Attributes Nfs3Filesystem::as_cached(const nfs3::FileAttributes& from) {
  Attributes a = from.attributes;
  a.ino = Exports::ino(export_of(from), {from.fsid, 0}, a.ino);
  return a;
}

Task<bool> Nfs3Filesystem::note(NodeRef node, nfs3::PostAttributes from, uint64_t order, Cause cause,
                                std::optional<uint64_t> before) {
  if (!from) {
    attributes_.expire(node);
    co_return false;
  }
  const Attributes attributes = as_cached(*from);
  co_return co_await attributes_.record(node, attributes, order, cause, before);
}

Task<> Nfs3Filesystem::note_own(NodeRef node, nfs3::Wcc wcc, uint64_t order) {
  co_await note(node, wcc.after, order, Cause::kOwn, wcc.before);
}

Task<NameBelief> Nfs3Filesystem::note_change(NodeRef directory, nfs3::Wcc wcc, uint64_t order) {
  // Without attributes on both sides, all that is known is that there was a change.
  constexpr uint64_t kUnknown = UINT64_MAX;
  std::optional<Attributes> after;
  if (wcc.after) after = as_cached(*wcc.after);
  const uint64_t before = after ? wcc.before.value_or(kUnknown) : kUnknown;
  co_return co_await names_.record_own_change(directory, before, after ? after->change : 0, false, after,
                                              order);
}

uint64_t Nfs3Filesystem::names_change(const NodeRef& directory) {
  const Nfs3Node& d = nfs3_node(directory);
  MutexLock lock(d.mutex);
  return d.contents.known ? d.contents.change : 0;
}

uint64_t Nfs3Filesystem::epoch_of(const NodeRef& directory, uint64_t before,
                                  const nfs3::PostAttributes& after) {
  // The attributes are from after the operation. If they differ from those before, the answer may be from
  // before the change.
  if (!after || before == 0 || after->attributes.change != before) return 0;
  return NameService::names_epoch(directory, before);
}

Error Nfs3Filesystem::failed(const NodeRef& node, uint32_t status, const char* op) {
  return attributes_.gone(node, nfs3::nfs3_error(status, op));
}

Task<Result<>> Nfs3Filesystem::fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) {
  attributes_.count_miss();
  const uint64_t order = nodes_.next_start();
  auto asking = server_.getattr(ctx.credential, fh_of(node));
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(failed(node, answer->status, "GETATTR"));
  co_await note(node, answer->object, order, cause);
  co_return Result<>{};
}

Task<Result<uint32_t>> Nfs3Filesystem::ask_access_for(RequestContext ctx, NodeRef node, Cause cause,
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

Task<Result<uint32_t>> Nfs3Filesystem::ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) {
  bool good = false;
  auto allowed = co_await ask_access_for(ctx, node, Cause::kAsked, &good);
  if (!allowed) co_return allowed;
  co_return *allowed& wanted;
}

Task<Result<AttributesReply>> Nfs3Filesystem::setattr(RequestContext ctx, NodeRef node, SetAttributes set,
                                                      OpenFileRef open) {
  Nfs3Node& n = nfs3_node(node);
  // Servers let the owner change the size whatever the mode says, for processes that have the file open for
  // writing. But truncate(2), and open(2) with O_TRUNC, must check the mode.
  const bool opened_to_write = open && (cached_open(open).access & CachedOpen::kWrite) != 0;
  if (set.size && !opened_to_write)
    NFSRDMA_CO_TRY(
        co_await access_.require_access(ctx, node, nfs4::ACCESS4_MODIFY | nfs4::ACCESS4_EXTEND, "SETATTR"));
  std::shared_ptr<Nfs3FileState> file;
  {
    MutexLock lock(n.mutex);
    file = n.file;
  }
  if (file && (set.size || set.mtime || set.mode)) {
    // A write that is repeated after a server restart must not undo the truncation, the time or the set-id
    // bits.
    co_await write_back_.write_back(node, file);
  } else {
    co_await write_back_.settle_node(node);
  }
  const uint64_t order = nodes_.next_start();
  auto asking = server_.setattr(caller_of(ctx), n.fh(), set);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) {
    co_await note(node, answer->wcc.after, order, Cause::kAsked);
    co_return fail(failed(node, answer->status, "SETATTR"));
  }
  co_await note_own(node, answer->wcc, order);
  if (!answer->wcc.after) NFSRDMA_CO_TRY(co_await fetch_attributes(ctx, node, Cause::kOwn));
  co_return co_await attributes_.sure_attributes(ctx, node);
}

Task<Result<FilesystemStatus>> Nfs3Filesystem::statfs(RequestContext ctx, NodeRef node) {
  auto asking = server_.fsstat(ctx.credential, fh_of(node));
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(failed(node, answer->status, "FSSTAT"));
  FilesystemStatus s = answer->space;
  s.block_size = 4096;
  s.name_max = limits_.name_max;
  co_return s;
}

}  // namespace nfsrdma::client::nfs3

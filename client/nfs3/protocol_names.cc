// SPDX-License-Identifier: Apache-2.0
// LOOKUP, LINK, REMOVE, RMDIR, RENAME (RFC 1813 sections 3.3.3, 3.3.12 to 3.3.15).
//
// A call that is sent again after a lost connection may be executed twice if the server's duplicate request
// cache has lost it (RFC 1813 section 4.5). Then EXIST or NOENT may be caused by our own call. As with the
// kernel's client, the application gets the server's answer.
#include <cerrno>

#include "client/nfs3/nfs3_protocol.h"

namespace nfsrdma::client::nfs3 {

NodeRef Nfs3Protocol::object(const nfs3::ObjectAnswer& answer) {
  return nodes_.get(answer.handle, answer.object ? export_of(*answer.object) : 0);
}

Task<Result<LookupOutcome>> Nfs3Protocol::lookup(RequestContext ctx, NodeRef directory, std::string name) {
  const uint64_t order = nodes_.next_start();
  const uint64_t before = names_change(directory);
  auto asking = server_.lookup(ctx.credential, fh_of(directory), name);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  LookupOutcome lookup;
  lookup.directory = answered(answer->directory.after, order);
  lookup.names_change = names_change(before, answer->directory.after);
  if (answer->status == 0) {
    lookup.found = object(*answer);
    lookup.attributes = answered(answer->object, order);
  } else if (answer->status != nfs3::NFS3ERR_NOENT_) {
    lookup.found = fail(nfs3_error(answer->status, "LOOKUP"));
  }
  co_return lookup;
}

Task<LinkOutcome> Nfs3Protocol::link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) {
  LinkOutcome link;
  link.fate.order = nodes_.next_start();
  auto asking = server_.link(caller_of(ctx), fh_of(node), fh_of(directory), name);
  auto answer = co_await std::move(asking);
  link.fate.answered = answer.has_value();
  if (!answer) {
    link.changed = fail(std::move(answer.error()));
  } else if (answer->status != 0) {
    link.changed = fail(nfs3_error(answer->status, "LINK"));
    link.directory = answered(answer->directory.after, link.fate.order);
  } else {
    link.changed = change_of(answer->directory);
    link.node = answered(answer->object, link.fate.order, Cause::kOwn);
  }
  co_return link;
}

Task<RemoveOutcome> Nfs3Protocol::remove(RequestContext ctx, NodeRef directory, std::string name,
                                         bool is_directory, NodeRef) {
  const char* op = is_directory ? "RMDIR" : "REMOVE";
  RemoveOutcome removed;
  removed.fate.order = nodes_.next_start();
  auto asking = server_.remove(caller_of(ctx), fh_of(directory), name, is_directory);
  auto answer = co_await std::move(asking);
  removed.fate.answered = answer.has_value();
  if (!answer) {
    removed.changed = fail(std::move(answer.error()));
  } else if (answer->status != 0) {
    Error error = nfs3_error(answer->status, op);
    // Section 3.3.13: for a directory that is not empty, servers return NOTEMPTY or EXIST.
    if (is_directory && answer->status == nfs3::NFS3ERR_EXIST_) error.errnum = ENOTEMPTY;
    removed.changed = fail(std::move(error));
    removed.directory = answered(answer->wcc.after, removed.fate.order);
  } else {
    removed.changed = change_of(answer->wcc);
  }
  co_return removed;
}

Task<RenameOutcome> Nfs3Protocol::rename(RequestContext ctx, NodeRef from_directory, std::string from,
                                         NodeRef to_directory, std::string to, NodeRef) {
  RenameOutcome renamed;
  const uint64_t order = renamed.fate.order = nodes_.next_start();
  auto asking = server_.rename(caller_of(ctx), fh_of(from_directory), from, fh_of(to_directory), to);
  auto answer = co_await std::move(asking);
  renamed.fate.answered = answer.has_value();
  if (!answer) {
    renamed.changed = fail(std::move(answer.error()));
  } else if (answer->status != 0) {
    Error error = nfs3_error(answer->status, "RENAME");
    // Section 3.3.14: RENAME replaces the target. If it fails with EXIST, the target is a directory that is
    // not empty.
    if (answer->status == nfs3::NFS3ERR_EXIST_) error.errnum = ENOTEMPTY;
    renamed.changed = fail(std::move(error));
    renamed.from = answered(answer->from.after, order);
    renamed.to = answered(answer->to.after, order);
  } else {
    renamed.changed = RenameOutcome::Changes{change_of(answer->from), change_of(answer->to)};
  }
  co_return renamed;
}

}  // namespace nfsrdma::client::nfs3

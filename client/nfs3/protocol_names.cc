// SPDX-License-Identifier: Apache-2.0
// LOOKUP, LINK, REMOVE, RMDIR, RENAME (RFC 1813 sections 3.3.3, 3.3.12 to 3.3.15).
//
// A call that is sent again after a lost connection may be executed twice if the server's duplicate request
// cache has lost it (RFC 1813 section 4.5). Then EXIST or NOENT may be caused by our own call. As with the
// kernel's client, the application gets the server's answer.
#include <cerrno>

#include "client/core/names/name_errors.h"
#include "client/core/names/valid_name.h"
#include "client/nfs3/nfs3_protocol.h"

namespace nfsrdma::client::nfs3 {

Task<Result<NodeRef>> Nfs3Protocol::object(RequestContext ctx, const nfs3::ObjectAnswer& answer,
                                           uint64_t order, Cause cause) {
  const uint32_t index = answer.object ? export_of(*answer.object) : 0;
  NodeRef node = nodes_.get(answer.handle, index);
  if (answer.object) {
    co_await note(node, answer.object, order, cause);
  } else {
    NFSRDMA_CO_TRY(co_await fetch_attributes(ctx, node, cause));
  }
  co_return node;
}

Task<Result<Entry>> Nfs3Protocol::lookup_on_server(RequestContext ctx, NodeRef directory, std::string name) {
  NameBelief belief{Clock::now(), 0, nodes_.next_start()};
  const uint64_t before = names_change(directory);
  auto asking = server_.lookup(ctx.credential, fh_of(directory), name);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  co_await note(directory, answer->directory.after, belief.order, Cause::kAsked);
  belief.epoch = epoch_of(directory, before, answer->directory.after);
  if (answer->status == nfs3::NFS3ERR_NOENT_) {
    const NodeRef nobody;
    co_return names_.learnt_entry(directory, name, nobody, belief);
  }
  if (answer->status != 0) co_return fail(failed(directory, answer->status, "LOOKUP"));
  auto node = co_await object(ctx, *answer, belief.order, Cause::kAsked);
  if (!node) co_return fail(std::move(node.error()));
  co_return names_.learnt_entry(directory, name, *node, belief);
}

Task<Result<Entry>> Nfs3Protocol::link_on_server(RequestContext ctx, NodeRef node, NodeRef directory,
                                                 std::string name) {
  NFSRDMA_CO_TRY(check_new_name(name, limits_.name_max, "LINK"));
  co_await write_back_.settle_node(node);
  NameService::NameToBe to_be(names_, directory, name);
  const uint64_t order = nodes_.next_start();
  auto asking = server_.link(caller_of(ctx), fh_of(node), fh_of(directory), name);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) {
    co_await note(directory, answer->directory.after, order, Cause::kAsked);
    Error error = failed(node, answer->status, "LINK");
    to_be.refused(error, false);
    co_return fail(std::move(error));
  }
  const NameBelief belief = co_await note_change(directory, answer->directory, order);
  co_await note(node, answer->object, order, Cause::kOwn);
  if (!answer->object) NFSRDMA_CO_TRY(co_await fetch_attributes(ctx, node, Cause::kOwn));
  to_be.made(*node.get(), belief);
  co_return attributes_.cached_entry(node, names_.entry_ttl(directory, belief));
}

Task<Result<>> Nfs3Protocol::remove_on_server(RequestContext ctx, NodeRef directory, std::string name,
                                              bool is_directory) {
  const char* op = is_directory ? "RMDIR" : "REMOVE";
  // The file of that name: its link count changes.
  NodeRef victim;
  if (auto found = nodes_.names().find(*directory.get(), name)) victim = found->child;
  const uint64_t order = nodes_.next_start();
  auto asking = server_.remove(caller_of(ctx), fh_of(directory), name, is_directory);
  auto answer = co_await std::move(asking);
  // For a removed directory, fstat(2) can only return what is known.
  if (!is_directory) attributes_.expire(victim);
  if (!answer) {
    names_.name_in_doubt(directory, name);
    co_return fail(std::move(answer.error()));
  }
  if (answer->status != 0) {
    co_await note(directory, answer->wcc.after, order, Cause::kAsked);
    Error error = failed(directory, answer->status, op);
    // Section 3.3.13: for a directory that is not empty, servers return NOTEMPTY or EXIST.
    if (is_directory && answer->status == nfs3::NFS3ERR_EXIST_) error.errnum = ENOTEMPTY;
    if (leaves_doubt(error, false)) names_.name_in_doubt(directory, name);
    co_return fail(std::move(error));
  }
  const NameBelief belief = co_await note_change(directory, answer->wcc, order);
  nodes_.names().put(*directory.get(), name, nullptr, belief);
  co_return Result<>{};
}

Task<Result<>> Nfs3Protocol::rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                              NodeRef to_directory, std::string to) {
  const bool one_directory = from_directory == to_directory;
  const NameService::Moving known = names_.moving(from_directory, from, to_directory, to);
  const uint64_t order = nodes_.next_start();
  auto asking = server_.rename(caller_of(ctx), fh_of(from_directory), from, fh_of(to_directory), to);
  auto answer = co_await std::move(asking);
  const auto in_doubt = [&] {
    names_.name_in_doubt(from_directory, from);
    names_.name_in_doubt(to_directory, to);
  };
  names_.expire_moved(known);
  if (!answer) {
    in_doubt();
    co_return fail(std::move(answer.error()));
  }
  if (answer->status != 0) {
    co_await note(from_directory, answer->from.after, order, Cause::kAsked);
    if (!one_directory) co_await note(to_directory, answer->to.after, order, Cause::kAsked);
    Error error = attributes_.gone(to_directory, failed(from_directory, answer->status, "RENAME"));
    // Section 3.3.14: RENAME replaces the target. If it fails with EXIST, the target is a directory that is
    // not empty.
    if (answer->status == nfs3::NFS3ERR_EXIST_) error.errnum = ENOTEMPTY;
    if (leaves_doubt(error, false)) in_doubt();
    co_return fail(std::move(error));
  }
  const NameBelief to_belief = co_await note_change(to_directory, answer->to, order);
  NameBelief from_belief = to_belief;
  if (!one_directory) from_belief = co_await note_change(from_directory, answer->from, order);
  names_.names_moved(known, from_directory, from, from_belief, to_directory, to, to_belief);
  co_return Result<>{};
}

}  // namespace nfsrdma::client::nfs3

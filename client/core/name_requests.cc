// SPDX-License-Identifier: Apache-2.0
// NameService: LOOKUP, REMOVE, RENAME, LINK and READDIR, and what their answers mean for the cached names
// (RFC 8881 sections 10.8, 18.9, 18.13, 18.23, 18.25, 18.26).
#include <cerrno>
#include <utility>

#include "client/core/name_service.h"
#include "client/core/names/listing.h"
#include "client/core/names/valid_name.h"

namespace nfsrdma::client {

Task<Result<Entry>> NameService::lookup_on_server(RequestContext ctx, NodeRef directory, std::string name) {
  NameBelief belief{Clock::now(), 0, 0};
  Result<LookupOutcome> answer = co_await protocol_.lookup(ctx, directory, name);
  if (!answer) co_return fail(attributes_.gone(directory, std::move(answer.error())));
  belief.order = answer->directory.order;
  co_await attributes_.record(directory, answer->directory);
  if (answer->names_change) belief.epoch = names_epoch(directory, *answer->names_change);
  if (!answer->found) co_return fail(attributes_.gone(directory, std::move(answer->found.error())));
  const NodeRef node = std::move(*answer->found);
  if (node) {
    NFSRDMA_CO_TRY(co_await attributes_.record_or_fetch(ctx, node, answer->attributes));
    if (answer->access) access_.note_access(ctx, cached_node(node), *answer->access);
  }
  co_return learnt_entry(directory, name, node, belief);
}

Task<Result<>> NameService::remove_on_server(RequestContext ctx, NodeRef directory, std::string name,
                                             bool is_directory) {
  // The file of that name: its link count changes. Data of an unlinked file need not be written back.
  NodeRef victim;
  if (auto found = table_.names().find(*directory.get(), name)) victim = found->child;
  RemoveOutcome answer = co_await protocol_.remove(ctx, directory, name, is_directory, victim);
  // A removed directory keeps its cached attributes: the server cannot return them to fstat(2) any more.
  if (!is_directory) attributes_.expire(victim);
  if (!answer.changed) {
    if (answer.directory) co_await attributes_.record(directory, *answer.directory);
    const Error& error = answer.changed.error();
    if (!answer.fate.answered || leaves_doubt(error, answer.fate.repeated)) name_in_doubt(directory, name);
    co_return fail(attributes_.gone(directory, error));
  }
  if (!*answer.changed) {
    name_in_doubt(directory, name);
    co_return Result<>{};
  }
  const NameBelief belief = co_await record_own_change(directory, **answer.changed, answer.fate.order);
  table_.names().put(*directory.get(), name, nullptr, belief);
  co_return Result<>{};
}

Task<Result<>> NameService::rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                             NodeRef to_directory, std::string to) {
  const bool one_directory = from_directory == to_directory;
  const Moving known = moving(from_directory, from, to_directory, to);
  NodeRef victim;
  if (known.replaced != known.moved) victim = known.replaced;
  RenameOutcome answer = co_await protocol_.rename(ctx, from_directory, from, to_directory, to, victim);
  expire_moved(known);
  if (!answer.changed) {
    if (answer.from) co_await attributes_.record(from_directory, *answer.from);
    if (answer.to && !one_directory) co_await attributes_.record(to_directory, *answer.to);
    const Error error = answer.changed.error();
    if (!answer.fate.answered || leaves_doubt(error, answer.fate.repeated)) {
      name_in_doubt(from_directory, from);
      name_in_doubt(to_directory, to);
    }
    if (answer.fate.repeated && known.moved && error.is_status(nfs4::NFS4ERR_NOENT)) {
      // If the moved file has the new name, the server executed the RENAME before its answer was lost.
      const Result<Entry> now = co_await lookup_on_server(ctx, to_directory, to);
      if (now && now->node == known.moved) co_return Result<>{};
    }
    co_return fail(attributes_.gone(to_directory, attributes_.gone(from_directory, error)));
  }
  const NameBelief to_belief =
      co_await record_own_change(to_directory, answer.changed->to, answer.fate.order);
  NameBelief from_belief = to_belief;
  if (!one_directory)
    from_belief = co_await record_own_change(from_directory, answer.changed->from, answer.fate.order);
  names_moved(known, from_directory, from, from_belief, to_directory, to, to_belief);
  co_return Result<>{};
}

Task<Result<Entry>> NameService::link_on_server(RequestContext ctx, NodeRef node, NodeRef directory,
                                                std::string name) {
  NFSRDMA_CO_TRY(check_new_name(name, protocol_.limits_of(directory).name_max, "LINK"));
  NameToBe to_be(*this, directory, name);
  LinkOutcome answer = co_await protocol_.link(ctx, node, directory, name);
  if (!answer.changed) {
    const Error error = answer.changed.error();
    if (!answer.fate.answered) {
      attributes_.expire(node);  // the server may have executed it
      co_return fail(error);
    }
    if (answer.directory) co_await attributes_.record(directory, *answer.directory);
    to_be.refused(error, answer.fate.repeated);
    if (answer.fate.repeated && error.is_status(nfs4::NFS4ERR_EXIST)) {
      to_be.in_doubt();
      Result<Entry> there = co_await lookup_on_server(ctx, directory, name);
      if (there && there->node == node) co_return there;
    }
    co_return fail(attributes_.gone(directory, attributes_.gone(node, error)));
  }
  const NameBelief belief = co_await record_own_change(directory, *answer.changed, answer.fate.order);
  to_be.made(*node.get(), belief);
  // The link exists, even if this fails.
  (void)co_await attributes_.record_or_fetch(ctx, node, answer.node);
  co_return attributes_.cached_entry(node, entry_ttl(directory, belief));
}

Task<Result<>> NameService::read_entries(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus) {
  const TimePoint since = Clock::now();
  listing.filled = false;
  Result<ListOutcome> answer = co_await protocol_.list(ctx, listing, cookie, plus);
  if (!answer) co_return fail(attributes_.gone(listing.node, std::move(answer.error())));
  co_return co_await take_list(listing, std::move(*answer), cookie, since);
}

Task<Result<uint32_t>> NameService::ask_access_and_list(RequestContext ctx, Listing& listing, uint32_t wanted,
                                                        bool plus) {
  if (!protocol_.lists_with_access()) co_return co_await access_.ask(ctx, listing.node, wanted);
  const TimePoint since = Clock::now();
  listing.filled = false;
  // Ask for the ACL even if it is known: a directory is usually listed because it has changed.
  const bool with_acl = options_.many_users && options_.server_acls &&
                        attributes_.all_may_search(AttributeService::known_attributes(listing.node));
  Result<ListOutcome> answer = co_await protocol_.list_with_access(ctx, listing, plus, with_acl);
  if (!answer) co_return fail(attributes_.gone(listing.node, std::move(answer.error())));
  const AccessBits bits = answer->access.value_or(AccessBits{});
  const std::optional<AclOutcome> acl = answer->acl;
  // An error of READDIR is returned to the caller that reads the directory.
  (void)co_await take_list(listing, std::move(*answer), 0, since);
  const uint32_t allowed = access_.note_access(ctx, cached_node(listing.node), bits);
  if (acl) access_.note_acl(listing.node, *acl);
  co_return allowed& wanted;
}

Task<Result<>> NameService::take_list(Listing& listing, ListOutcome answer, uint64_t cookie,
                                      TimePoint since) {
  NameBelief belief{since, 0, answer.directory.order};
  co_await attributes_.record(listing.node, answer.directory);
  if (answer.names_change) belief.epoch = names_epoch(listing.node, *answer.names_change);
  if (cookie == 0) listing.change = answer.names_change.value_or(0);
  if (!answer.read) co_return fail(std::move(answer.read.error()));
  listing.verifier = answer.verifier;
  co_return listing.answer(cookie, answer.plus, std::move(answer.entries), answer.eof, belief);
}

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// LOOKUP, READLINK, MKDIR, SYMLINK, MKNOD, LINK, REMOVE, RMDIR, RENAME (RFC 1813 sections 3.3.3 to 3.3.15).
//
// A call that is sent again after a lost connection may be executed twice if the server's duplicate request
// cache has lost it (RFC 1813 section 4.5). Then EXIST or NOENT may be caused by our own call. As with the
// kernel's client, the application gets the server's answer.
#include <fcntl.h>

#include <cerrno>

#include "client/core/names/valid_name.h"
#include "client/nfs3/nfs3_client.h"

namespace nfsrdma::client::nfs3 {
namespace {

// libnfs 4.0 encodes SYMLINK's call into a buffer of 4 KiB. With the longest handle, name and credential,
// this much is left for the target. Longer targets may still fit.
constexpr size_t kSureTarget = 3072;

}  // namespace

Result<> Nfs3Filesystem::check_new_name(const std::string& name, const char* op) const {
  if (!valid_name(name)) return fail(system_error(EINVAL, op));
  if (name.size() > limits_.name_max) return fail(system_error(ENAMETOOLONG, op));
  return {};
}

Task<Result<NodeRef>> Nfs3Filesystem::object(RequestContext ctx, const nfs3::ObjectAnswer& answer,
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

Task<Result<Entry>> Nfs3Filesystem::lookup_on_server(RequestContext ctx, NodeRef directory,
                                                     std::string name) {
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

Task<Result<std::string>> Nfs3Filesystem::readlink(RequestContext ctx, NodeRef node) {
  auto asking = server_.readlink(ctx.credential, fh_of(node));
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(failed(node, answer->status, "READLINK"));
  if (answer->target.empty()) co_return fail(system_error(EIO, "READLINK", "the target is not a path"));
  if (answer->target.size() >= 4096) co_return fail(system_error(ENAMETOOLONG, "READLINK"));
  co_return std::move(answer->target);
}

Task<Result<Entry>> Nfs3Filesystem::created(RequestContext ctx, NodeRef directory, std::string name,
                                            Result<nfs3::ObjectAnswer> answer, uint64_t order, const char* op,
                                            Cause cause) {
  NameService::NameToBe to_be(names_, directory, name);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) {
    co_await note(directory, answer->directory.after, order, Cause::kAsked);
    Error error = failed(directory, answer->status, op);
    to_be.refused(error, false);
    co_return fail(std::move(error));
  }
  const NameBelief belief = co_await note_change(directory, answer->directory, order);
  if (answer->handle.empty()) {
    // Section 3.3.8: the server may omit the handle; then LOOKUP fetches it.
    to_be.in_doubt();
    auto there = co_await lookup_on_server(ctx, directory, name);
    if (there && !there->node) co_return fail(system_error(ENOENT, op, "removed as soon as it was made"));
    co_return there;
  }
  auto node = co_await object(ctx, *answer, order, cause);
  if (!node) co_return fail(std::move(node.error()));
  to_be.made(*node->get(), belief);
  co_return attributes_.cached_entry(*node, names_.entry_ttl(directory, belief));
}

Task<Result<Entry>> Nfs3Filesystem::mknod(RequestContext ctx, NodeRef directory, std::string name,
                                          uint32_t mode, uint32_t rdev_major, uint32_t rdev_minor) {
  if (S_ISREG(mode)) {
    // CREATE creates a regular file; the descriptor is released at once.
    auto made = co_await create(ctx, directory, std::move(name), mode & 07777, O_WRONLY | O_CREAT | O_EXCL);
    if (!made) co_return fail(std::move(made.error()));
    co_await release(ctx, made->open.file);
    co_return std::move(made->entry);
  }
  NFSRDMA_CO_TRY(check_new_name(name, "MKNOD"));
  const uint64_t order = nodes_.next_start();
  auto asking = server_.mknod(caller_of(ctx), fh_of(directory), name, mode, rdev_major, rdev_minor);
  auto answer = co_await std::move(asking);
  co_return co_await created(ctx, directory, name, std::move(answer), order, "MKNOD", Cause::kAsked);
}

Task<Result<Entry>> Nfs3Filesystem::mkdir(RequestContext ctx, NodeRef directory, std::string name,
                                          uint32_t mode) {
  NFSRDMA_CO_TRY(check_new_name(name, "MKDIR"));
  const uint64_t order = nodes_.next_start();
  auto asking = server_.mkdir(caller_of(ctx), fh_of(directory), name, mode);
  auto answer = co_await std::move(asking);
  co_return co_await created(ctx, directory, name, std::move(answer), order, "MKDIR", Cause::kAsked);
}

Task<Result<Entry>> Nfs3Filesystem::symlink(RequestContext ctx, NodeRef directory, std::string name,
                                            std::string target) {
  NFSRDMA_CO_TRY(check_new_name(name, "SYMLINK"));
  const uint64_t order = nodes_.next_start();
  const bool sure = target.size() <= kSureTarget;
  auto asking = server_.symlink(caller_of(ctx), fh_of(directory), name, std::move(target));
  auto answer = co_await std::move(asking);
  if (!answer && !sure && answer.error().layer == Layer::kRpc) answer.error().errnum = ENAMETOOLONG;
  co_return co_await created(ctx, directory, name, std::move(answer), order, "SYMLINK", Cause::kAsked);
}

Task<Result<Entry>> Nfs3Filesystem::link(RequestContext ctx, NodeRef node, NodeRef directory,
                                         std::string name) {
  NFSRDMA_CO_TRY(check_new_name(name, "LINK"));
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

Task<Result<>> Nfs3Filesystem::remove_on_server(RequestContext ctx, NodeRef directory, std::string name,
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

Task<Result<>> Nfs3Filesystem::rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
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

// SPDX-License-Identifier: Apache-2.0
// READLINK, MKDIR, SYMLINK, MKNOD, and what follows CREATE (RFC 1813 sections 3.3.5, 3.3.8 to 3.3.11).
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
    AnsweredAttributes after = protocol_.answered(answer->directory.after, order);
    co_await attributes_.record(directory, after);
    Error error = failed(directory, answer->status, op);
    to_be.refused(error, false);
    co_return fail(std::move(error));
  }
  DirectoryChange change = protocol_.change_of(answer->directory);
  const NameBelief belief = co_await names_.record_own_change(directory, change, order);
  if (answer->handle.empty()) {
    // Section 3.3.8: the server may omit the handle; then LOOKUP fetches it.
    to_be.in_doubt();
    auto there = co_await names_.lookup_on_server(ctx, directory, name);
    if (there && !there->node) co_return fail(system_error(ENOENT, op, "removed as soon as it was made"));
    co_return there;
  }
  const NodeRef node = protocol_.object(*answer);
  AnsweredAttributes attributes = protocol_.answered(answer->object, order, cause);
  NFSRDMA_CO_TRY(co_await attributes_.record_or_fetch(ctx, node, attributes));
  to_be.made(*node.get(), belief);
  co_return attributes_.cached_entry(node, names_.entry_ttl(directory, belief));
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
  NFSRDMA_CO_TRY(check_new_name(name, protocol_.limits().name_max, "MKNOD"));
  const uint64_t order = nodes_.next_start();
  auto asking = server_.mknod(caller_of(ctx), fh_of(directory), name, mode, rdev_major, rdev_minor);
  auto answer = co_await std::move(asking);
  co_return co_await created(ctx, directory, name, std::move(answer), order, "MKNOD", Cause::kAsked);
}

Task<Result<Entry>> Nfs3Filesystem::mkdir(RequestContext ctx, NodeRef directory, std::string name,
                                          uint32_t mode) {
  NFSRDMA_CO_TRY(check_new_name(name, protocol_.limits().name_max, "MKDIR"));
  const uint64_t order = nodes_.next_start();
  auto asking = server_.mkdir(caller_of(ctx), fh_of(directory), name, mode);
  auto answer = co_await std::move(asking);
  co_return co_await created(ctx, directory, name, std::move(answer), order, "MKDIR", Cause::kAsked);
}

Task<Result<Entry>> Nfs3Filesystem::symlink(RequestContext ctx, NodeRef directory, std::string name,
                                            std::string target) {
  NFSRDMA_CO_TRY(check_new_name(name, protocol_.limits().name_max, "SYMLINK"));
  const uint64_t order = nodes_.next_start();
  const bool sure = target.size() <= kSureTarget;
  auto asking = server_.symlink(caller_of(ctx), fh_of(directory), name, std::move(target));
  auto answer = co_await std::move(asking);
  if (!answer && !sure && answer.error().layer == Layer::kRpc) answer.error().errnum = ENAMETOOLONG;
  co_return co_await created(ctx, directory, name, std::move(answer), order, "SYMLINK", Cause::kAsked);
}

}  // namespace nfsrdma::client::nfs3

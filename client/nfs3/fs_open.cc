// SPDX-License-Identifier: Apache-2.0
// Open, create, close (RFC 1813 sections 3.3.4, 3.3.8, 4.11), with close-to-open consistency.
//
// The protocol has no OPEN. open(2) sends ACCESS: it returns the caller's permission, and the attributes that
// decide whether the kernel's pages are valid. close(2) puts written data on the server's disk. The
// permission is checked only at open: READ and WRITE use the opener's credential, and servers let a file's
// owner read and write whatever the mode says by then.
#include <fcntl.h>

#include <cerrno>
#include <random>

#include "client/core/names/valid_name.h"
#include "client/nfs3/nfs3_client.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs3 {
namespace {

uint64_t random_verifier() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return random();
}

}  // namespace

OpenFileRef Nfs3Filesystem::make_open(const NodeRef& node, const std::shared_ptr<Nfs3FileState>& file,
                                      const RequestContext& ctx, int flags) const {
  {
    MutexLock lock(nfs3_node(node).mutex);
    ++file->openers;
  }
  return std::make_shared<Nfs3File>(node, file, ctx.credential, CachedOpen::access_of(flags),
                                    synchronous(flags));
}

Task<Result<OpenReply>> Nfs3Filesystem::open(RequestContext ctx, NodeRef node, int flags) {
  // The server must have our writes before it returns the file's attributes.
  co_await write_back_.settle_node(node);
  OpenReply reply;
  const std::shared_ptr<Nfs3FileState> file = files_.pin(nfs3_node(node));
  auto allowed = co_await access_.ask(ctx, node, kEveryAccess, Cause::kOpened, &reply.keep_cache);
  Result<> done;
  if (!allowed) {
    done = fail(std::move(allowed.error()));
  } else if (!AccessService::suffices(*allowed, flags)) {
    done = fail(system_error(EACCES, "ACCESS"));
  } else {
    reply.file = make_open(node, file, ctx, flags);
  }
  files_.unpin(nfs3_node(node));
  if (!done) co_return fail(std::move(done.error()));
  if (!options_.close_to_open) reply.keep_cache = true;
  {
    MutexLock lock(nfs3_node(node).mutex);
    reply.size_is_news = attributes_.size_is_news(nfs3_node(node));
  }
  co_return reply;
}

Task<Result<CreateReply>> Nfs3Filesystem::create(RequestContext ctx, NodeRef directory, std::string name,
                                                 uint32_t mode, int flags) {
  NFSRDMA_CO_TRY(check_new_name(name, protocol_.limits().name_max, "CREATE"));
  // Without O_EXCL this sends GUARDED, while the kernel's client sends UNCHECKED: if the file exists, its own
  // permissions must be checked (open_existing()).
  std::optional<uint64_t> exclusive;
  if ((flags & O_EXCL) != 0) exclusive = random_verifier();
  uint64_t order = nodes_.next_start();
  auto asking = server_.create(caller_of(ctx), fh_of(directory), name, exclusive, mode);
  auto answer = co_await std::move(asking);
  if (answer && exclusive && answer->status == nfs3::NFS3ERR_NOTSUPP_) {
    exclusive.reset();
    order = nodes_.next_start();
    asking = server_.create(caller_of(ctx), fh_of(directory), name, exclusive, mode);
    answer = co_await std::move(asking);
  }
  const bool there = answer && answer->status == nfs3::NFS3ERR_EXIST_;
  if (there && (flags & O_EXCL) == 0) co_return co_await open_existing(ctx, directory, name, flags);
  auto entry = co_await created(ctx, directory, name, std::move(answer), order, "CREATE", Cause::kCreated);
  if (!entry) co_return fail(std::move(entry.error()));
  const NodeRef node = entry->node;
  if (exclusive) NFSRDMA_CO_TRY(co_await finish_exclusive(ctx, node, mode));
  CreateReply reply;
  const std::shared_ptr<Nfs3FileState> file = files_.pin(nfs3_node(node));
  reply.open.file = make_open(node, file, ctx, flags);
  files_.unpin(nfs3_node(node));
  reply.entry = attributes_.cached_entry(node, entry->entry_ttl);
  co_return reply;
}

Task<Result<>> Nfs3Filesystem::finish_exclusive(RequestContext ctx, NodeRef node, uint32_t mode) {
  // The server stores the verifier in the times.
  SetAttributes set;
  set.mode = mode & 07777;
  set.atime = set.mtime = SetAttributes::Time{true, {}};
  const uint64_t order = nodes_.next_start();
  auto asking = server_.setattr(ctx.credential, fh_of(node), set);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(failed(node, answer->status, "SETATTR"));
  AnsweredAttributes after = protocol_.answered_own(answer->wcc, order);
  co_await attributes_.record(node, after);
  co_return Result<>{};
}

Task<Result<CreateReply>> Nfs3Filesystem::open_existing(RequestContext ctx, NodeRef directory,
                                                        std::string name, int flags) {
  auto there = co_await names_.lookup_on_server(ctx, directory, name);
  if (!there) co_return fail(std::move(there.error()));
  // Removed meanwhile: the kernel repeats the path walk and asks again.
  if (!there->node) co_return fail(system_error(ESTALE, "CREATE"));
  const uint32_t type = there->attributes.mode & S_IFMT;
  if (type == S_IFDIR) co_return fail(system_error(EISDIR, "CREATE"));
  if (type == S_IFLNK) co_return fail(system_error(ELOOP, "CREATE"));
  CreateReply reply;
  auto opened = co_await open(ctx, there->node, flags);
  if (!opened) co_return fail(std::move(opened.error()));
  reply.open = *opened;
  if ((flags & O_TRUNC) != 0) {
    SetAttributes set;
    set.size = 0;
    auto cut = co_await setattr(ctx, there->node, set, reply.open.file);
    if (!cut) {
      co_await release(ctx, reply.open.file);
      co_return fail(std::move(cut.error()));
    }
  }
  reply.entry = attributes_.cached_entry(there->node, there->entry_ttl);
  co_return reply;
}

Task<Result<>> Nfs3Filesystem::flush(RequestContext, OpenFileRef open, uint64_t) {
  CachedOpen& handle = cached_open(open);
  if ((handle.access & CachedOpen::kWrite) == 0) co_return Result<>{};
  bool dirty = false;
  {
    MutexLock lock(nfs3_node(handle.node).mutex);
    dirty = handle.cached->unsaved();
  }
  if (dirty) co_await write_back_.write_back(handle.node, handle.cached);
  co_return WriteBack::unreported_error(handle);
}

Task<> Nfs3Filesystem::release(RequestContext, OpenFileRef open) {
  CachedOpen& handle = cached_open(open);
  const NodeRef node = handle.node;
  const auto file = std::static_pointer_cast<Nfs3FileState>(handle.cached);
  const HiddenRemovals::Pending closing = removals_.perhaps_last_close(*file);
  bool unsaved = false;
  {
    MutexLock lock(nfs3_node(node).mutex);
    unsaved = file->unsaved();
  }
  // flush() has reported the errors, except those of later writes through a mapping.
  if (unsaved && (handle.access & CachedOpen::kWrite) != 0) co_await write_back_.write_back(node, file);
  {
    MutexLock lock(nfs3_node(node).mutex);
    if (file->openers != 0) --file->openers;
  }
  co_await removals_.remove_if_hidden(node, file);
  files_.drop_if_unused(nfs3_node(node));
}

namespace {

Error no_locks() {
  return system_error(ENOLCK, "LOCK",
                      "locks of an NFSv3 mount are kept by the kernel, for this machine alone");
}

}  // namespace

Task<Result<Lock>> Nfs3Filesystem::getlk(RequestContext, OpenFileRef, uint64_t, Lock) {
  co_return fail(no_locks());
}

Task<Result<>> Nfs3Filesystem::setlk(RequestContext, OpenFileRef, uint64_t, Lock lock, bool) {
  if (lock.type == LockType::kUnlock) co_return Result<>{};
  co_return fail(no_locks());
}

Task<Result<>> Nfs3Filesystem::flock(RequestContext, OpenFileRef, uint64_t, LockType type, bool) {
  if (type == LockType::kUnlock) co_return Result<>{};
  co_return fail(no_locks());
}

}  // namespace nfsrdma::client::nfs3

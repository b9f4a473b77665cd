// SPDX-License-Identifier: Apache-2.0
// open, create, read, write, flush, fsync, release.
//
// Open files are FileHandles (handle_table.h). O_DIRECT needs nothing here: the kernel sends such reads and
// writes past its page cache by itself and keeps the cache coherent. FOPEN_DIRECT_IO would only forbid shared
// mappings.
#include <fcntl.h>

#include <cerrno>

#include "fuse/adaptor.h"
#include "fuse/operations.h"

namespace nfsrdma::fuse {

using namespace client;

namespace {

fuse_file_info file_info(uint64_t fh, bool keep_cache) {
  fuse_file_info fi{};
  fi.fh = fh;
  fi.keep_cache = keep_cache ? 1 : 0;
  return fi;
}

Task<> open(Adaptor& a, FuseRequest request, NodeRef node, int flags) {
  RequestContext ctx = a.context(request);
  rpc::CredentialPtr credential = ctx.credential;
  const Opening opening{request.caller().tid, credential, flags};
  std::optional<OpenReply> kept;
  const std::optional<TimePoint> repeated = a.repeated_opens.take(opening, node, kept);
  Result<OpenReply> reply = OpenReply{};
  if (kept) {
    a.inodes.size_doubts().end(*node.get(), *repeated);
    reply = std::move(*kept);
  } else {
    auto call = a.filesystem.open(std::move(ctx), node, flags);
    reply = co_await std::move(call);
    const bool unknown = reply && (reply->size_is_news || a.inodes.size_doubts().about(*node.get()));
    const bool again = unknown || (!reply && reply.error().errnum == ESTALE);
    if (again && !repeated && opening.thread != 0 && !request.answered()) {
      if (unknown) {
        // Send the notice before the kernel asks for the size; otherwise it would ignore the attributes of
        // the answer.
        auto dropped = a.front_end->drop_data(node);
        co_await std::move(dropped);
      }
      a.repeated_opens.expect(opening, node, reply);
      co_return request.error(ESTALE);
    }
  }
  if (!reply) co_return request.fail(reply.error());
  if (!request.answered()) {
    const uint64_t fh = a.files.add(FileUse{reply->file, credential});
    if (request.opened(file_info(fh, reply->keep_cache))) co_return;
    a.files.take(fh);
  }
  // The kernel did not take the file handle, so no RELEASE will come.
  request.counters().undone.add();
  auto release = a.filesystem.release(Adaptor::context(credential), reply->file);
  co_await std::move(release);
}

Task<> create(Adaptor& a, FuseRequest request, NodeRef directory, std::string name, mode_t mode, int flags) {
  RequestContext ctx = a.changing(request);
  rpc::CredentialPtr credential = ctx.credential;
  auto call = a.filesystem.create(std::move(ctx), directory, name, mode, flags);
  const Result<CreateReply> reply = co_await std::move(call);
  a.changed(request, directory, name);
  if (!reply) co_return request.fail(reply.error());
  if (!request.answered()) {
    const uint64_t fh = a.files.add(FileUse{reply->open.file, credential});
    const fuse_entry_param e = a.entry_param(reply->entry);
    a.inodes.add_lookup(reply->entry.node);
    if (request.created(e, file_info(fh, reply->open.keep_cache))) co_return;
    a.inodes.take_back(reply->entry.node);
    a.files.take(fh);
  }
  request.counters().undone.add();
  auto release = a.filesystem.release(Adaptor::context(credential), reply->open.file);
  co_await std::move(release);
}

Task<> read(Adaptor& a, FuseRequest request, FileUse use, uint64_t offset, size_t size, bool direct) {
  RequestContext ctx = Adaptor::context(use.credential, request);
  ctx.direct = direct;
  auto call = a.filesystem.read(std::move(ctx), use.file, offset, size);
  Result<ReadReply> reply = co_await std::move(call);
  if (!reply) co_return request.fail(reply.error());
  const size_t n = std::min(size, reply->size);
  request.has_read(n);
  request.data(std::move(reply->data), n, a.pool);
}

// How the data is written.
struct Mode {
  bool direct = false, append = false;
};

Task<> write(Adaptor& a, FuseRequest request, FileUse use, uint64_t offset, Slice data, Mode mode) {
  const size_t size = data.size();
  RequestContext ctx = Adaptor::context(use.credential, request);
  ctx.direct = mode.direct;
  ctx.append = mode.append;
  ctx.cancellation = request.make_cancellable(false);
  auto call = a.filesystem.write(std::move(ctx), use.file, offset, std::move(data));
  const Result<> result = co_await std::move(call);
  if (!result) co_return request.fail(result.error());
  request.has_written(size);
  request.written(size);
}

// Replies with the file's write error, which is reported once. A request that was answered early must not
// consume it, and of two concurrent requests only one gets it.
void tell_error(Adaptor& a, FuseRequest& request, const FileUse& use) {
  if (request.answered()) return;
  const std::optional<Error> error = a.filesystem.take_error(use.file);
  if (!error) return request.ok();
  request.fail(*error);
}

Task<> flush(Adaptor& a, FuseRequest request, FileUse use, uint64_t lock_owner) {
  auto call = a.filesystem.flush(Adaptor::context(use.credential), use.file, lock_owner);
  const Result<> result = co_await std::move(call);
  if (!result) co_return tell_error(a, request, use);
  request.ok();
}

Task<> fsync(Adaptor& a, FuseRequest request, FileUse use, bool data_only) {
  auto call = a.filesystem.fsync(Adaptor::context(use.credential), use.file, data_only);
  const Result<> result = co_await std::move(call);
  if (!result) co_return tell_error(a, request, use);
  request.ok();
}

Task<> release(Adaptor& a, FuseRequest request, std::unique_ptr<FileHandle> handle) {
  const FileUse use = handle->use();
  handle.reset();
  auto call = a.filesystem.release(Adaptor::context(use.credential), use.file);
  co_await std::move(call);
  request.ok();  // no application waits; the kernel only counts the reply
}

void op_open(fuse_req_t req, fuse_ino_t ino, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kOpen, {ino}, [&](Adaptor& a, FuseRequest r) {
    return open(a, std::move(r), a.inodes.node(ino), fi->flags);
  });
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kCreate, {parent, name}, [&](Adaptor& a, FuseRequest r) {
    return create(a, std::move(r), a.inodes.node(parent), name, mode, fi->flags);
  });
}

// The descriptor's current flags: fcntl(2) may have changed them.
bool is_direct(const fuse_file_info* fi) {
  return (fi->flags & O_DIRECT) != 0;
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kRead, {ino, nullptr, static_cast<uint64_t>(off), size},
               [&](Adaptor& a, FuseRequest r) {
                 return read(a, std::move(r), use_of(fi->fh), static_cast<uint64_t>(off), size,
                             is_direct(fi));
               });
}

Task<> refuse(FuseRequest request, int errnum) {
  request.error(errnum);
  co_return;
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char*, size_t size, off_t off, fuse_file_info* fi) {
  Adaptor::run(
      req, Operation::kWrite, {ino, nullptr, static_cast<uint64_t>(off), size},
      [&](Adaptor& a, FuseRequest r) {
        Slice data = a.here().reader->take_payload(size);
        if (!data.buffer) return refuse(std::move(r), ENOMEM);
        // Pages that the kernel writes back have their own offset, even of an O_APPEND file.
        const Mode mode{.direct = is_direct(fi), .append = (fi->flags & O_APPEND) != 0 && fi->writepage == 0};
        return write(a, std::move(r), use_of(fi->fh), static_cast<uint64_t>(off), std::move(data), mode);
      });
}

void op_flush(fuse_req_t req, fuse_ino_t ino, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kFlush, {ino}, [&](Adaptor& a, FuseRequest r) {
    return flush(a, std::move(r), use_of(fi->fh), fi->lock_owner);
  });
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kFsync, {ino}, [&](Adaptor& a, FuseRequest r) {
    return fsync(a, std::move(r), use_of(fi->fh), data_only != 0);
  });
}

void op_release(fuse_req_t req, fuse_ino_t ino, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kRelease, {ino},
               [&](Adaptor& a, FuseRequest r) { return release(a, std::move(r), a.files.take(fi->fh)); });
}

}  // namespace

void add_file_operations(fuse_lowlevel_ops& ops) {
  ops.open = op_open;
  ops.create = op_create;
  ops.read = op_read;
  ops.write = op_write;
  ops.flush = op_flush;
  ops.fsync = op_fsync;
  ops.release = op_release;
}

}  // namespace nfsrdma::fuse

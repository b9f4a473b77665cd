// SPDX-License-Identifier: Apache-2.0
// opendir, readdir, readdirplus, releasedir, fsyncdir.
//
// The reply buffer is as large as the kernel asks (a page on older kernels). Entries that do not fit are left
// out, and the kernel asks for them again by offset. So only entries that are really sent are counted as
// looked up.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fuse/adaptor.h"
#include "fuse/operations.h"

namespace nfsrdma::fuse {

using namespace client;

namespace {

constexpr size_t kMaxListing = 1u << 20;

Task<> release(Filesystem& filesystem, OpenDirectoryRef directory) {
  auto call = filesystem.releasedir(std::move(directory));
  co_await std::move(call);
}

// Some programs (df) only open the mount point to see whether it is there. While the server is silent this
// returns no directory; it is opened when somebody reads it.
Task<Result<OpenDirectoryReply>> open_root(Adaptor& a, RequestContext ctx, NodeRef node) {
  const rpc::CredentialPtr who = ctx.credential;
  Filesystem& filesystem = a.filesystem;
  auto call = filesystem.opendir(std::move(ctx), std::move(node));
  auto asking = a.root_opening.ask(
      std::move(call), [&a] { return a.heard(); },
      [&a, who]() -> std::optional<OpenDirectoryReply> {
        if (!a.root_access_by_mode(*who, R_OK).value_or(false)) return std::nullopt;
        return OpenDirectoryReply{};
      },
      [&filesystem](const OpenDirectoryReply& late) {
        Loop::current()->spawn(release(filesystem, late.directory));
      });
  Result<OpenDirectoryReply> reply = co_await std::move(asking);
  co_return reply;
}

Task<> opendir(Adaptor& a, FuseRequest request, NodeRef node, bool root) {
  RequestContext ctx = a.context(request);
  rpc::CredentialPtr credential = ctx.credential;
  auto call = root ? open_root(a, std::move(ctx), node) : a.filesystem.opendir(std::move(ctx), node);
  const Result<OpenDirectoryReply> reply = co_await std::move(call);
  if (!reply) co_return request.fail(reply.error());
  if (!request.answered()) {
    fuse_file_info fi{};
    DirectoryHandle handle{reply->directory, credential};
    if (!handle.directory) handle.late = std::make_shared<LateDirectory>(std::move(node));
    fi.fh = a.directories.add(std::move(handle));
    // The kernel keeps the listing in its page cache. It drops the listing at every opendir without
    // keep_cache, and when it changes the directory itself.
    fi.cache_readdir = 1;
    fi.keep_cache = reply->keep_cache ? 1 : 0;
    if (request.opened(fi)) co_return;
    a.directories.take(fi.fh);
  }
  request.counters().undone.add();
  if (!reply->directory) co_return;
  auto releasing = release(a.filesystem, reply->directory);
  co_await std::move(releasing);
}

// For a handle whose directory is not opened yet, opens it and so waits for the server.
Task<Result<OpenDirectoryRef>> directory_of(Adaptor& a, DirectoryHandle handle) {
  if (!handle.late) co_return handle.directory;
  auto locking = handle.late->mutex.lock();
  const AsyncMutex::Guard guard = co_await std::move(locking);
  if (!handle.late->directory) {
    auto call = a.filesystem.opendir(Adaptor::context(handle.credential), handle.late->node);
    Result<OpenDirectoryReply> reply = co_await std::move(call);
    if (!reply) co_return fail(std::move(reply.error()));
    handle.late->directory = reply->directory;
  }
  co_return handle.late->directory;
}

bool is_dot(const std::string& name) {
  return name == "." || name == "..";
}

// Writes the directory entries of one reply and remembers which Nodes it hands out.
class Listing {
 public:
  Listing(Adaptor& a, Slice space, bool plus) : adaptor_(a), space_(std::move(space)), plus_(plus) {}

  // False when it does not fit.
  bool add(const DirectoryEntry& e) {
    char* at = reinterpret_cast<char*>(space_.bytes.data()) + used_;
    const size_t left = space_.size() - used_;
    const auto next = static_cast<off_t>(e.next);
    size_t n = 0;
    bool counted = false;
    if (plus_) {
      fuse_entry_param param{};
      // The kernel takes no lookup for "." and "..", so they never carry a node.
      counted = e.entry && e.entry->node && !is_dot(e.name);
      if (counted) {
        param = adaptor_.entry_param(*e.entry);
      } else {
        param.attr.st_ino = e.ino;
        param.attr.st_mode = e.type;
      }
      n = fuse_add_direntry_plus(nullptr, at, left, e.name.c_str(), &param, next);
    } else {
      struct stat st {};
      st.st_ino = e.ino;
      st.st_mode = e.type;
      n = fuse_add_direntry(nullptr, at, left, e.name.c_str(), &st, next);
    }
    if (n > left) return false;
    used_ += n;
    if (counted) {
      adaptor_.inodes.add_lookup(e.entry->node);
      nodes_.push_back(e.entry->node);
    }
    return true;
  }

  void answer(FuseRequest& request) {
    const std::span<const char> data(reinterpret_cast<const char*>(space_.bytes.data()), used_);
    if (request.bytes(data)) return;
    if (!nodes_.empty()) request.counters().undone.add();
    for (const NodeRef& node : nodes_) adaptor_.inodes.take_back(node);
  }

 private:
  Adaptor& adaptor_;
  Slice space_;
  const bool plus_;
  size_t used_ = 0;
  std::vector<NodeRef> nodes_;
};

Task<> readdir(Adaptor& a, FuseRequest request, DirectoryHandle handle, uint64_t offset, size_t bytes,
               bool plus) {
  auto opening = directory_of(a, handle);
  const Result<OpenDirectoryRef> directory = co_await std::move(opening);
  if (!directory) co_return request.fail(directory.error());
  auto call = a.filesystem.readdir(Adaptor::context(handle.credential), *directory, offset, bytes, plus);
  const Result<DirectoryPage> page = co_await std::move(call);
  if (!page) co_return request.fail(page.error());
  if (request.answered()) co_return;
  Slice space = a.pool.slice(bytes);
  if (!space.buffer) co_return request.error(ENOMEM);
  Listing listing(a, std::move(space), plus);
  bool first = true;
  for (const DirectoryEntry& e : page->entries) {
    if (!listing.add(e)) {
      // An empty reply would mean the end of the directory.
      if (first) co_return request.error(EINVAL);
      break;
    }
    first = false;
  }
  listing.answer(request);
}

Task<> releasedir(Adaptor& a, FuseRequest request, std::unique_ptr<DirectoryHandle> handle) {
  auto releasing = Adaptor::release_directory(a.filesystem, std::move(handle));
  co_await std::move(releasing);
  request.ok();
}

Task<> fsyncdir(Adaptor& a, FuseRequest request, DirectoryHandle handle) {
  auto opening = directory_of(a, handle);
  const Result<OpenDirectoryRef> directory = co_await std::move(opening);
  if (!directory) co_return request.fail(directory.error());
  auto call = a.filesystem.fsyncdir(Adaptor::context(handle.credential), *directory);
  const Result<> result = co_await std::move(call);
  if (!result) co_return request.fail(result.error());
  request.ok();
}

DirectoryHandle& directory_of(const fuse_file_info* fi) {
  return HandleTable<DirectoryHandle>::get(fi->fh);
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, fuse_file_info*) {
  Adaptor::run(req, Operation::kOpendir, {ino}, [&](Adaptor& a, FuseRequest r) {
    return opendir(a, std::move(r), a.inodes.node(ino), ino == InodeTable::kRootId);
  });
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kReaddir, {ino}, [&](Adaptor& a, FuseRequest r) {
    return readdir(a, std::move(r), directory_of(fi), static_cast<uint64_t>(off), std::min(size, kMaxListing),
                   false);
  });
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kReaddirplus, {ino}, [&](Adaptor& a, FuseRequest r) {
    return readdir(a, std::move(r), directory_of(fi), static_cast<uint64_t>(off), std::min(size, kMaxListing),
                   true);
  });
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kReleasedir, {ino}, [&](Adaptor& a, FuseRequest r) {
    return releasedir(a, std::move(r), a.directories.take(fi->fh));
  });
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kFsyncdir, {ino},
               [&](Adaptor& a, FuseRequest r) { return fsyncdir(a, std::move(r), directory_of(fi)); });
}

}  // namespace

void add_directory_operations(fuse_lowlevel_ops& ops, bool readdirplus) {
  ops.opendir = op_opendir;
  ops.readdir = op_readdir;
  if (readdirplus) ops.readdirplus = op_readdirplus;
  ops.releasedir = op_releasedir;
  ops.fsyncdir = op_fsyncdir;
}

}  // namespace nfsrdma::fuse

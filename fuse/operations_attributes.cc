// SPDX-License-Identifier: Apache-2.0
// getattr, setattr, access, readlink, statfs.
#include <sys/statvfs.h>

#include <cerrno>
#include <optional>

#include "fuse/adaptor.h"
#include "fuse/operations.h"

namespace nfsrdma::fuse {

using namespace client;

namespace {

void answer_attributes(Adaptor& a, FuseRequest& request, const NodeRef& node,
                       const Result<AttributesReply>& reply) {
  if (!reply) return request.fail(reply.error());
  a.inodes.size_doubts().told(*node.get(), request.started());
  request.attributes(a.to_stat(reply->attributes), a.lifetime(reply->ttl));
}

// With an open file the opener's identity is used, as ftruncate(2) on a descriptor demands.
RequestContext context_of(Adaptor& a, const FuseRequest& request, const FileUse& use) {
  return use.file ? Adaptor::context(use.credential, request) : a.context(request);
}

Task<> getattr(Adaptor& a, FuseRequest request, NodeRef node, FileUse use) {
  auto call = a.filesystem.getattr(context_of(a, request, use), node, use.file);
  const Result<AttributesReply> reply = co_await std::move(call);
  answer_attributes(a, request, node, reply);
}

// getattr() of the root. While the server is silent it answers with the last known attributes, which the
// kernel may not cache.
Task<> getattr_root(Adaptor& a, FuseRequest request, NodeRef node) {
  auto call = a.filesystem.getattr(a.context(request), node, nullptr);
  auto asking = a.root_attributes.ask(
      std::move(call), [&a] { return a.heard(); },
      [&a] {
        auto known = a.root_attributes.known();
        if (known) known->ttl = Duration::zero();
        return known;
      });
  const Result<AttributesReply> reply = co_await std::move(asking);
  answer_attributes(a, request, node, reply);
}

Task<> setattr(Adaptor& a, FuseRequest request, NodeRef node, SetAttributes set, FileUse use) {
  RequestContext ctx = context_of(a, request, use);
  ctx.cancellation = request.make_cancellable(false);
  auto call = a.filesystem.setattr(std::move(ctx), node, set, use.file);
  const Result<AttributesReply> reply = co_await std::move(call);
  a.changed(request, node);
  answer_attributes(a, request, node, reply);
}

Task<> access(Adaptor& a, FuseRequest request, NodeRef node, int mask) {
  auto call = a.filesystem.access(a.context(request), std::move(node), mask);
  const Result<> result = co_await std::move(call);
  if (!result) {
    request.fail(result.error());
  } else {
    request.ok();
  }
}

Task<Result<bool>> may_access(Adaptor& a, RequestContext ctx, NodeRef node, int mask) {
  auto call = a.filesystem.access(std::move(ctx), std::move(node), mask);
  const Result<> result = co_await std::move(call);
  if (result) co_return true;
  if (result.error().errnum == EACCES) co_return false;
  co_return fail(result.error());
}

Task<> access_root(Adaptor& a, FuseRequest request, NodeRef node, int mask) {
  RequestContext ctx = a.context(request);
  const rpc::CredentialPtr who = ctx.credential;
  auto call = may_access(a, std::move(ctx), std::move(node), mask);
  auto asking = a.root_access.ask(
      std::move(call), [&a] { return a.heard(); },
      [&a, who, mask] { return a.root_access_by_mode(*who, mask); });
  const Result<bool> allowed = co_await std::move(asking);
  if (!allowed) co_return request.fail(allowed.error());
  request.error(*allowed ? 0 : EACCES);
}

Task<> readlink(Adaptor& a, FuseRequest request, NodeRef node) {
  auto call = a.filesystem.readlink(a.context(request), std::move(node));
  const Result<std::string> target = co_await std::move(call);
  if (!target) {
    request.fail(target.error());
  } else {
    request.link_target(*target);
  }
}

Task<> statfs(Adaptor& a, FuseRequest request, NodeRef node, bool root) {
  auto call = a.filesystem.statfs(a.context(request), std::move(node));
  if (root)
    call = a.root_room.ask(
        std::move(call), [&a] { return a.heard(); }, [&a] { return a.root_room.known(); });
  const Result<FilesystemStatus> status = co_await std::move(call);
  if (!status) co_return request.fail(status.error());
  struct statvfs st {};
  const uint32_t block = status->block_size != 0 ? status->block_size : 4096;
  st.f_bsize = block;
  st.f_frsize = block;
  st.f_blocks = status->total_bytes / block;
  st.f_bfree = status->free_bytes / block;
  st.f_bavail = status->available_bytes / block;
  st.f_files = status->total_files;
  st.f_ffree = status->free_files;
  st.f_favail = status->available_files;
  st.f_namemax = status->name_max;
  request.statfs(st);
}

SetAttributes wanted(const struct stat& attr, int to_set, const UserIds& ids) {
  SetAttributes set;
  if ((to_set & FUSE_SET_ATTR_MODE) != 0) set.mode = attr.st_mode & 07777u;
  if ((to_set & FUSE_SET_ATTR_UID) != 0) set.uid = ids.outer_user(attr.st_uid);
  if ((to_set & FUSE_SET_ATTR_GID) != 0) set.gid = ids.outer_group(attr.st_gid);
  if ((to_set & FUSE_SET_ATTR_SIZE) != 0) set.size = static_cast<uint64_t>(attr.st_size);
  // With ATIME_NOW the kernel sets ATIME, too, with its own clock's time. That time is ignored: the server's
  // counts.
  if ((to_set & FUSE_SET_ATTR_ATIME_NOW) != 0) {
    set.atime = SetAttributes::Time{true, {}};
  } else if ((to_set & FUSE_SET_ATTR_ATIME) != 0) {
    set.atime = SetAttributes::Time{false, attr.st_atim};
  }
  if ((to_set & FUSE_SET_ATTR_MTIME_NOW) != 0) {
    set.mtime = SetAttributes::Time{true, {}};
  } else if ((to_set & FUSE_SET_ATTR_MTIME) != 0) {
    set.mtime = SetAttributes::Time{false, attr.st_mtim};
  }
  return set;
}

FileUse use_of(const fuse_file_info* fi) {
  return fi != nullptr ? HandleTable<FileHandle>::get(fi->fh).use() : FileUse{};
}

void op_getattr(fuse_req_t req, fuse_ino_t ino, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kGetattr, {ino}, [&](Adaptor& a, FuseRequest r) {
    if (ino == InodeTable::kRootId && fi == nullptr) return getattr_root(a, std::move(r), a.inodes.node(ino));
    return getattr(a, std::move(r), a.inodes.node(ino), use_of(fi));
  });
}

bool is_empty(const SetAttributes& s) {
  return !s.mode && !s.uid && !s.gid && !s.size && !s.atime && !s.mtime;
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat* attr, int to_set, fuse_file_info* fi) {
  Adaptor::run(req, Operation::kSetattr, {ino}, [&](Adaptor& a, FuseRequest r) {
    // Nothing is left to set. Such a SETATTR is a chown(-1, -1), or the kernel's attempt to clear set-user-ID
    // bits before a write, which the server does.
    if (is_empty(wanted(*attr, to_set, a.ids)))
      return getattr(a, std::move(r), a.inodes.node(ino), use_of(fi));
    return setattr(a, std::move(r), a.inodes.node(ino), wanted(*attr, to_set, a.ids), use_of(fi));
  });
}

void op_access(fuse_req_t req, fuse_ino_t ino, int mask) {
  Adaptor::run(req, Operation::kAccess, {ino}, [&](Adaptor& a, FuseRequest r) {
    if (ino == InodeTable::kRootId) return access_root(a, std::move(r), a.inodes.node(ino), mask);
    return access(a, std::move(r), a.inodes.node(ino), mask);
  });
}

void op_readlink(fuse_req_t req, fuse_ino_t ino) {
  Adaptor::run(req, Operation::kReadlink, {ino},
               [&](Adaptor& a, FuseRequest r) { return readlink(a, std::move(r), a.inodes.node(ino)); });
}

void op_statfs(fuse_req_t req, fuse_ino_t ino) {
  Adaptor::run(req, Operation::kStatfs, {ino != 0 ? ino : InodeTable::kRootId},
               [&](Adaptor& a, FuseRequest r) {
                 const bool root = ino == 0 || ino == InodeTable::kRootId;
                 return statfs(a, std::move(r), a.inodes.node(root ? InodeTable::kRootId : ino), root);
               });
}

}  // namespace

void add_attribute_operations(fuse_lowlevel_ops& ops) {
  ops.getattr = op_getattr;
  ops.setattr = op_setattr;
  ops.access = op_access;
  ops.readlink = op_readlink;
  ops.statfs = op_statfs;
}

}  // namespace nfsrdma::fuse

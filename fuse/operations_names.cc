// SPDX-License-Identifier: Apache-2.0
// lookup, forget, mknod, mkdir, symlink, link, unlink, rmdir, rename.
#include <sys/sysmacros.h>

#include "fuse/adaptor.h"
#include "fuse/operations.h"

namespace nfsrdma::fuse {

using namespace client;

namespace {

Task<> lookup(Adaptor& a, FuseRequest request, NodeRef directory, std::string name) {
  auto call = a.repeated_opens.any()
                  ? a.repeated_opens.lookup(a.context(request), request.caller(), directory, name)
                  : a.filesystem.lookup(a.context(request), std::move(directory), std::move(name));
  const Result<Entry> entry = co_await std::move(call);
  a.answer_entry(request, entry);
}

Task<> mknod(Adaptor& a, FuseRequest request, NodeRef directory, std::string name, mode_t mode, dev_t rdev) {
  auto call = a.filesystem.mknod(a.changing(request), directory, name, mode, major(rdev), minor(rdev));
  const Result<Entry> entry = co_await std::move(call);
  a.changed(request, directory, name);
  a.answer_entry(request, entry);
}

Task<> mkdir(Adaptor& a, FuseRequest request, NodeRef directory, std::string name, mode_t mode) {
  auto call = a.filesystem.mkdir(a.changing(request), directory, name, mode);
  const Result<Entry> entry = co_await std::move(call);
  a.changed(request, directory, name);
  a.answer_entry(request, entry);
}

Task<> symlink(Adaptor& a, FuseRequest request, NodeRef directory, std::string name, std::string target) {
  auto call = a.filesystem.symlink(a.changing(request), directory, name, std::move(target));
  const Result<Entry> entry = co_await std::move(call);
  a.changed(request, directory, name);
  a.answer_entry(request, entry);
}

Task<> link(Adaptor& a, FuseRequest request, NodeRef node, NodeRef directory, std::string name) {
  auto call = a.filesystem.link(a.changing(request), node, directory, name);
  const Result<Entry> entry = co_await std::move(call);
  a.changed(request, directory, name);
  a.changed(request, node);
  a.answer_entry(request, entry);
}

// For operations whose reply is only success or an error. They change what these names refer to.
struct Names {
  NodeRef directory;
  std::string name;
  NodeRef other_directory = {};
  std::string other_name = {};
};
Task<> finish(Adaptor& a, FuseRequest request, Names names, Task<Result<>> call) {
  const Result<> result = co_await std::move(call);
  a.changed(request, names.directory, names.name);
  if (names.other_directory) a.changed(request, names.other_directory, names.other_name);
  if (!result) {
    request.fail(result.error());
  } else {
    request.ok();
  }
}

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  Adaptor::run(req, Operation::kLookup, {parent, name}, [&](Adaptor& a, FuseRequest r) {
    return lookup(a, std::move(r), a.inodes.node(parent), name);
  });
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev) {
  Adaptor::run(req, Operation::kMknod, {parent, name}, [&](Adaptor& a, FuseRequest r) {
    return mknod(a, std::move(r), a.inodes.node(parent), name, mode, rdev);
  });
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
  Adaptor::run(req, Operation::kMkdir, {parent, name}, [&](Adaptor& a, FuseRequest r) {
    return mkdir(a, std::move(r), a.inodes.node(parent), name, mode);
  });
}

void op_symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name) {
  Adaptor::run(req, Operation::kSymlink, {parent, name}, [&](Adaptor& a, FuseRequest r) {
    return symlink(a, std::move(r), a.inodes.node(parent), name, target);
  });
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char* name) {
  Adaptor::run(req, Operation::kLink, {parent, name}, [&](Adaptor& a, FuseRequest r) {
    return link(a, std::move(r), a.inodes.node(ino), a.inodes.node(parent), name);
  });
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char* name) {
  Adaptor::run(req, Operation::kUnlink, {parent, name}, [&](Adaptor& a, FuseRequest r) {
    Names names{a.inodes.node(parent), name};
    auto call = a.filesystem.unlink(a.changing(r), names.directory, name);
    return finish(a, std::move(r), std::move(names), std::move(call));
  });
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char* name) {
  Adaptor::run(req, Operation::kRmdir, {parent, name}, [&](Adaptor& a, FuseRequest r) {
    Names names{a.inodes.node(parent), name};
    auto call = a.filesystem.rmdir(a.changing(r), names.directory, name);
    return finish(a, std::move(r), std::move(names), std::move(call));
  });
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
               const char* new_name, unsigned flags) {
  Adaptor::run(
      req, Operation::kRename, {parent, name, 0, 0, new_parent, new_name}, [&](Adaptor& a, FuseRequest r) {
        Names names{a.inodes.node(parent), name, a.inodes.node(new_parent), new_name};
        auto call =
            a.filesystem.rename(a.changing(r), names.directory, name, names.other_directory, new_name, flags);
        return finish(a, std::move(r), std::move(names), std::move(call));
      });
}

// FORGET needs no coroutine and no reply; rm -r and memory pressure send hundreds of thousands.
void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups) {
  auto& a = *static_cast<Adaptor*>(fuse_req_userdata(req));
  a.here().requests->counters().answered(Operation::kForget, 0, {});
  fuse_reply_none(req);
  a.inodes.forget(ino, lookups);
}

void op_forget_multi(fuse_req_t req, size_t count, fuse_forget_data* forgets) {
  auto& a = *static_cast<Adaptor*>(fuse_req_userdata(req));
  a.here().requests->counters().answered(Operation::kForget, 0, {});
  for (size_t i = 0; i < count; ++i) a.inodes.forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(req);
}

}  // namespace

void add_name_operations(fuse_lowlevel_ops& ops) {
  ops.lookup = op_lookup;
  ops.forget = op_forget;
  ops.forget_multi = op_forget_multi;
  ops.mknod = op_mknod;
  ops.mkdir = op_mkdir;
  ops.symlink = op_symlink;
  ops.link = op_link;
  ops.unlink = op_unlink;
  ops.rmdir = op_rmdir;
  ops.rename = op_rename;
}

}  // namespace nfsrdma::fuse

// SPDX-License-Identifier: Apache-2.0
// Server: files that tests create and change on the server without a client. Permissions do not apply. Change
// attributes change as for any other operation, and written data is stable.

#include "filer/server_impl.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::filer {

using namespace nfs4;

namespace {

// Splits "/a/b/c" into "/a/b" and "c".
std::pair<std::string_view, std::string_view> split(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {"/", path};
  return {slash == 0 ? path.substr(0, 1) : path.substr(0, slash), path.substr(slash + 1)};
}

tree::NodePtr make(nfs::Core& core, std::string_view path, const tree::Initial& initial) {
  const auto [parent, name] = split(path);
  const tree::NodePtr dir = core.tree.walk(parent);
  if (dir == nullptr || !dir->is_directory()) return nullptr;
  const tree::Answer<tree::NodePtr> node =
      core.tree.create(*dir, name, initial, tree::Principal::superuser());
  if (!node) return nullptr;
  // On a host's directory the new object may have another owner or mode (umask, default ACL); set only what
  // differs.
  const tree::NewAttributes wanted{
      .mode = initial.type == NF4LNK ? std::nullopt : std::optional(initial.mode),
      .uid = initial.uid,
      .gid = initial.gid};
  const bool differs = (*node)->mode != wanted.mode.value_or((*node)->mode) || (*node)->uid != initial.uid ||
                       (*node)->gid != initial.gid;
  if (differs) core.tree.set(**node, wanted, tree::Principal::superuser());
  return *node;
}

}  // namespace

void Server::Impl::for_path(std::string_view path, const std::function<void(tree::Node&)>& visit) {
  MutexLock lock(core.mutex);
  if (const tree::NodePtr node = core.tree.walk(path)) visit(*node);
}

bool Server::make_directory(std::string_view path, uint32_t mode, uint32_t uid, uint32_t gid) {
  MutexLock lock(impl_->core.mutex);
  return make(impl_->core, path, {.type = NF4DIR, .mode = mode, .uid = uid, .gid = gid}) != nullptr;
}

bool Server::make_file(std::string_view path, std::string_view content, uint32_t mode, uint32_t uid,
                       uint32_t gid) {
  MutexLock lock(impl_->core.mutex);
  const tree::NodePtr node = make(impl_->core, path, {.type = NF4REG, .mode = mode, .uid = uid, .gid = gid});
  return node != nullptr && impl_->core.tree.write(*node, 0, as_const_bytes(content), true,
                                                   tree::Principal::superuser()) == NFS4_OK;
}

bool Server::make_symlink(std::string_view path, std::string_view target) {
  MutexLock lock(impl_->core.mutex);
  return make(impl_->core, path, {.type = NF4LNK, .mode = 0777, .target = std::string(target)}) != nullptr;
}

bool Server::write_file(std::string_view path, uint64_t offset, std::string_view content) {
  bool done = false;
  impl_->for_path(path, [&](tree::Node& node) {
    done = node.type == NF4REG && impl_->core.tree.write(node, offset, as_const_bytes(content), true,
                                                         tree::Principal::superuser()) == NFS4_OK;
  });
  return done;
}

void Server::set_acl(std::string_view path, std::vector<nfsace4> acl) {
  impl_->for_path(path, [&](tree::Node& node) {
    static_cast<tree::MemoryStore&>(*node.fs->store).set_acl(node, std::move(acl));
  });
}

bool Server::remove_file(std::string_view path) {
  MutexLock lock(impl_->core.mutex);
  const auto [parent, name] = split(path);
  const tree::NodePtr dir = impl_->core.tree.walk(parent);
  return dir != nullptr && impl_->core.tree.remove(*dir, name, tree::Principal::superuser()) == NFS4_OK;
}

std::optional<std::string> Server::read_file(std::string_view path) {
  std::optional<std::string> content;
  impl_->for_path(path, [&](tree::Node& node) {
    if (node.type != NF4REG) return;
    ByteVector bytes;
    const bool ok = impl_->core.tree.read(node, 0, node.size, bytes).has_value();
    content.emplace(ok ? as_string_view(bytes) : "");
  });
  return content;
}

std::optional<FileFacts> Server::stat(std::string_view path) {
  std::optional<FileFacts> facts;
  impl_->for_path(path, [&](tree::Node& node) {
    const auto* memory = dynamic_cast<const tree::MemoryNode*>(&node);
    facts = FileFacts{.fileid = node.fileid,
                      .type = node.type,
                      .mode = node.mode,
                      .uid = node.uid,
                      .gid = node.gid,
                      .links = node.links,
                      .size = node.size,
                      .allocated_bytes = node.allocated,
                      .change = node.change,
                      .modified = node.modified,
                      .unstable = memory != nullptr && memory->data.has_unstable(),
                      .handle = impl_->core.tree.handle(node)};
  });
  return facts;
}

std::vector<std::string> Server::list(std::string_view path) {
  std::vector<std::string> names;
  impl_->for_path(path, [&](tree::Node& node) {
    if (!node.is_directory()) return;
    const tree::Tree& tree = impl_->core.tree;
    for (auto e = tree.next(node, 0); e && !e->end(); e = tree.next(node, e->cookie))
      names.push_back(e->name);
  });
  return names;
}

void Server::invalidate_cookies(std::string_view path) {
  impl_->for_path(path, [&](tree::Node& node) { ++impl_->core.cookie_generation[node.id]; });
}

void Server::set_read_only(std::string_view export_path, bool read_only) {
  impl_->for_path(export_path, [&](tree::Node& node) { node.fs->read_only = read_only; });
}

void Server::set_space(std::string_view export_path, uint64_t bytes_total) {
  impl_->for_path(export_path, [&](tree::Node& node) { node.fs->bytes_total = bytes_total; });
}

void Server::set_flavors(std::string_view export_path, const tree::Flavors& flavors) {
  MutexLock lock(impl_->core.mutex);
  impl_->core.tree.set_flavors(export_path, flavors);
}

void Server::set_limits(std::string_view export_path, uint64_t max_io, size_t max_name) {
  impl_->for_path(export_path, [&](tree::Node& node) {
    node.fs->max_io = max_io;
    node.fs->max_name = max_name;
  });
}

}  // namespace nfsrdma::filer

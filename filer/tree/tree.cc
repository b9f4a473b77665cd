// SPDX-License-Identifier: Apache-2.0
#include "filer/tree/tree.h"

#include <algorithm>
#include <cerrno>

#include "filer/tree/access.h"
#include "filer/tree/host_store.h"

namespace nfsrdma::filer::tree {

using namespace nfs4;

namespace {

// A filehandle: 'N' 'f' 'h' 1, the number of the file system, and the store's part.
constexpr uint32_t kHandleMagic = 0x4e666801;
constexpr size_t kHandleHeader = 8;

// Returns the next component of an absolute path and removes it from `path`. Empty at the end.
std::string_view take_component(std::string_view& path) {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  const std::string_view name = path.substr(0, path.find('/'));
  path.remove_prefix(name.size());
  return name;
}

nfsstat4 need_directory(const Node& dir) {
  if (dir.type == NF4LNK) return NFS4ERR_SYMLINK;
  return dir.is_directory() ? NFS4_OK : NFS4ERR_NOTDIR;
}

}  // namespace

Tree::Tree(std::function<nfstime4()> now)
    : next_id_(std::make_shared<NodeId>(2)), memory_(std::move(now), next_id_) {
  FileSystem& fs = add_file_system(memory_);
  fs.fsid = {};
  fs.read_only = true;
  memory_.make_root(fs, 0755);
}

Tree::~Tree() = default;

FileSystem& Tree::add_file_system(Store& store) {
  auto& fs = *file_systems_.emplace_back(std::make_unique<FileSystem>());
  fs.store = &store;
  fs.number = static_cast<uint32_t>(file_systems_.size() - 1);
  fs.fsid = {uint64_t{fs.number} + 1, 0};
  return fs;
}

NodePtr Tree::descend(NodePtr from, std::string_view path, bool create) const {
  for (std::string_view name = take_component(path); !name.empty(); name = take_component(path)) {
    if (!from->is_directory()) return nullptr;
    const Answer<NodePtr> there = lookup(*from, name);
    if (there) {
      from = *there;
    } else if (create && from->fs->store == &memory_) {
      from = memory_.make_path(*from, name);
    } else {
      return nullptr;
    }
  }
  return from;
}

void Tree::cover(const NodePtr& place, const NodePtr& with) {
  with->covers = place.get();
  place->covered_by = with;
}

FileSystem& Tree::add_export(std::string_view path) {
  const NodePtr at = descend(root(), path, true);
  if (at == root()) {
    root_is_export_ = true;
    at->fs->read_only = false;
    at->fs->fsid = {1, 0};
    return *at->fs;
  }
  if (at->covers != nullptr) return *at->fs;
  FileSystem& fs = add_file_system(memory_);
  cover(at, memory_.make_root(fs, 0777));
  return fs;
}

Result<> Tree::add_directory(const HostExport& what, const HandleKey& key) {
  const NodePtr at = descend(root(), what.path, true);
  if (at == nullptr || at == root() || at->covers != nullptr)
    return fail(system_error(EEXIST, "export", "'" + what.path + "' is in use or inside another export"));
  FileSystem& fs = add_file_system(memory_);
  auto store = HostStore::open(what, key, fs, next_id_);
  if (!store) {
    file_systems_.pop_back();
    return fail(std::move(store).error());
  }
  fs.store = store->get();
  cover(at, (*store)->root());
  host_.push_back(*std::move(store));
  return {};
}

void Tree::set_flavors(std::string_view path, const Flavors& flavors) {
  const NodePtr node = descend(root(), path, false);
  const bool is_export = node != nullptr && (node == root() ? root_is_export_ : node->covers != nullptr);
  if (is_export) node->fs->flavors = flavors;
  if (root_is_export_) return;
  Flavors any;
  for (const auto& fs : file_systems_) {
    if (fs.get() != root()->fs) any.add(fs->flavors);
  }
  root()->fs->flavors = any;
}

nfs_fh4 Tree::handle(const Node& node) const {
  ByteVector bytes(kHandleHeader);
  store_be32(bytes.data(), kHandleMagic);
  store_be32(bytes.data() + 4, node.fs->number);
  const ByteVector rest = node.fs->store->handle(node);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return nfs_fh4(bytes);
}

Answer<NodePtr> Tree::find(const nfs_fh4& handle) const {
  const ConstBytes bytes = handle.bytes();
  if (bytes.size() < kHandleHeader || load_be32(bytes.data()) != kHandleMagic)
    return refuse(NFS4ERR_BADHANDLE);
  const uint32_t number = load_be32(bytes.data() + 4);
  if (number >= file_systems_.size()) return refuse(NFS4ERR_BADHANDLE);
  const FileSystem& fs = *file_systems_[number];
  return fs.store->find(fs, bytes.subspan(kHandleHeader));
}

NodePtr Tree::walk(std::string_view path) const {
  const NodePtr node = descend(root(), path, false);
  return node != nullptr && refresh(*node) == NFS4_OK ? node : nullptr;
}

NodePtr Tree::top(NodePtr node) {
  while (node != nullptr && node->covered_by != nullptr) node = node->covered_by;
  return node;
}

nfsstat4 Tree::check_name(const FileSystem& fs, std::string_view name) const {
  if (name.empty()) return NFS4ERR_INVAL;
  if (name == "." || name == "..") return NFS4ERR_BADNAME;
  if (name.find('/') != name.npos || name.find('\0') != name.npos) return NFS4ERR_BADCHAR;
  if (name.size() > fs.max_name) return NFS4ERR_NAMETOOLONG;
  return NFS4_OK;
}

Answer<NodePtr> Tree::child(Node& dir, std::string_view name) const {
  if (const nfsstat4 status = need_directory(dir); status != NFS4_OK) return refuse(status);
  if (const nfsstat4 status = check_name(*dir.fs, name); status != NFS4_OK) return refuse(status);
  return dir.fs->store->child(dir, name);
}

Answer<NodePtr> Tree::lookup(Node& dir, std::string_view name) const {
  Answer<NodePtr> found = child(dir, name);
  if (!found) return found;
  const bool covered = (*found)->covered_by != nullptr;
  NodePtr node = top(*std::move(found));
  if (covered) {
    if (const nfsstat4 status = refresh(*node); status != NFS4_OK) return refuse(status);
  }
  return node;
}

Answer<NodePtr> Tree::parent(Node& dir) const {
  if (const nfsstat4 status = need_directory(dir); status != NFS4_OK) return refuse(status);
  Node* at = &dir;
  while (at->covers != nullptr) at = at->covers;
  Answer<NodePtr> up = at->fs->store->parent(*at);
  if (up && *up == nullptr) return refuse(NFS4ERR_NOENT);
  return up;
}

Answer<NodePtr> Tree::create(Node& dir, std::string_view name, const Initial& initial, const Principal& who) {
  if (!dir.is_directory()) return refuse(NFS4ERR_NOTDIR);
  if (const nfsstat4 status = check_name(*dir.fs, name); status != NFS4_OK) return refuse(status);
  return dir.fs->store->create(dir, name, initial, who);
}

nfsstat4 Tree::link(Node& node, Node& dir, std::string_view name, const Principal& who) {
  if (!dir.is_directory()) return NFS4ERR_NOTDIR;
  if (node.is_directory()) return NFS4ERR_ISDIR;
  if (node.fs != dir.fs) return NFS4ERR_XDEV;
  if (const nfsstat4 status = check_name(*dir.fs, name); status != NFS4_OK) return status;
  return dir.fs->store->link(node, dir, name, who);
}

nfsstat4 Tree::remove(Node& dir, std::string_view name, const Principal& who) {
  if (!dir.is_directory()) return NFS4ERR_NOTDIR;
  if (const nfsstat4 status = check_name(*dir.fs, name); status != NFS4_OK) return status;
  return dir.fs->store->remove(dir, name, who);
}

nfsstat4 Tree::rename(Node& from, std::string_view old_name, Node& to, std::string_view new_name,
                      const Principal& who) {
  if (!from.is_directory() || !to.is_directory()) return NFS4ERR_NOTDIR;
  if (from.fs != to.fs) return NFS4ERR_XDEV;
  if (const nfsstat4 status = check_name(*from.fs, old_name); status != NFS4_OK) return status;
  if (const nfsstat4 status = check_name(*to.fs, new_name); status != NFS4_OK) return status;
  return from.fs->store->rename(from, old_name, to, new_name, who);
}

nfsstat4 Tree::set(Node& node, const NewAttributes& attributes, const Principal& who) {
  if (attributes.empty()) return NFS4_OK;
  if (node.fs->read_only) return NFS4ERR_ROFS;
  return node.fs->store->set(node, attributes, who);
}

void Tree::clear_set_id(Node& node, const Principal& caller) {
  const Principal& who = acting(*node.fs, caller);
  if (who.root() && !node.fs->everybody) return;
  uint32_t mode = node.mode & ~04000u;
  if ((mode & 010) != 0 || !who.in_group(node.gid)) mode &= ~02000u;
  // As root, because the writer may not change the mode.
  if (mode != node.mode) set(node, {.mode = mode}, Principal::superuser());
}

Answer<size_t> Tree::read(Node& file, uint64_t offset, size_t bytes, ByteVector& to) {
  return file.fs->store->read(file, offset, bytes, to);
}

nfsstat4 Tree::write(Node& file, uint64_t offset, ConstBytes data, bool stable, const Principal& who) {
  if (file.fs->read_only) return NFS4ERR_ROFS;
  if (data.empty()) return NFS4_OK;
  const uint64_t limit = file.fs->max_file_bytes;
  if (offset > limit || data.size() > limit - offset) return NFS4ERR_FBIG;
  return file.fs->store->write(file, offset, data, stable, acting(*file.fs, who));
}

nfsstat4 Tree::resize(Node& file, uint64_t size, const Principal& who) {
  if (file.fs->read_only) return NFS4ERR_ROFS;
  if (size > file.fs->max_file_bytes) return NFS4ERR_FBIG;
  return file.fs->store->resize(file, size, acting(*file.fs, who));
}

nfsstat4 Tree::commit(Node& file, uint64_t offset, uint64_t length) {
  return file.fs->store->commit(file, offset, length);
}

Answer<std::string> Tree::read_link(Node& link, const Principal& who) {
  return link.fs->store->read_link(link, acting(*link.fs, who));
}

template <class Visit>
void Tree::each_store(Visit visit) {
  visit(static_cast<Store&>(memory_));
  for (const auto& store : host_) visit(*store);
}

changeid4 Tree::told_change(const Node& node) const {
  switch (change_told_) {
    case ChangeTold::kTrue: return node.change;
    case ChangeTold::kFrozen: return 1;
    case ChangeTold::kRestless: return ++restless_change_;
    case ChangeTold::kBackwards: return ~node.change;
  }
  return node.change;
}

void Tree::crash(bool lose_unstable) {
  each_store([&](Store& store) { store.crash(lose_unstable); });
}

void Tree::forget_unlinked() {
  each_store([](Store& store) { store.forget_unlinked(); });
}

void Tree::forget_removed() {
  each_store([](Store& store) { store.forget_removed(); });
}

}  // namespace nfsrdma::filer::tree

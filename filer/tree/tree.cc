#include "filer/tree/tree.h"

#include <algorithm>

#include "filer/tree/utf8.h"

namespace nfsrdma::filer {

using namespace nfs4;

namespace {

// 'N' 'f' 'h' 1, file system u32, node u64: sixteen bytes.
constexpr uint32_t kHandleMagic = 0x4e666801;
constexpr size_t kHandleBytes = 16;

void store_be64(std::byte* to, uint64_t v) {
  store_be32(to, static_cast<uint32_t>(v >> 32));
  store_be32(to + 4, static_cast<uint32_t>(v));
}

// The next component of an absolute path, which is taken off `path`. Empty at the end.
std::string_view take_component(std::string_view& path) {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  const std::string_view name = path.substr(0, path.find('/'));
  path.remove_prefix(name.size());
  return name;
}

}  // namespace

Tree::Tree(std::function<nfstime4()> now) : now_(std::move(now)) {
  auto& fs = *file_systems_.emplace_back(std::make_unique<FileSystem>());
  fs.read_only = true;
  root_ = make(fs, {.type = NF4DIR, .mode = 0755});
  root_->links = 2;
}

NodePtr Tree::make(FileSystem& fs, const Initial& initial) {
  auto node = std::make_shared<Node>();
  node->id = next_id_++;
  node->fs = &fs;
  node->type = initial.type;
  node->mode = initial.mode & 07777;
  node->uid = initial.uid;
  node->gid = initial.gid;
  node->target = initial.target;
  node->device = initial.device;
  node->accessed = node->modified = node->changed = node->created = now_();
  ++fs.files_used;
  nodes_.emplace(node->id, node);
  return node;
}

NodePtr Tree::descend(NodePtr from, std::string_view path, bool create) {
  for (std::string_view name = take_component(path); !name.empty(); name = take_component(path)) {
    if (!from->is_directory()) return nullptr;
    if (const Directory::Entry* entry = from->names.find(name)) {
      from = top(find(entry->node));
    } else if (create) {
      NodePtr made = make(*from->fs, {.type = NF4DIR, .mode = 0755});
      made->links = 2;
      made->parent = from->id;
      from->names.insert(name, made->id);
      ++from->links;
      touch(*from, true);
      from = std::move(made);
    } else {
      return nullptr;
    }
  }
  return from;
}

FileSystem& Tree::add_export(std::string_view path) {
  NodePtr at = descend(root_, path, true);
  if (at == root_) {
    root_->fs->read_only = false;
    root_->fs->fsid = {1, 0};
    return *root_->fs;
  }
  if (at->covers != 0) return *at->fs;
  auto& fs = *file_systems_.emplace_back(std::make_unique<FileSystem>());
  fs.number = static_cast<uint32_t>(file_systems_.size() - 1);
  fs.fsid = {fs.number + 1, 0};
  NodePtr top_node = make(fs, {.type = NF4DIR, .mode = 0777});
  top_node->links = 2;
  top_node->parent = at->parent;
  top_node->covers = at->id;
  at->covered_by = top_node->id;
  return fs;
}

nfs_fh4 Tree::handle(const Node& node) const {
  std::array<std::byte, kHandleBytes> bytes{};
  store_be32(bytes.data(), kHandleMagic);
  store_be32(bytes.data() + 4, node.fs->number);
  store_be64(bytes.data() + 8, node.id);
  return nfs_fh4(bytes);
}

Answer<NodePtr> Tree::find(const nfs_fh4& handle) const {
  const ConstBytes bytes = handle.bytes();
  if (bytes.size() != kHandleBytes || load_be32(bytes.data()) != kHandleMagic)
    return refuse(NFS4ERR_BADHANDLE);
  if (load_be32(bytes.data() + 4) >= file_systems_.size()) return refuse(NFS4ERR_BADHANDLE);
  const NodeId id = NodeId{load_be32(bytes.data() + 8)} << 32 | load_be32(bytes.data() + 12);
  if (id >= next_id_) return refuse(NFS4ERR_BADHANDLE);
  NodePtr node = find(id);
  if (node == nullptr) return refuse(NFS4ERR_STALE);
  if (node->fs->number != load_be32(bytes.data() + 4)) return refuse(NFS4ERR_BADHANDLE);
  return node;
}

NodePtr Tree::find(NodeId id) const {
  const auto at = nodes_.find(id);
  return at == nodes_.end() ? nullptr : at->second;
}

NodePtr Tree::walk(std::string_view path) const {
  // Without `create` nothing is changed.
  return const_cast<Tree*>(this)->descend(root_, path, false);
}

NodePtr Tree::top(NodePtr node) const {
  while (node != nullptr && node->covered_by != 0) node = find(node->covered_by);
  return node;
}

nfsstat4 Tree::check_name(const FileSystem& fs, std::string_view name) const {
  if (name.empty() || !is_utf8(name)) return NFS4ERR_INVAL;
  if (name == "." || name == "..") return NFS4ERR_BADNAME;
  if (name.find('/') != name.npos || name.find('\0') != name.npos) return NFS4ERR_BADCHAR;
  if (name.size() > fs.max_name) return NFS4ERR_NAMETOOLONG;
  return NFS4_OK;
}

Answer<NodePtr> Tree::lookup(const Node& dir, std::string_view name) const {
  if (dir.type == NF4LNK) return refuse(NFS4ERR_SYMLINK);
  if (!dir.is_directory()) return refuse(NFS4ERR_NOTDIR);
  if (const nfsstat4 status = check_name(*dir.fs, name); status != NFS4_OK) return refuse(status);
  const Directory::Entry* entry = dir.names.find(name);
  if (entry == nullptr) return refuse(NFS4ERR_NOENT);
  return top(find(entry->node));
}

Answer<NodePtr> Tree::parent(const Node& dir) const {
  if (dir.type == NF4LNK) return refuse(NFS4ERR_SYMLINK);
  if (!dir.is_directory()) return refuse(NFS4ERR_NOTDIR);
  NodePtr up = find(dir.parent);
  if (up == nullptr) return refuse(NFS4ERR_NOENT);
  return up;
}

Answer<NodePtr> Tree::create(Node& dir, std::string_view name, const Initial& initial) {
  if (!dir.is_directory()) return refuse(NFS4ERR_NOTDIR);
  if (const nfsstat4 status = check_name(*dir.fs, name); status != NFS4_OK) return refuse(status);
  if (dir.names.find(name) != nullptr) return refuse(NFS4ERR_EXIST);
  if (dir.fs->read_only) return refuse(NFS4ERR_ROFS);
  if (dir.links == 0) return refuse(NFS4ERR_NOENT);  // the directory itself was removed
  if (dir.fs->files_used >= dir.fs->files_total) return refuse(NFS4ERR_NOSPC);
  if (initial.type == NF4DIR && dir.links >= dir.fs->max_links) return refuse(NFS4ERR_MLINK);
  NodePtr node = make(*dir.fs, initial);
  if (node->is_directory()) {
    node->links = 2;
    node->parent = dir.id;
    ++dir.links;
  }
  dir.names.insert(name, node->id);
  touch(dir, true);
  return node;
}

nfsstat4 Tree::link(Node& node, Node& dir, std::string_view name) {
  if (!dir.is_directory()) return NFS4ERR_NOTDIR;
  if (node.is_directory()) return NFS4ERR_ISDIR;
  if (node.fs != dir.fs) return NFS4ERR_XDEV;
  if (const nfsstat4 status = check_name(*dir.fs, name); status != NFS4_OK) return status;
  if (dir.names.find(name) != nullptr) return NFS4ERR_EXIST;
  if (dir.fs->read_only) return NFS4ERR_ROFS;
  if (dir.links == 0 || node.links == 0) return NFS4ERR_NOENT;
  if (node.links >= node.fs->max_links) return NFS4ERR_MLINK;
  ++node.links;
  touch(node, false);
  dir.names.insert(name, node.id);
  touch(dir, true);
  return NFS4_OK;
}

// One name less.
void Tree::unlink(Node& node) {
  node.links = node.is_directory() ? 0 : node.links - 1;
  touch(node, false);
  if (node.links == 0 && (node.holds == 0 || !preserve_unlinked_)) drop(node);
}

void Tree::drop(Node& node) {
  node.fs->bytes_used -= node.data.allocated_bytes();
  --node.fs->files_used;
  nodes_.erase(node.id);  // the last reference may be the caller's
}

nfsstat4 Tree::remove(Node& dir, std::string_view name) {
  if (!dir.is_directory()) return NFS4ERR_NOTDIR;
  if (const nfsstat4 status = check_name(*dir.fs, name); status != NFS4_OK) return status;
  const Directory::Entry* entry = dir.names.find(name);
  if (entry == nullptr) return NFS4ERR_NOENT;
  if (dir.fs->read_only) return NFS4ERR_ROFS;
  const NodePtr node = find(entry->node);
  if (node->covered_by != 0) return NFS4ERR_FILE_OPEN;  // an export is mounted there
  if (!node->names.empty()) return NFS4ERR_NOTEMPTY;
  dir.names.erase(name);
  if (node->is_directory()) --dir.links;
  touch(dir, true);
  unlink(*node);
  return NFS4_OK;
}

bool Tree::inside(const Node& dir, NodeId ancestor) const {
  const Node* at = &dir;
  while (at->id != ancestor) {
    const NodePtr up = at->covers == 0 ? find(at->parent) : nullptr;
    if (up == nullptr) return false;
    at = up.get();
  }
  return true;
}

nfsstat4 Tree::rename(Node& from, std::string_view old_name, Node& to, std::string_view new_name) {
  if (!from.is_directory() || !to.is_directory()) return NFS4ERR_NOTDIR;
  if (from.fs != to.fs) return NFS4ERR_XDEV;
  if (const nfsstat4 status = check_name(*from.fs, old_name); status != NFS4_OK) return status;
  if (const nfsstat4 status = check_name(*to.fs, new_name); status != NFS4_OK) return status;
  const Directory::Entry* source = from.names.find(old_name);
  if (source == nullptr) return NFS4ERR_NOENT;
  if (from.fs->read_only) return NFS4ERR_ROFS;
  const NodePtr node = find(source->node);
  const Directory::Entry* target = to.names.find(new_name);
  const NodePtr victim = target != nullptr ? find(target->node) : nullptr;
  if (node == victim) return NFS4_OK;  // two names of one object: "MUST perform no action"
  if (node->is_directory() && inside(to, node->id)) return NFS4ERR_INVAL;
  if (node->covered_by != 0) return NFS4ERR_FILE_OPEN;
  if (to.links == 0) return NFS4ERR_NOENT;
  if (victim != nullptr) {
    if (victim->is_directory() != node->is_directory()) return NFS4ERR_EXIST;
    if (victim->covered_by != 0 || !victim->names.empty()) return NFS4ERR_EXIST;
  } else if (node->is_directory() && &from != &to && to.links >= to.fs->max_links) {
    return NFS4ERR_MLINK;
  }

  from.names.erase(old_name);
  if (victim != nullptr) {
    to.names.replace(new_name, node->id);
  } else {
    to.names.insert(new_name, node->id);
  }
  if (node->is_directory()) {
    --from.links;
    if (victim == nullptr) ++to.links;
    node->parent = to.id;
  }
  touch(*node, false);
  touch(from, true);
  if (&to != &from) touch(to, true);
  if (victim != nullptr) unlink(*victim);
  return NFS4_OK;
}

nfsstat4 Tree::write(Node& file, uint64_t offset, ConstBytes data, bool stable) {
  if (file.fs->read_only) return NFS4ERR_ROFS;
  if (data.empty()) return NFS4_OK;
  if (offset > SparseFile::kMaxFileBytes || data.size() > SparseFile::kMaxFileBytes - offset)
    return NFS4ERR_FBIG;
  const uint64_t growth = file.data.growth(offset, data.size());
  if (growth > file.fs->bytes_total - std::min(file.fs->bytes_used, file.fs->bytes_total))
    return NFS4ERR_NOSPC;
  file.data.write(offset, data, stable);
  file.fs->bytes_used += growth;
  touch(file, true);
  return NFS4_OK;
}

nfsstat4 Tree::resize(Node& file, uint64_t size) {
  if (file.fs->read_only) return NFS4ERR_ROFS;
  if (size > SparseFile::kMaxFileBytes) return NFS4ERR_FBIG;
  file.fs->bytes_used -= file.data.allocated_bytes();
  file.data.resize(size);
  file.fs->bytes_used += file.data.allocated_bytes();
  touch(file, true);
  return NFS4_OK;
}

void Tree::touch(Node& node, bool data) {
  ++node.change;
  node.changed = now_();
  if (data) node.modified = node.changed;
}

void Tree::release(Node& node) {
  if (node.holds > 0) --node.holds;
  if (node.holds == 0 && node.links == 0 && find(node.id) != nullptr) drop(node);
}

void Tree::crash(bool lose_unstable) {
  for (auto& [id, node] : nodes_) {
    node->holds = 0;
    if (!lose_unstable) {
      node->data.commit(0, 0);
      continue;
    }
    node->fs->bytes_used -= node->data.allocated_bytes();
    // Other bytes than before must not look like the same version.
    if (node->data.crash()) touch(*node, true);
    node->fs->bytes_used += node->data.allocated_bytes();
  }
}

void Tree::forget_unlinked() {
  std::vector<NodePtr> gone;
  for (const auto& [id, node] : nodes_) {
    if (node->links == 0 && node->holds == 0) gone.push_back(node);
  }
  for (const NodePtr& node : gone) drop(*node);
}

}  // namespace nfsrdma::filer

// SPDX-License-Identifier: Apache-2.0
#include "filer/tree/memory_store.h"

#include <algorithm>
#include <utility>

#include "filer/tree/access.h"

namespace nfsrdma::filer::tree {

using namespace nfs4;

namespace {

MemoryNode& in_memory(Node& node) {
  return static_cast<MemoryNode&>(node);
}
const MemoryNode& in_memory(const Node& node) {
  return static_cast<const MemoryNode&>(node);
}

constexpr uint64_t kDirectoryBytes = 4096;
// Minimum memory of an object and of a name, rounded.
constexpr uint64_t kObjectBytes = 512;
constexpr uint64_t kNameBytes = 128;

constexpr std::pair<uint32_t, uint32_t> kAces[] = {
    {kMayRead, ACE4_READ_DATA}, {kMayWrite, ACE4_WRITE_DATA | ACE4_APPEND_DATA}, {kMayExecute, ACE4_EXECUTE}};

// Sets the attributes that follow from the content.
void measure_content(MemoryNode& node) {
  node.size = node.type == NF4LNK ? node.target.size() : node.data.size();
  if (node.is_directory()) node.size = kDirectoryBytes;
  node.allocated = node.data.allocated_bytes();
}

}  // namespace

MemoryStore::MemoryStore(std::function<nfstime4()> now, std::shared_ptr<NodeId> next_id)
    : now_(std::move(now)), next_id_(std::move(next_id)) {}

NodePtr MemoryStore::make_root(FileSystem& fs, uint32_t mode) {
  NodePtr node = make(fs, {.type = NF4DIR, .mode = mode});
  if (root_ == nullptr) root_ = node;
  return node;
}

NodePtr MemoryStore::make_path(Node& dir, std::string_view name) {
  NodePtr made = make(*dir.fs, {.type = NF4DIR, .mode = 0755});
  in_memory(*made).parent = dir.id;
  insert(dir, name, made->id);
  ++dir.links;
  touch(dir, true);
  return made;
}

NodePtr MemoryStore::make(FileSystem& fs, const Initial& initial) {
  auto node = std::make_shared<MemoryNode>();
  node->id = node->fileid = (*next_id_)++;
  node->fs = &fs;
  node->type = initial.type;
  node->mode = initial.mode & 07777;
  node->uid = initial.uid;
  node->gid = initial.gid;
  node->target = initial.target;
  node->device = initial.device;
  if (node->is_directory()) node->links = 2;
  node->accessed = node->modified = node->changed = node->created = now_();
  measure_content(*node);
  ++fs.files_used;
  fs.bytes_around += kObjectBytes + node->target.size();
  nodes_.emplace(node->id, node);
  return node;
}

ByteVector MemoryStore::handle(const Node& node) const {
  ByteVector bytes(8);
  store_be32(bytes.data(), static_cast<uint32_t>(node.id >> 32));
  store_be32(bytes.data() + 4, static_cast<uint32_t>(node.id));
  return bytes;
}

Answer<NodePtr> MemoryStore::find(const FileSystem& fs, ConstBytes handle) {
  if (handle.size() != 8) return refuse(NFS4ERR_BADHANDLE);
  const NodeId id = NodeId{load_be32(handle.data())} << 32 | load_be32(handle.data() + 4);
  if (id >= *next_id_) return refuse(NFS4ERR_BADHANDLE);
  NodePtr node = find(id);
  if (node == nullptr) return refuse(NFS4ERR_STALE);
  if (node->fs != &fs) return refuse(NFS4ERR_BADHANDLE);
  return node;
}

NodePtr MemoryStore::find(NodeId id) const {
  const auto at = nodes_.find(id);
  return at == nodes_.end() ? nullptr : at->second;
}

nfsstat4 MemoryStore::refresh(Node& node) {
  return nodes_.contains(node.id) ? NFS4_OK : NFS4ERR_STALE;
}

Answer<NodePtr> MemoryStore::child(Node& dir, std::string_view name) {
  const Directory::Entry* entry = in_memory(dir).names.find(name);
  if (entry == nullptr) return refuse(NFS4ERR_NOENT);
  return find(entry->node);
}

Answer<NodePtr> MemoryStore::parent(Node& dir) {
  return find(in_memory(dir).parent);
}

Answer<NamedNode> MemoryStore::next(Node& dir, uint64_t cookie) {
  const Directory::Entry* entry = in_memory(dir).names.next(cookie);
  if (entry == nullptr) return NamedNode{};
  return NamedNode{entry->cookie, entry->name, find(entry->node)};
}

bool MemoryStore::issued(const Node& dir, uint64_t cookie) const {
  return in_memory(dir).names.issued(cookie);
}

Answer<NodePtr> MemoryStore::create(Node& dir, std::string_view name, const Initial& initial,
                                    const Principal&) {
  Directory& names = in_memory(dir).names;
  if (names.find(name) != nullptr) return refuse(NFS4ERR_EXIST);
  if (dir.fs->read_only) return refuse(NFS4ERR_ROFS);
  if (dir.links == 0) return refuse(NFS4ERR_NOENT);  // the directory itself has been removed
  if (dir.fs->files_used >= dir.fs->files_total || !room_around(*dir.fs, name.size() + initial.target.size()))
    return refuse(NFS4ERR_NOSPC);
  if (initial.type == NF4DIR && dir.links >= dir.fs->max_links) return refuse(NFS4ERR_MLINK);
  NodePtr node = make(*dir.fs, initial);
  if (node->is_directory()) {
    in_memory(*node).parent = dir.id;
    ++dir.links;
  }
  insert(dir, name, node->id);
  touch(dir, true);
  return node;
}

nfsstat4 MemoryStore::link(Node& node, Node& dir, std::string_view name, const Principal&) {
  Directory& names = in_memory(dir).names;
  if (names.find(name) != nullptr) return NFS4ERR_EXIST;
  if (dir.fs->read_only) return NFS4ERR_ROFS;
  if (dir.links == 0 || node.links == 0) return NFS4ERR_NOENT;
  if (node.links >= node.fs->max_links) return NFS4ERR_MLINK;
  if (!room_around(*dir.fs, name.size())) return NFS4ERR_NOSPC;
  ++node.links;
  touch(node, false);
  insert(dir, name, node.id);
  touch(dir, true);
  return NFS4_OK;
}

bool MemoryStore::room_around(const FileSystem& fs, size_t text_bytes) {
  const uint64_t most = std::max<uint64_t>(fs.bytes_total / 4, 1u << 20);
  return fs.bytes_around + kObjectBytes + kNameBytes + text_bytes <= most;
}

void MemoryStore::insert(Node& dir, std::string_view name, NodeId node) {
  in_memory(dir).names.insert(name, node);
  dir.fs->bytes_around += kNameBytes + name.size();
}

void MemoryStore::erase(Node& dir, std::string_view name) {
  in_memory(dir).names.erase(name);
  dir.fs->bytes_around -= kNameBytes + name.size();
}

// Takes one name away.
void MemoryStore::unlink(MemoryNode& node) {
  node.links = node.is_directory() ? 0 : node.links - 1;
  touch(node, false);
  if (node.links == 0 && (node.holds == 0 || !preserve_unlinked_)) drop(node);
}

void MemoryStore::drop(Node& node) {
  node.fs->bytes_used -= in_memory(node).data.allocated_bytes();
  node.fs->bytes_around -= kObjectBytes + in_memory(node).target.size();
  --node.fs->files_used;
  // A state may still refer to the node, for example a revoked one. The content is freed at once.
  in_memory(node).data = SparseFile();
  in_memory(node).target = {};
  nodes_.erase(node.id);  // the caller may hold the last reference
}

nfsstat4 MemoryStore::remove(Node& dir, std::string_view name, const Principal&) {
  Directory& names = in_memory(dir).names;
  const Directory::Entry* entry = names.find(name);
  if (entry == nullptr) return NFS4ERR_NOENT;
  if (dir.fs->read_only) return NFS4ERR_ROFS;
  const NodePtr node = find(entry->node);
  if (node->covered_by != nullptr) return NFS4ERR_FILE_OPEN;  // an export is mounted there
  if (!in_memory(*node).names.empty()) return NFS4ERR_NOTEMPTY;
  erase(dir, name);
  if (node->is_directory()) --dir.links;
  touch(dir, true);
  unlink(in_memory(*node));
  return NFS4_OK;
}

bool MemoryStore::inside(const Node& dir, NodeId ancestor) const {
  const Node* at = &dir;
  while (at->id != ancestor) {
    const NodePtr up = find(in_memory(*at).parent);
    if (up == nullptr) return false;
    at = up.get();
  }
  return true;
}

nfsstat4 MemoryStore::rename(Node& from, std::string_view old_name, Node& to, std::string_view new_name,
                             const Principal&) {
  Directory& from_names = in_memory(from).names;
  Directory& to_names = in_memory(to).names;
  const Directory::Entry* source = from_names.find(old_name);
  if (source == nullptr) return NFS4ERR_NOENT;
  if (from.fs->read_only) return NFS4ERR_ROFS;
  const NodePtr node = find(source->node);
  const Directory::Entry* target = to_names.find(new_name);
  const NodePtr victim = target != nullptr ? find(target->node) : nullptr;
  if (node == victim) return NFS4_OK;  // two names of one object: "MUST perform no action"
  if (node->is_directory() && inside(to, node->id)) return NFS4ERR_INVAL;
  if (node->covered_by != nullptr) return NFS4ERR_FILE_OPEN;
  if (to.links == 0) return NFS4ERR_NOENT;
  if (victim != nullptr) {
    if (victim->is_directory() != node->is_directory()) return NFS4ERR_EXIST;
    if (victim->covered_by != nullptr || !in_memory(*victim).names.empty()) return NFS4ERR_EXIST;
  } else if (node->is_directory() && &from != &to && to.links >= to.fs->max_links) {
    return NFS4ERR_MLINK;
  }

  erase(from, old_name);
  if (victim != nullptr) {
    to_names.replace(new_name, node->id);
  } else {
    insert(to, new_name, node->id);
  }
  if (node->is_directory()) {
    --from.links;
    if (victim == nullptr) ++to.links;
    in_memory(*node).parent = to.id;
  }
  touch(*node, false);
  touch(from, true);
  if (&to != &from) touch(to, true);
  if (victim != nullptr) unlink(in_memory(*victim));
  return NFS4_OK;
}

nfsstat4 MemoryStore::set(Node& node, const NewAttributes& a, const Principal&) {
  if (a.uid) node.uid = *a.uid;
  if (a.gid) node.gid = *a.gid;
  if (a.mode) node.mode = *a.mode;
  if (!a.empty()) touch(node, false);
  const auto resolve = [&](const settime4& t) {
    return t.set_it == SET_TO_CLIENT_TIME4 ? t.time : node.changed;
  };
  if (a.accessed) node.accessed = resolve(*a.accessed);
  if (a.modified) node.modified = resolve(*a.modified);
  return NFS4_OK;
}

void MemoryStore::set_acl(Node& node, std::vector<nfsace4> acl) {
  in_memory(node).acl = std::move(acl);
  node.has_acl = !in_memory(node).acl.empty();
  touch(node, false);
}

std::vector<nfsace4> MemoryStore::acl(const Node& node) {
  if (node.has_acl) return in_memory(node).acl;
  const auto allowing = [](uint32_t bits, const char* who) {
    uint32_t mask = ACE4_READ_ATTRIBUTES | ACE4_READ_ACL;
    for (const auto& [bit, ace] : kAces) {
      if ((bits & bit) != 0) mask |= ace;
    }
    return nfsace4{ACE4_ACCESS_ALLOWED_ACE_TYPE, 0, mask, who};
  };
  return {allowing(node.mode >> 6, "OWNER@"), allowing(node.mode >> 3, "GROUP@"),
          allowing(node.mode, "EVERYONE@")};
}

// RFC 8881 section 6.2.1: "Each ACE is processed until all of the bits of the requester's access have been
// ALLOWED. Once a bit (see below) has been ALLOWED by an ACCESS_ALLOWED_ACE, it is no longer considered in
// the processing of later ACEs."
uint32_t MemoryStore::acl_permissions(const Node& node, const Principal& who) {
  const auto concerns = [&](const nfsace4& ace) {
    if ((ace.flag & ACE4_IDENTIFIER_GROUP) != 0)
      return ace.who == "GROUP@" ? who.in_group(node.gid) : ace.who == std::to_string(who.gid);
    return ace.who == "EVERYONE@" || (ace.who == "OWNER@" && who.uid == node.uid) ||
           ace.who == std::to_string(who.uid);
  };
  uint32_t allowed = 0, decided = 0;
  for (const nfsace4& ace : in_memory(node).acl) {
    if ((ace.flag & ACE4_INHERIT_ONLY_ACE) != 0 || !concerns(ace)) continue;
    for (const auto& [bit, mask] : kAces) {
      if ((ace.access_mask & mask) == 0 || (decided & bit) != 0) continue;
      decided |= bit;
      if (ace.type == ACE4_ACCESS_ALLOWED_ACE_TYPE) allowed |= bit;
    }
  }
  return allowed;
}

Answer<size_t> MemoryStore::read(Node& file, uint64_t offset, size_t bytes, ByteVector& to) {
  file.accessed = now_();
  return in_memory(file).data.read(offset, bytes, to);
}

nfsstat4 MemoryStore::write(Node& file, uint64_t offset, ConstBytes data, bool stable, const Principal&) {
  SparseFile& content = in_memory(file).data;
  const uint64_t growth = content.growth(offset, data.size());
  if (growth > file.fs->bytes_total - std::min(file.fs->bytes_used, file.fs->bytes_total))
    return NFS4ERR_NOSPC;
  content.write(offset, data, stable);
  file.fs->bytes_used += growth;
  touch(file, true);
  return NFS4_OK;
}

nfsstat4 MemoryStore::resize(Node& file, uint64_t size, const Principal&) {
  SparseFile& content = in_memory(file).data;
  file.fs->bytes_used -= content.allocated_bytes();
  content.resize(size);
  file.fs->bytes_used += content.allocated_bytes();
  touch(file, true);
  return NFS4_OK;
}

nfsstat4 MemoryStore::commit(Node& file, uint64_t offset, uint64_t length) {
  in_memory(file).data.commit(offset, length);
  return NFS4_OK;
}

Answer<std::string> MemoryStore::read_link(Node& link, const Principal&) {
  return in_memory(link).target;
}

void MemoryStore::touch(Node& node, bool data) {
  ++node.change;
  node.changed = now_();
  if (data) node.modified = node.changed;
  measure_content(in_memory(node));
}

void MemoryStore::release(Node& node) {
  if (node.holds > 0) --node.holds;
  if (node.holds == 0 && node.links == 0 && find(node.id) != nullptr) drop(node);
}

void MemoryStore::crash(bool lose_unstable) {
  for (auto& [id, node] : nodes_) {
    SparseFile& content = in_memory(*node).data;
    node->holds = 0;
    if (!lose_unstable) {
      content.commit(0, 0);
      continue;
    }
    node->fs->bytes_used -= content.allocated_bytes();
    // Different content must not appear as the same version.
    if (content.crash()) touch(*node, true);
    node->fs->bytes_used += content.allocated_bytes();
  }
}

void MemoryStore::forget_unlinked() {
  std::vector<NodePtr> gone;
  for (const auto& [id, node] : nodes_) {
    if (node->links == 0 && node->holds == 0) gone.push_back(node);
  }
  for (const NodePtr& node : gone) drop(*node);
}

}  // namespace nfsrdma::filer::tree

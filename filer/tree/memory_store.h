// SPDX-License-Identifier: Apache-2.0
// MemoryStore: file systems in memory with POSIX rules; also the pseudo file system. Tree owns it. Under the
// server's lock; never blocks.
//
// Node IDs are never reused, so a filehandle of a removed object is NFS4ERR_STALE for ever.
//
// The size of a file system limits its data. Objects, names and link texts may take a quarter of that size in
// addition, at least 1 MiB. Data that unstable writes have overwritten is kept too until COMMIT; it is never
// more than the data itself.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "filer/tree/directory.h"
#include "filer/tree/sparse_file.h"
#include "filer/tree/store.h"

namespace nfsrdma::filer::tree {

struct MemoryNode final : Node {
  SparseFile data;                 // NF4REG
  Directory names;                 // NF4DIR
  std::string target;              // NF4LNK
  NodeId parent = 0;               // NF4DIR: the node ID of ".."; 0 for the root of a file system
  std::vector<nfs4::nfsace4> acl;  // valid if has_acl
};

class MemoryStore final : public Store {
 public:
  MemoryStore(std::function<nfs4::nfstime4()> now, std::shared_ptr<NodeId> next_id);

  // Creates the root of `fs` in this store. The first one is root().
  NodePtr make_root(FileSystem& fs, uint32_t mode);
  NodePtr root() const { return root_; }
  // Creates a directory on the way to an export, even in a read-only or full file system.
  NodePtr make_path(Node& dir, std::string_view name);
  // True: open files survive the removal of their names. False: they are gone at once.
  void preserve_unlinked(bool preserve) { preserve_unlinked_ = preserve; }

  ByteVector handle(const Node& node) const override;
  Answer<NodePtr> find(const FileSystem& fs, ConstBytes handle) override;
  Status refresh(Node& node) override;
  void measure(FileSystem&) override {}
  uint32_t acl_permissions(const Node& node, const Principal& who) override;
  std::vector<nfs4::nfsace4> acl(const Node& node) override;

  Answer<NodePtr> child(Node& dir, std::string_view name) override;
  Answer<NodePtr> parent(Node& dir) override;
  Answer<NamedNode> next(Node& dir, uint64_t cookie) override;
  bool issued(const Node& dir, uint64_t cookie) const override;

  Answer<NodePtr> create(Node& dir, std::string_view name, const Initial& initial,
                         const Principal& who) override;
  Status link(Node& node, Node& dir, std::string_view name, const Principal& who) override;
  Status remove(Node& dir, std::string_view name, const Principal& who) override;
  Status rename(Node& from, std::string_view old_name, Node& to, std::string_view new_name,
                const Principal& who) override;
  Status set(Node& node, const NewAttributes& attributes, const Principal& who) override;
  // Entries apply to user numbers, OWNER@, GROUP@ and EVERYONE@; other names match nobody.
  void set_acl(Node& node, std::vector<nfs4::nfsace4> acl);

  Answer<size_t> read(Node& file, uint64_t offset, size_t bytes, ByteVector& to) override;
  Status write(Node& file, uint64_t offset, ConstBytes data, bool stable, const Principal& who) override;
  Status resize(Node& file, uint64_t size, const Principal& who) override;
  Status commit(Node& file, uint64_t offset, uint64_t length) override;
  Answer<std::string> read_link(Node& link, const Principal& who) override;
  void accessed(Node& node) override { node.accessed = now_(); }

  void release(Node& node) override;
  void crash(bool lose_unstable) override;
  void forget_unlinked() override;

 private:
  NodePtr find(NodeId id) const;  // null if the object is gone
  NodePtr make(FileSystem& fs, const Initial& initial);
  // Changes the change attribute and ctime; mtime too if `data` is set.
  void touch(Node& node, bool data);
  void unlink(MemoryNode& node);
  void drop(Node& node);
  // Whether there is room for one more object or name with a text of this length.
  static bool room_around(const FileSystem& fs, size_t text_bytes);
  void insert(Node& dir, std::string_view name, NodeId node);
  void erase(Node& dir, std::string_view name);
  bool inside(const Node& dir, NodeId ancestor) const;

  std::function<nfs4::nfstime4()> now_;
  std::shared_ptr<NodeId> next_id_;
  std::unordered_map<NodeId, NodePtr> nodes_;
  NodePtr root_;
  bool preserve_unlinked_ = true;
};

}  // namespace nfsrdma::filer::tree

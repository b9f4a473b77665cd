// SPDX-License-Identifier: Apache-2.0
// Tree: the file systems the server exports, and the pseudo file system that leads to them (RFC 8881
// section 7.3).
//
// Each export is a file system of its own with its own fsid, kept by a store: memory, or a directory of the
// host; "/" may be exported itself, from memory. The tree stands for the server's disk: it survives
// Server::restart(), except for what was not committed. Filehandles are persistent and say nothing about
// names.
//
// Who may do what is not decided here (access.h), nor what is locked or delegated (state/). All functions
// answer with the nfsstat4 of RFC 8881 section 15.2. Names are checked here: empty, or not UTF-8 where that
// is demanded, is INVAL, "." and ".." are BADNAME, '/' and NUL are BADCHAR, longer than the file system's
// limit is NAMETOOLONG.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "filer/tree/host_export.h"
#include "filer/tree/memory_store.h"
#include "filer/tree/store.h"
#include "xdr/support/result.h"

namespace nfsrdma::filer {

class Tree {
 public:
  explicit Tree(std::function<nfs4::nfstime4()> now);
  ~Tree();

  // Makes `path` (absolute; "/" too) an export with an fsid of its own, and what leads to it. The reference
  // stays valid. An existing export is returned as it is.
  FileSystem& add_export(std::string_view path);
  // The same for a directory of the host. Errors: what opening it says; EEXIST for a path that is exported.
  Result<> add_directory(const HostExport& what, const HandleKey& key);
  NodePtr root() const { return memory_.root(); }

  nfs4::nfs_fh4 handle(const Node& node) const;
  Answer<NodePtr> find(const nfs4::nfs_fh4& handle) const;  // BADHANDLE, STALE
  // Looks again: STALE when the object is gone, else its attributes are those of now.
  nfs4::nfsstat4 refresh(Node& node) const { return node.fs->store->refresh(node); }
  // Follows names from the root, into exports; for tests and tools. Null when there is no such object.
  NodePtr walk(std::string_view path) const;

  // The node itself, or the root of the export mounted on it.
  static NodePtr top(NodePtr node);

  // What a name leads to, the export that is mounted there included.
  Answer<NodePtr> lookup(Node& dir, std::string_view name) const;
  // What a name is of: the covered directory, not the export.
  Answer<NodePtr> child(Node& dir, std::string_view name) const;
  Answer<NodePtr> parent(Node& dir) const;  // NOENT at the root
  Answer<NamedNode> next(Node& dir, uint64_t cookie) const { return dir.fs->store->next(dir, cookie); }
  bool issued(const Node& dir, uint64_t cookie) const { return dir.fs->store->issued(dir, cookie); }
  // How much room there is, as of now.
  void measure(FileSystem& fs) const { fs.store->measure(fs); }

  Answer<NodePtr> create(Node& dir, std::string_view name, const Initial& initial, const Principal& who);
  nfs4::nfsstat4 link(Node& node, Node& dir, std::string_view name, const Principal& who);
  nfs4::nfsstat4 remove(Node& dir, std::string_view name, const Principal& who);
  nfs4::nfsstat4 rename(Node& from, std::string_view old_name, Node& to, std::string_view new_name,
                        const Principal& who);
  nfs4::nfsstat4 set(Node& node, const NewAttributes& attributes, const Principal& who);
  // What a change of a file's content by anyone but root does: it takes set-id bits away.
  void clear_set_id(Node& node, const Principal& caller);

  Answer<size_t> read(Node& file, uint64_t offset, size_t bytes, ByteVector& to);
  nfs4::nfsstat4 write(Node& file, uint64_t offset, ConstBytes data, bool stable, const Principal& who);
  nfs4::nfsstat4 resize(Node& file, uint64_t size, const Principal& who);
  nfs4::nfsstat4 commit(Node& file, uint64_t offset, uint64_t length);
  Answer<std::string> read_link(Node& link, const Principal& who);
  void accessed(Node& node) { node.fs->store->accessed(node); }

  // Opens keep unlinked files alive. release() of the last hold of a file without names ends it.
  void hold(Node& node) { node.fs->store->hold(node); }
  void release(Node& node) { node.fs->store->release(node); }
  // Names of open files of memory may be removed and the files live on; when false, they are gone at once.
  void preserve_unlinked(bool preserve) { memory_.preserve_unlinked(preserve); }

  // What clients are told of a node's change attribute, which may be a lie.
  nfs4::changeid4 told_change(const Node& node) const;
  void tell_changes(ChangeTold told) { change_told_ = told; }

  // The power goes: unstable data is lost in every file of memory, all holds are forgotten. Unlinked files
  // stay for reclaim until forget_unlinked().
  void crash(bool lose_unstable);
  void forget_unlinked();
  // Store::forget_removed() of all.
  void forget_removed();

  nfs4::nfsstat4 check_name(const FileSystem& fs, std::string_view name) const;

 private:
  NodePtr descend(NodePtr from, std::string_view path, bool create) const;
  FileSystem& add_file_system(Store& store);
  void cover(const NodePtr& place, const NodePtr& with);
  template <class Visit>
  void each_store(Visit visit);

  std::shared_ptr<NodeId> next_id_;  // shared by the stores
  mutable MemoryStore memory_;
  ChangeTold change_told_ = ChangeTold::kTrue;
  mutable nfs4::changeid4 restless_change_ = 0;
  std::vector<std::unique_ptr<FileSystem>> file_systems_;
  std::vector<std::unique_ptr<Store>> host_;
};

}  // namespace nfsrdma::filer

// SPDX-License-Identifier: Apache-2.0
// Tree: the exported file systems, and the pseudo file system that leads to them (RFC 8881 section 7.3).
//
// Each export is a file system with its own fsid, kept by a store: memory, or a directory of the host. "/"
// itself may be exported from memory. The tree plays the role of the server's disk: it survives
// Server::restart(), except for uncommitted data. Filehandles are persistent and independent of names.
//
// Permissions are checked elsewhere (access.h), and so are locks and delegations (state/). Errors are the
// nfsstat4 of RFC 8881 section 15.2. Names are checked here: empty is INVAL, "." and ".." are BADNAME, a '/'
// or NUL is BADCHAR, longer than the file system's limit is NAMETOOLONG.
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

namespace nfsrdma::filer::tree {

class Tree {
 public:
  explicit Tree(std::function<nfs4::nfstime4()> now);
  ~Tree();

  // Makes `path` (absolute; may be "/") an export with its own fsid, and creates the way to it. An existing
  // export is returned as it is. The reference stays valid.
  FileSystem& add_export(std::string_view path);
  // As add_export(), for a directory of the host. Errors: the error of opening it; EEXIST if `path` is in
  // use.
  Result<> add_directory(const HostExport& what, const HandleKey& key);
  // The flavors that an export accepts; until then `sys`. The pseudo file system accepts what any export
  // accepts, so every client finds its way. Does nothing if `path` leads to no export.
  void set_flavors(std::string_view path, const Flavors& flavors);
  NodePtr root() const { return memory_.root(); }

  nfs4::nfs_fh4 handle(const Node& node) const;
  Answer<NodePtr> find(const nfs4::nfs_fh4& handle) const;  // BADHANDLE, STALE
  // Updates the node's attributes. NFS4ERR_STALE if the object is gone.
  nfs4::nfsstat4 refresh(Node& node) const { return node.fs->store->refresh(node); }
  // Follows names from the root, into exports; for tests and tools. Null if there is no such object.
  NodePtr walk(std::string_view path) const;

  // The node itself, or the root of the export mounted on it.
  static NodePtr top(NodePtr node);

  // The object that a name leads to; for a mount point, the root of the export.
  Answer<NodePtr> lookup(Node& dir, std::string_view name) const;
  // The object that has the name; for a mount point, the covered directory.
  Answer<NodePtr> child(Node& dir, std::string_view name) const;
  Answer<NodePtr> parent(Node& dir) const;  // NOENT at the root
  Answer<NamedNode> next(Node& dir, uint64_t cookie) const { return dir.fs->store->next(dir, cookie); }
  bool issued(const Node& dir, uint64_t cookie) const { return dir.fs->store->issued(dir, cookie); }
  // Updates the file system's free space.
  void measure(FileSystem& fs) const { fs.store->measure(fs); }

  Answer<NodePtr> create(Node& dir, std::string_view name, const Initial& initial, const Principal& who);
  nfs4::nfsstat4 link(Node& node, Node& dir, std::string_view name, const Principal& who);
  nfs4::nfsstat4 remove(Node& dir, std::string_view name, const Principal& who);
  nfs4::nfsstat4 rename(Node& from, std::string_view old_name, Node& to, std::string_view new_name,
                        const Principal& who);
  nfs4::nfsstat4 set(Node& node, const NewAttributes& attributes, const Principal& who);
  // Clears set-ID bits after a change of the file's content by any user but root.
  void clear_set_id(Node& node, const Principal& caller);

  Answer<size_t> read(Node& file, uint64_t offset, size_t bytes, ByteVector& to);
  nfs4::nfsstat4 write(Node& file, uint64_t offset, ConstBytes data, bool stable, const Principal& who);
  nfs4::nfsstat4 resize(Node& file, uint64_t size, const Principal& who);
  nfs4::nfsstat4 commit(Node& file, uint64_t offset, uint64_t length);
  Answer<std::string> read_link(Node& link, const Principal& who);
  void accessed(Node& node) { node.fs->store->accessed(node); }

  // An unlinked file stays while opens or delegations hold it. release() of its last hold deletes it.
  void hold(Node& node) { node.fs->store->hold(node); }
  void release(Node& node) { node.fs->store->release(node); }
  // For memory. True: open files survive the removal of their names. False: they are gone at once.
  void preserve_unlinked(bool preserve) { memory_.preserve_unlinked(preserve); }

  // The change attribute as it is reported to clients; wrong on purpose with Switches::change_told.
  nfs4::changeid4 told_change(const Node& node) const;
  void tell_changes(ChangeTold told) { change_told_ = told; }

  // A power failure: unstable data in memory's files is lost if `lose_unstable` is set, and all holds are
  // dropped. Unlinked files stay for reclaim until forget_unlinked().
  void crash(bool lose_unstable);
  void forget_unlinked();
  // Calls Store::forget_removed() of all stores.
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
  bool root_is_export_ = false;
  std::vector<std::unique_ptr<FileSystem>> file_systems_;
  std::vector<std::unique_ptr<Store>> host_;
};

}  // namespace nfsrdma::filer::tree

// Tree: the file systems the server exports, in memory, by the rules of POSIX.
//
// The root file system is a read-only pseudo file system that leads to the exports (RFC 8881 section 7.3),
// each of which is a file system of its own with its own fsid; "/" may be exported itself. The tree stands
// for the server's disk: it survives Server::restart(), except for what was not committed. Filehandles are
// persistent and say nothing about names.
//
// Who may do what is not decided here (access.h), nor what is locked or delegated (state/). All functions
// answer with the nfsstat4 of RFC 8881 section 15.2. Names are checked here: empty or not UTF-8 is INVAL, "."
// and ".." are BADNAME,
// '/' and NUL are BADCHAR, longer than the file system's limit is NAMETOOLONG.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "filer/tree/node.h"

namespace nfsrdma::filer {

// What a new object begins with.
struct Initial {
  nfs4::nfs_ftype4 type = nfs4::NF4REG;
  uint32_t mode = 0644;
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::string target{};      // NF4LNK
  nfs4::specdata4 device{};  // NF4BLK, NF4CHR
};

class Tree {
 public:
  explicit Tree(std::function<nfs4::nfstime4()> now);

  // Makes `path` (absolute; "/" too) an export with an fsid of its own, and what leads to it. The reference
  // stays valid. An existing export is returned as it is.
  FileSystem& add_export(std::string_view path);
  NodePtr root() const { return root_; }

  nfs4::nfs_fh4 handle(const Node& node) const;
  Answer<NodePtr> find(const nfs4::nfs_fh4& handle) const;  // BADHANDLE, STALE
  NodePtr find(NodeId id) const;                            // null when gone
  // Follows names from the root, into exports; for tests and tools. Null when there is no such object.
  NodePtr walk(std::string_view path) const;

  // The node itself, or the root of the export mounted on it.
  NodePtr top(NodePtr node) const;

  Answer<NodePtr> lookup(const Node& dir, std::string_view name) const;
  Answer<NodePtr> parent(const Node& dir) const;  // NOENT at the root
  Answer<NodePtr> create(Node& dir, std::string_view name, const Initial& initial);
  nfs4::nfsstat4 link(Node& node, Node& dir, std::string_view name);
  nfs4::nfsstat4 remove(Node& dir, std::string_view name);
  nfs4::nfsstat4 rename(Node& from, std::string_view old_name, Node& to, std::string_view new_name);

  nfs4::nfsstat4 write(Node& file, uint64_t offset, ConstBytes data, bool stable);
  nfs4::nfsstat4 resize(Node& file, uint64_t size);
  void accessed(Node& node) { node.accessed = now_(); }
  // The change attribute and ctime move; mtime too when `data` changed.
  void touch(Node& node, bool data);
  nfs4::nfstime4 now() const { return now_(); }

  // Opens keep unlinked files alive. release() of the last hold of a file without names ends it.
  void hold(Node& node) { ++node.holds; }
  void release(Node& node);
  // Names of open files may be removed and the files live on; when false, they are gone at once.
  void preserve_unlinked(bool preserve) { preserve_unlinked_ = preserve; }

  // The power goes: unstable data is lost in every file, all holds are forgotten. Unlinked files stay for
  // reclaim until forget_unlinked().
  void crash(bool lose_unstable);
  void forget_unlinked();

  nfs4::nfsstat4 check_name(const FileSystem& fs, std::string_view name) const;

 private:
  NodePtr make(FileSystem& fs, const Initial& initial);
  NodePtr descend(NodePtr from, std::string_view path, bool create);
  void unlink(Node& node);
  void drop(Node& node);
  bool inside(const Node& dir, NodeId ancestor) const;

  std::function<nfs4::nfstime4()> now_;
  std::vector<std::unique_ptr<FileSystem>> file_systems_;
  std::unordered_map<NodeId, NodePtr> nodes_;
  NodeId next_id_ = 2;
  NodePtr root_;
  bool preserve_unlinked_ = true;
};

}  // namespace nfsrdma::filer

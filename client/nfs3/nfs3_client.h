// SPDX-License-Identifier: Apache-2.0
// Nfs3Filesystem: the NFSv3 client, one per mount. The methods are in fs_*.cc, by subject. Private to
// client/nfs3; others create one through client/api/make_filesystem.h.
//
// Every reply brings attributes, and that of a change also some from before it (weak cache consistency, RFC
// 1813 section 2.6). They replace NFSv4's change_info4, but the server does not guarantee that they are
// atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/api/make_filesystem.h"
#include "client/core/attributes/exports.h"
#include "client/core/caching_filesystem.h"
#include "client/core/nodes/open_files.h"
#include "client/nfs3/node.h"
#include "client/nfs3/procedures.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs3 {

class Nfs3Filesystem final : public CachingFilesystem, private Protocol {
 public:
  Nfs3Filesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options);
  ~Nfs3Filesystem() override;

  Task<Result<Entry>> mount(FrontEnd* front_end) override;
  Task<bool> unmount(Duration patience) override;
  Task<Result<AttributesReply>> setattr(RequestContext ctx, NodeRef node, SetAttributes set,
                                        OpenFileRef file) override;
  Task<Result<std::string>> readlink(RequestContext ctx, NodeRef node) override;
  Task<Result<Entry>> mknod(RequestContext ctx, NodeRef directory, std::string name, uint32_t mode,
                            uint32_t rdev_major, uint32_t rdev_minor) override;
  Task<Result<Entry>> mkdir(RequestContext ctx, NodeRef directory, std::string name, uint32_t mode) override;
  Task<Result<Entry>> symlink(RequestContext ctx, NodeRef directory, std::string name,
                              std::string target) override;
  Task<Result<Entry>> link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) override;
  Task<Result<OpenReply>> open(RequestContext ctx, NodeRef node, int flags) override;
  Task<Result<CreateReply>> create(RequestContext ctx, NodeRef directory, std::string name, uint32_t mode,
                                   int flags) override;
  Task<Result<>> flush(RequestContext ctx, OpenFileRef file, uint64_t lock_owner) override;
  Task<> release(RequestContext ctx, OpenFileRef file) override;
  Task<Result<FilesystemStatus>> statfs(RequestContext ctx, NodeRef node) override;
  Task<Result<Lock>> getlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock) override;
  Task<Result<>> setlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock, bool wait) override;
  Task<Result<>> flock(RequestContext ctx, OpenFileRef file, uint64_t owner, LockType type,
                       bool wait) override;
  bool soft_timed_out() const override;
  bool responding() const override;
  Statistics statistics() const override;

 private:
  // --- fs_attributes.cc ---
  // As stored in the attribute cache: with an st_ino that is unique in this mount.
  Attributes as_cached(const nfs3::FileAttributes& from);
  uint32_t export_of(const nfs3::FileAttributes& from);
  // Stores a reply's attributes in the cache. If it has none, they are fetched when they are next needed.
  Task<bool> note(NodeRef node, nfs3::PostAttributes from, uint64_t order, Cause cause,
                  std::optional<uint64_t> before = {});
  // Stores the attributes after our change of a file. If no other change lies between the cached attributes
  // and `wcc`, it was ours alone.
  Task<> note_own(NodeRef node, nfs3::Wcc wcc, uint64_t order);
  // The same for our change of a directory.
  Task<NameBelief> note_change(NodeRef directory, nfs3::Wcc wcc, uint64_t order);
  // The directory's change attribute under which its names are known; 0: none.
  static uint64_t names_change(const NodeRef& directory);
  // The epoch for names in a reply with the directory's attributes. 0 if these differ from the ones before.
  static uint64_t epoch_of(const NodeRef& directory, uint64_t before, const nfs3::PostAttributes& after);
  Error failed(const NodeRef& node, uint32_t status, const char* op);
  Task<Result<>> fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) override;
  Task<Result<uint32_t>> ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) override;
  // ACCESS; stores its attributes with `cause`. `good`: the result of record().
  Task<Result<uint32_t>> ask_access_for(RequestContext ctx, NodeRef node, Cause cause, bool* good);

  // --- fs_names.cc ---
  Task<Result<Entry>> lookup_on_server(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<>> remove_on_server(RequestContext ctx, NodeRef directory, std::string name,
                                  bool is_directory) override;
  Task<Result<>> rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                  NodeRef to_directory, std::string to) override;
  // Stores what the reply to CREATE, MKDIR, SYMLINK or MKNOD contains, and returns the new entry.
  Task<Result<Entry>> created(RequestContext ctx, NodeRef directory, std::string name,
                              Result<nfs3::ObjectAnswer> answer, uint64_t order, const char* op, Cause cause);
  // The Node of a reply's file handle; its attributes are stored, or fetched.
  Task<Result<NodeRef>> object(RequestContext ctx, const nfs3::ObjectAnswer& answer, uint64_t order,
                               Cause cause);
  // The caller of a change, with the flag that says that nobody waits for it any more.
  static nfs3::Procedures::Caller caller_of(const RequestContext& ctx) {
    return {ctx.credential, ctx.cancellation ? &ctx.cancellation->flag() : nullptr};
  }
  Result<> check_new_name(const std::string& name, const char* op) const;

  // --- fs_open.cc ---
  OpenFileRef make_open(const NodeRef& node, const std::shared_ptr<Nfs3FileState>& file,
                        const RequestContext& ctx, int flags) const;
  // Sets what EXCLUSIVE cannot carry (RFC 1813 section 3.3.8).
  Task<Result<>> finish_exclusive(RequestContext ctx, NodeRef node, uint32_t mode);
  // CREATE found that the file exists.
  Task<Result<CreateReply>> open_existing(RequestContext ctx, NodeRef directory, std::string name, int flags);
  std::vector<NodeRef> files_in_use() const override { return files_.all(); }

  FileLimits limits_of(const NodeRef&) const override { return limits_; }
  Task<Result<Entry>> link_on_server(RequestContext ctx, NodeRef node, NodeRef directory,
                                     std::string name) override {
    return link(std::move(ctx), std::move(node), std::move(directory), std::move(name));
  }

  // --- fs_io.cc ---
  Result<> usable(const CachedOpen&, const IoAccount&) const override { return {}; }
  Task<Result<ReadPiece>> read_piece(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                     Slice destination, ReadFor purpose) override;
  Task<Result<Written>> write_on_server(NodeRef node, CachedFileRef file, IoAccount account, uint64_t offset,
                                        Slice data, nfs4::stable_how4 stable) override;
  Task<Result<nfs4::verifier4>> commit_on_server(NodeRef node, rpc::CredentialPtr credential, uint64_t offset,
                                                 uint64_t end) override;
  Task<Result<>> read_entries(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus) override;
  uint64_t epoch() const override { return epoch_.load(std::memory_order_acquire); }

  // --- fs_mount.cc ---
  Task<Result<net::Endpoint>> resolve(Loop& loop, std::string host);
  Task<Result<net::Endpoint>> find_server(Loop& loop);
  // Finds the ports of NFS and MOUNT, and the root's file handle.
  Task<Result<std::string>> find_export();
  Task<Result<>> connect_all();
  Task<Result<Entry>> read_root(std::string handle);
  Task<> write_back_everything();
  Task<> farewell();

  static std::string fh_of(const NodeRef& n) { return nfs3_node(n).fh(); }

  Nfs3NodeTable nodes_;
  Exports exports_;
  std::vector<std::unique_ptr<nfs3::RpcClient>> clients_;  // by loop
  nfs3::Procedures server_{clients_};
  std::atomic<uint64_t> epoch_{1};  // counts connections: the server may have restarted before any new one
  OpenFiles<Nfs3Node, Nfs3FileState> files_;
  Mutex mutex_;
  std::optional<net::Endpoint> address_ NFSRDMA_GUARDED_BY(mutex_);  // with NFS's port
  net::Endpoint mountd_;                                             // fixed after mount()
  FileLimits limits_;                                                // fixed after mount()
  bool mounted_ = false;
};

}  // namespace nfsrdma::client::nfs3

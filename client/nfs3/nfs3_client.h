// SPDX-License-Identifier: Apache-2.0
// Nfs3Filesystem: the NFSv3 client, one per mount. The methods are in fs_*.cc, by subject; what the services
// ask the server is in Nfs3Protocol. Private to client/nfs3; others create one through
// client/api/make_filesystem.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/api/make_filesystem.h"
#include "client/core/caching_filesystem.h"
#include "client/core/nodes/open_files.h"
#include "client/nfs3/nfs3_protocol.h"
#include "client/nfs3/node.h"
#include "client/nfs3/procedures.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs3 {

class Nfs3Filesystem final : public CachingFilesystem {
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
  // The error for a status. After ESTALE the names of `node` are looked up again (AttributeService::gone()).
  Error failed(const NodeRef& node, uint32_t status, const char* op) {
    return attributes_.gone(node, nfs3::nfs3_error(status, op));
  }

  // --- fs_names.cc ---
  // Stores what the reply to CREATE, MKDIR, SYMLINK or MKNOD contains, and returns the new entry.
  Task<Result<Entry>> created(RequestContext ctx, NodeRef directory, std::string name,
                              Result<nfs3::ObjectAnswer> answer, uint64_t order, const char* op, Cause cause);

  // --- fs_open.cc ---
  OpenFileRef make_open(const NodeRef& node, const std::shared_ptr<Nfs3FileState>& file,
                        const RequestContext& ctx, int flags) const;
  // Sets what EXCLUSIVE cannot carry (RFC 1813 section 3.3.8).
  Task<Result<>> finish_exclusive(RequestContext ctx, NodeRef node, uint32_t mode);
  // Opens a file that CREATE found to exist.
  Task<Result<CreateReply>> open_existing(RequestContext ctx, NodeRef directory, std::string name, int flags);

  // --- fs_mount.cc ---
  Task<Result<net::Endpoint>> resolve(Loop& loop, std::string host);
  Task<Result<net::Endpoint>> find_server(Loop& loop);
  // Finds the ports of NFS and MOUNT, and the root's file handle.
  Task<Result<std::string>> find_export();
  Task<Result<>> connect_all();
  Task<Result<Entry>> read_root(std::string handle);
  Task<> write_back_everything();
  Task<> farewell();

  Nfs3NodeTable nodes_;
  std::vector<std::unique_ptr<nfs3::RpcClient>> clients_;  // by loop
  nfs3::Procedures server_{clients_};
  OpenFiles<Nfs3Node, Nfs3FileState> files_;
  Nfs3Protocol protocol_;
  Mutex mutex_;
  std::optional<net::Endpoint> address_ NFSRDMA_GUARDED_BY(mutex_);  // with NFS's port
  net::Endpoint mountd_;                                             // fixed after mount()
  bool mounted_ = false;
};

}  // namespace nfsrdma::client::nfs3

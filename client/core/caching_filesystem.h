// SPDX-License-Identifier: Apache-2.0
// CachingFilesystem: what every version of NFS has in common above the protocol. It composes the services of
// this folder: attributes, names, access, sweeps, reading, writing, removals and directories.
//
// It asks the server through Protocol. A version of NFS (client/nfs4, client/nfs3) provides that, its Nodes
// and open files, and derives from this class for the operations that differ. A method runs on its caller's
// loop. What loops share is in CachedNode (its mutex), CachedFile and the name cache.
//
// Change attributes are NFSv4's. A protocol without them derives values that change whenever the file
// changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/api/filesystem.h"
#include "client/api/options.h"
#include "client/core/access_service.h"
#include "client/core/attribute_service.h"
#include "client/core/directory_service.h"
#include "client/core/io_limits.h"
#include "client/core/kept_data.h"
#include "client/core/mount_parts.h"
#include "client/core/name_service.h"
#include "client/core/process_credential.h"
#include "client/core/protocol.h"
#include "client/core/read_ahead_service.h"
#include "client/core/reader.h"
#include "client/core/removals.h"
#include "client/core/sweeper.h"
#include "client/core/write_back.h"
#include "client/core/write_room.h"
#include "client/core/writer.h"

namespace nfsrdma::client {

class CachingFilesystem : public Filesystem {
 public:
  Task<Result<Entry>> lookup(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<AttributesReply>> getattr(RequestContext ctx, NodeRef node, OpenFileRef file) override;
  Task<Result<>> access(RequestContext ctx, NodeRef node, int mask) override;
  Task<Result<>> unlink(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<>> rmdir(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<Entry>> link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) override;
  Task<Result<>> rename(RequestContext ctx, NodeRef from_directory, std::string from, NodeRef to_directory,
                        std::string to, unsigned flags) override;
  Task<Result<ReadReply>> read(RequestContext ctx, OpenFileRef file, uint64_t offset, size_t size) override;
  Task<Result<>> write(RequestContext ctx, OpenFileRef file, uint64_t offset, Slice data) override;
  Task<Result<>> fsync(RequestContext ctx, OpenFileRef file, bool data_only) override;
  Task<Result<OpenDirectoryReply>> opendir(RequestContext ctx, NodeRef node) override;
  Task<Result<DirectoryPage>> readdir(RequestContext ctx, OpenDirectoryRef directory, uint64_t offset,
                                      size_t bytes, bool plus) override;
  Task<> releasedir(OpenDirectoryRef directory) override;
  Task<Result<>> fsyncdir(RequestContext ctx, OpenDirectoryRef directory) override;
  std::optional<Error> take_error(const OpenFileRef& file) override;
  int soft_errno() const override;
  void memory_refused() override;
  Whereabouts whereabouts(const NodeRef& node) const override;
  // The machine was suspended. Clock and the kernel's timeouts stood still meanwhile, so everything that is
  // valid only because of a timeout expires. Any thread.
  void doubt_ages();

 protected:
  // `protocol` and `table` may be members of the derived class: neither constructor nor destructor uses them.
  CachingFilesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options, CachedNodeTable& table,
                    Protocol& protocol);

  // Runs twice a second on loop 0 until the mount ends: sends written data that was held long enough, commits
  // old uncommitted data, and gives memory back.
  Task<> run_periodically();

  // Whether write(2) through a descriptor with these open(2) flags returns only when the data is on the
  // server.
  bool synchronous(int flags) const;
  CacheStatistics cache_statistics() const;
  Duration age() const { return Clock::now() - created_; }

  const ClientOptions options_;
  const rpc::CredentialPtr machine_;
  KernelView kernel_;
  std::atomic<bool> stopping_{false};
  const MountParts parts_;
  Timer held_timer_;

 private:
  // The error for a failed LOOKUP in the directory. ESTALE becomes ENOENT if the directory, or one above it,
  // is no longer under its own name. The reason: after ESTALE the kernel repeats the path walk, but not for a
  // name to be created.
  Task<Error> lookup_error(RequestContext ctx, NodeRef directory, Error error);
  // The entry from the name cache or from a sweep (names/sweeps.h), if it is valid: no LOOKUP is needed.
  Task<Result<std::optional<Entry>>> known_entry(RequestContext ctx, NodeRef directory,
                                                 const std::string& name);
  // Called twice a second. Adjusts the limits of the data cache (cache_bytes, or less if memory or lockable
  // memory is short) and of written data. Frees buffers that have been idle for a while, and swept names that
  // no application has looked up.
  void give_memory_back();

 protected:
  KeptData kept_;
  AttributeService attributes_;
  AccessService access_;
  NameService names_;
  WriteRoom room_;
  WriteBack write_back_;
  Writer writer_;
  ReadAheadService ahead_;
  Reader reader_;
  Sweeper sweeper_;
  Removals removals_;
  DirectoryService directories_;

 private:
  const TimePoint created_ = Clock::now();
};

}  // namespace nfsrdma::client

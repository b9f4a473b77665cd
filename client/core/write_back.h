// SPDX-License-Identifier: Apache-2.0
// WriteBack: brings written data from write(2) to stable storage. FileWrites decides for each file; this
// class sends the requests. One per mount; any loop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "client/core/attribute_service.h"
#include "client/core/kept_data.h"
#include "client/core/mount_parts.h"
#include "client/core/write_place.h"
#include "client/core/write_room.h"
#include "client/core/written_bytes.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client {

class WriteBack {
 public:
  WriteBack(const MountParts& parts, AttributeService& attributes, KeptData& kept, WriteRoom& room)
      : buffers_(parts.buffers),
        options_(parts.options),
        table_(parts.table),
        kernel_(parts.kernel),
        protocol_(parts.protocol),
        stopping_(parts.stopping),
        attributes_(attributes),
        kept_(kept),
        room_(room) {}
  WriteBack(const WriteBack&) = delete;
  WriteBack& operator=(const WriteBack&) = delete;

  // WRITEs all of `data`, in pieces of wsize, and records the file's attributes.
  Task<Result<Written>> write_on_server(NodeRef node, CachedFileRef file, IoAccount account, uint64_t offset,
                                        Slice data, nfs4::stable_how4 stable);
  // COMMIT of [offset, end), which is not empty. Records the file's attributes.
  Task<Result<nfs4::verifier4>> commit_on_server(NodeRef node, rpc::CredentialPtr credential, uint64_t offset,
                                                 uint64_t end);
  std::optional<Error> take_error(const OpenFileRef& file);
  void memory_refused();
  // The WRITE of the extent was answered; `sent_in`: epoch() when it was sent.
  void extent_answered(const NodeRef& node, const CachedFileRef& file, FileWrites::Extent extent,
                       uint64_t sent_in, Result<Written> written);
  // FileWrites::take_only() for a COMPOUND with a request of `user`.
  std::optional<FileWrites::Extent> take_only_extent(const CachedFileRef& file, const rpc::Credential& user);
  // Holds the data, as a new held extent or as part of one. False: the caller must send the data.
  bool gather(const NodeRef& node, const CachedFileRef& file, const IoAccount& account, uint64_t offset,
              const Slice& data);
  Task<> send_pieces(OpenFileRef open, IoAccount account, uint64_t offset, Slice data);
  // Waits for earlier writes that overlap the extent, and then admits it.
  Task<FileWrites::Extent> enter(NodeRef node, WritePlace& place, WriteExtent extent);
  // Waits until no unanswered extent overlaps [offset, end).
  Task<> settle(NodeRef node, CachedFileRef file, uint64_t offset, uint64_t end);
  // Waits until everything written before the call is answered.
  Task<> settle_all(NodeRef node, CachedFileRef file);
  Task<> settle_node(NodeRef node);
  // Waits for unanswered data beyond `offset`. False if there was none.
  Task<bool> settle_beyond(NodeRef node, CachedFileRef file, uint64_t offset);
  // Waits until the mount's limits allow to write `bytes` to the file. EINTR: the caller was cancelled.
  Task<Result<>> wait_for_room(NodeRef node, CachedFileRef file, std::shared_ptr<Cancellation> caller,
                               size_t bytes);
  Task<> commit(NodeRef node, CachedFileRef file);
  // Returns when all data is on stable storage, or an error is recorded.
  Task<> write_back(NodeRef node, CachedFileRef file);
  // The latest write error that this descriptor has not reported yet. take_error() marks it as reported.
  static Result<> unreported_error(CachedOpen& handle);
  void commit_large(const NodeRef& node, const CachedFileRef& file);
  // After a server restart, sends UNSTABLE4 data again before the file is read.
  Task<> restore_lost_writes(NodeRef node, CachedFileRef file);
  // Sends data that was held for long, and commits data that has been uncommitted for long. Called twice a
  // second.
  void send_old_writes();
  uint64_t refused_bytes() const { return refused_bytes_.load(std::memory_order_relaxed); }
  uint64_t room_errors() const { return room_errors_.load(std::memory_order_relaxed); }

 private:
  // Sends a WRITE for the extent and handles the reply.
  Task<> write_extent(NodeRef node, CachedFileRef file, FileWrites::Extent extent, nfs4::stable_how4 stable);
  void send(const NodeRef& node, const CachedFileRef& file, const FileWrites::Sends& extents);
  // Written data of a file was lost after this error.
  struct Refusal {
    Error error;
    uint64_t ino = 0;
  };
  // Counts `bytes` of the file's written data that are lost.
  Refusal note_refused(const CachedFile& file, uint64_t bytes) NFSRDMA_REQUIRES(file.cached.mutex);
  // Logs it, without the Node's mutex: looking for the file's name may end the last reference of a Node.
  // `verb`: "written" or "committed".
  void log_refused(CachedFile& file, const Refusal& refusal, const char* verb);
  // Sends every held extent. Returns the lowest serial of data that is written later.
  uint64_t send_held(const NodeRef& node, const CachedFileRef& file);
  // Sends and commits data of the file (and of others) so that waiting writes can continue.
  void make_room(const NodeRef& node, const CachedFileRef& file);
  // Commits all written data, and drops the data cache.
  Task<> free_memory();
  // Commits file after file, until the mount has less uncommitted data than the limit.
  void commit_everything_soon();
  Task<> commit_everything();
  // One COMMIT. True: the server had lost data, which was written again.
  Task<bool> commit_once(NodeRef node, CachedFileRef file);
  Task<> send_again(NodeRef node, CachedFileRef file);
  // Starts a COMMIT in the background, if `due()` and none is in progress. Calls `due` with the Node's mutex
  // held.
  template <class Due>
  void commit_soon(const NodeRef& node, const CachedFileRef& file, const Due& due);
  void commit_old();  // called only by send_old_writes()
  Task<> commit_in_background(NodeRef node, CachedFileRef file);

  BufferPool& buffers_;
  const ClientOptions& options_;
  CachedNodeTable& table_;
  const KernelView& kernel_;
  Protocol& protocol_;
  const std::atomic<bool>& stopping_;
  AttributeService& attributes_;
  KeptData& kept_;
  WriteRoom& room_;
  std::atomic<uint64_t> refused_bytes_{0};  // lost after an error
  std::atomic<uint64_t> room_errors_{0};    // ENOSPC and EDQUOT among those errors
  std::atomic<bool> committing_everything_{false};
  std::atomic<bool> freeing_{false};  // free_memory() runs
  TimePoint look_for_old_at_{};
};

}  // namespace nfsrdma::client

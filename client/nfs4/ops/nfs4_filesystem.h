// SPDX-License-Identifier: Apache-2.0
// Nfs4Filesystem: the NFSv4.1 client behind client::Filesystem, one per mount.
//
// Owns the session, the node table and the state manager. The caller owns the loops and the buffer pool,
// which outlive it. CachingFilesystem has everything that does not depend on the NFS version. The methods are
// in fs_*.cc, by subject. A method runs on its caller's loop. Methods share state in Nfs4Node (guarded by its
// mutex), in FileState and in the caches. Each action is one COMPOUND where the protocol allows it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "client/api/filesystem.h"
#include "client/api/options.h"
#include "client/core/answers.h"
#include "client/core/caching_filesystem.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/callbacks/callback.h"
#include "client/nfs4/delegations/delegations.h"
#include "client/nfs4/ops/delegation_service.h"
#include "client/nfs4/ops/export_finder.h"
#include "client/nfs4/ops/lock_service.h"
#include "client/nfs4/ops/nfs4_protocol.h"
#include "client/nfs4/ops/reply_attributes.h"
#include "client/nfs4/ops/reply_recorder.h"
#include "client/nfs4/ops/server_limits.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/state_manager.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/value_task.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {

class Nfs4Filesystem final : public CachingFilesystem, private RecoveryHooks {
 public:
  Nfs4Filesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options);
  ~Nfs4Filesystem() override;

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
  // --- fs_setattr.cc ---
  // The open whose stateid a SETATTR of the size uses: the descriptor's, if it may write; for truncate(2),
  // where `open` is null, one of the same user for writing. Null: there is none. The Node's mutex is held.
  static OpenStateRef open_for_writing(const RequestContext& ctx, const FileState* file,
                                       const OpenFileRef& open);
  // What a SETATTR's reply brings. `change_before`: the change attribute before it, if it was `asked` for.
  struct SetReply {
    std::optional<uint64_t> change_before;
    nfs4::GETATTR4res after;
    std::optional<AccessBits> rights;
  };
  Result<SetReply> take_set(Result<CompoundReply>& reply, const NodeRef& node, bool asked);
  // SETATTR in one COMPOUND with the data that must be written before it. Nothing: the SETATTR is still to be
  // sent, even if such a COMPOUND was sent.
  Task<std::optional<Result<AttributesReply>>> set_with_data(RequestContext ctx, NodeRef node,
                                                             std::shared_ptr<FileState> file,
                                                             nfs4::SETATTR4args args);

  // --- fs_names.cc ---
  Task<Result<Entry>> create_object(RequestContext ctx, NodeRef directory, std::string name,
                                    nfs4::createtype4 type, uint32_t mode);
  // The arguments of a CREATE, and the directory's ctime when it was sent.
  struct Wanted {
    nfs4::createtype4 type;
    uint32_t mode = 0;
    timespec since{};
  };
  // CREATE failed with EXIST, but the server may have executed our own request before it lost its reply
  // cache.
  Task<Result<Entry>> maybe_own_object(RequestContext ctx, NodeRef directory, std::string name, Wanted wanted,
                                       Error error);
  // Records the owner of an object that the user `uid` created: the server may squash users to another one.
  void note_owner(uint32_t uid, uint32_t owner);
  uint32_t owner_of_new(uint32_t uid) const;

  // --- fs_open.cc ---
  // What open(), create() and setattr() pass by reference outlives the call.
  //
  // Ends what would keep the server from granting the delegation that we want with an OPEN for `access`.
  // Nothing: there is nothing to wait for.
  std::optional<Task<>> make_way_for_open(const NodeRef& node, uint32_t access);
  // The server refused open() with `error`: opens once more, if an open of ours whose CLOSE is delayed may be
  // the cause.
  Task<Result<OpenReply>> open_again(const RequestContext& ctx, const NodeRef& node, int flags, Error& error);
  // ACCESS and GETATTR, for a file that an earlier OPEN has opened. PUTFH's result is taken.
  Task<Result<CompoundReply>> ask_rights(const RequestContext& ctx, const nfs4::nfs_fh4& fh);
  // What an OPEN by filehandle brought, for take_opened().
  struct Opened {
    CompoundReply& reply;    // READ's result comes next
    const Slice& room;       // for the data of that READ; empty: there was none
    const uint64_t epoch;    // Session::epoch() before the OPEN
    const uint32_t touched;  // Nfs4Node::data_touched before the OPEN
    const AccessBits& rights;
  };
  // Completes `result` after the attributes of the reply were recorded. False: the caller lacks the
  // permission that `flags` need.
  bool take_opened(const RequestContext& ctx, const Opened& opened, int flags, OpenReply& result);
  // Memory for data read with an OPEN; empty: do not read.
  Slice room_for_read_with_open(const NodeRef& node, int flags);
  // Takes READ's part of such a reply. `change`: the change attribute of its GETATTR.
  void take_read_with_open(CompoundReply& reply, Slice room, Nfs4File& handle, uint64_t change,
                           uint64_t epoch, uint32_t touched);
  // What is left of a create(): checks the caller's permission for an `old` file, which existed, and sets the
  // attributes `rest`. Closes the file after an error.
  ValueTask<Result<>> complete_created(const RequestContext& ctx, const OpenFileRef& open, int flags,
                                       bool old, const SetAttributes& rest);
  Task<Result<>> check_and_set_created(const RequestContext& ctx, const OpenFileRef& open, int flags,
                                       bool old, const SetAttributes& rest);
  // CLOSE of a file that was opened by name, if the reply lacks the handle or the attributes.
  Task<> close_unknown(nfs4::nfs_fh4 directory, std::string name, const Result<nfs4::GETFH4res>& handle,
                       nfs4::OPEN4resok opened, uint32_t access, rpc::CredentialPtr credential);

  // --- fs_open.cc, under a delegation ---
  // Nothing: an OPEN must be sent.
  Task<std::optional<Result<OpenReply>>> open_under_delegation(RequestContext ctx, NodeRef node, int flags);
  void recalled(DelegationRef delegation) override { delegating_.recalled(std::move(delegation)); }
  void delegation_ended(NodeRef node) override;

  // --- fs_io.cc ---
  Task<> resend_writes(NodeRef node) override;
  void locks_lost(NodeRef node) override;

  // --- fs_mount.cc ---
  Task<Result<Entry>> walk_to_export();
  Task<> write_back_everything();

  NodeTable nodes_;
  // The server supports the current stateid, so READ can follow OPEN (RFC 8881 section 16.2.3.1.2).
  std::atomic<bool> reads_with_open_{true};
  Exports exports_;
  IdMap ids_;
  Session session_;
  ServerLimits server_limits_;
  ReplyAttributes replies_;
  ReplyRecorder recorder_;
  Delegations delegations_;
  StateManager states_;
  CallbackServer callbacks_;
  LockService locks_;
  DelegationService delegating_;
  Nfs4Protocol protocol_;
  ExportFinder export_finder_;

  mutable Mutex owners_mutex_;
  // For note_owner(): only users whose owner differs.
  std::unordered_map<uint32_t, uint32_t> owners_ NFSRDMA_GUARDED_BY(owners_mutex_);
  bool mounted_ = false;
};

}  // namespace nfsrdma::client::nfs4

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
#include <unordered_map>

#include "client/api/filesystem.h"
#include "client/api/options.h"
#include "client/core/caching_filesystem.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/callbacks/callback.h"
#include "client/nfs4/delegations/delegations.h"
#include "client/nfs4/ops/delegation_service.h"
#include "client/nfs4/ops/export_finder.h"
#include "client/nfs4/ops/lock_service.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/state_manager.h"
#include "transport/runtime/mutex.h"

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
  // Converts fattr4 and maps the owners.
  Task<Attributes> as_cached(nfs4::fattr4 from, uint32_t export_index);
  // As record(), for attributes from the wire.
  Task<bool> apply(NodeRef node, nfs4::fattr4 from, uint64_t order, Cause cause,
                   std::optional<uint64_t> before = {});
  // Before an operation of ours: requests the change attribute, unless a promise says that nobody else
  // changes the file. Sets `asked`, which take_change_before() needs. If the GETATTR fails, so does the
  // COMPOUND.
  void ask_change_before(CompoundBuilder& b, const NodeRef& node, bool& asked) const;
  // The Cause for an operation of ours that began at `order`. If the change attribute was not requested, it
  // is kOwn only if a promise covers the whole operation; else another client may have changed the file, too.
  Cause cause_of_own(const NodeRef& node, uint64_t order, bool asked) const;
  static Result<std::optional<uint64_t>> take_change_before(CompoundReply& reply, bool asked);
  // For a COMPOUND of PUTFH, ask_change_before() and one operation: the operation's result, or the first
  // error.
  template <class Res>
  static Result<Res> take_own(Result<CompoundReply>& reply, bool asked, std::optional<uint64_t>& before) {
    if (!reply) return fail(std::move(reply.error()));
    NFSRDMA_TRY(reply->expect<nfs4::PUTFH4res>());
    auto change = take_change_before(*reply, asked);
    if (!change) return fail(std::move(change.error()));
    before = *change;
    return reply->take<Res>();
  }
  // The result of a lookup: the Node of `fh`, after its attributes `from` were stored in the cache.
  Task<Entry> make_entry(nfs4::nfs_fh4 fh, nfs4::fattr4 from, uint64_t order, Cause cause);
  Task<Result<>> fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) override;
  Task<Result<uint32_t>> ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) override;
  Task<> ask_who_searches(RequestContext ctx, NodeRef directory) override;
  // Takes the reply to GETATTR of kDirectoryAcl.
  void take_acl(CompoundReply& reply, const NodeRef& directory);

  // --- fs_setattr.cc ---
  // SETATTR in one COMPOUND with the data that must be written before it. Nothing: the SETATTR is still to be
  // sent, even if such a COMPOUND was sent.
  Task<std::optional<Result<AttributesReply>>> set_with_data(RequestContext ctx, NodeRef node,
                                                             std::shared_ptr<FileState> file,
                                                             nfs4::SETATTR4args args);

  // --- fs_names.cc, fs_remove.cc ---
  // After an operation that created the current filehandle's object: requests the directory's attributes, and
  // ACCESS of the object. ACCESS comes last, so its error does no harm. It is left out if the session allows
  // too few operations.
  void ask_of_made(CompoundBuilder& b, const nfs4::nfs_fh4& directory) const;
  static Result<nfs4::GETATTR4res> take_directory_of_made(CompoundReply& reply);
  // Stores the ACCESS result of `node` in the cache, if it comes next. `change`: the change attribute before
  // it.
  void take_access_of_made(const RequestContext& ctx, const NodeRef& node, CompoundReply& reply,
                           uint64_t change);
  // record_own_change() with change_info4 and the attributes after it (an error: none).
  Task<NameBelief> directory_changed(NodeRef directory, nfs4::change_info4 info,
                                     Result<nfs4::GETATTR4res> after, uint64_t order);
  Task<Result<Entry>> lookup_on_server(RequestContext ctx, NodeRef directory, std::string name) override;
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
  // Server-side owner of new objects, if the server squashes the user `uid` to another one.
  void note_owner(uint32_t uid, uint32_t owner);
  uint32_t owner_of_new(uint32_t uid) const;
  // Runs a request that removes `victim`'s name; `operations` is the number of its operations. If nobody here
  // has the file open, it must not stay open on the server (for a delegation, or because its CLOSE waits for
  // others): after the removal the server may reject its handle. So DELEGRETURN and CLOSE come first, in the
  // same COMPOUND if possible.
  Task<Result<CompoundReply>> run_without(NodeRef victim, Request request, uint32_t operations);
  Task<Result<>> remove_on_server(RequestContext ctx, NodeRef directory, std::string name,
                                  bool is_directory) override;
  Task<Result<>> rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                  NodeRef to_directory, std::string to) override;

  // --- fs_open.cc ---
  // Memory for data read with an OPEN; empty: do not read.
  Slice room_for_read_with_open(const NodeRef& node, int flags);
  // Takes READ's part of such a reply. `change`: the change attribute of its GETATTR.
  void take_read_with_open(CompoundReply& reply, Slice room, Nfs4File& handle, uint64_t change,
                           uint64_t epoch, uint32_t touched);
  // CLOSE of a file that was opened by name, if the reply lacks the handle or the attributes.
  Task<> close_unknown(nfs4::nfs_fh4 directory, std::string name, std::optional<nfs4::nfs_fh4> fh,
                       nfs4::OPEN4resok opened, uint32_t access, rpc::CredentialPtr credential);

  // --- fs_open.cc, under a delegation ---
  // Nothing: an OPEN must be sent.
  Task<std::optional<Result<OpenReply>>> open_under_delegation(RequestContext ctx, NodeRef node, int flags);
  void recalled(DelegationRef delegation) override { delegating_.recalled(std::move(delegation)); }
  void delegation_ended(NodeRef node) override;

  // --- fs_io.cc ---
  Result<> usable(const CachedOpen& open, const IoAccount& account) const override;
  Task<Result<ReadPiece>> read_piece(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                     Slice destination, ReadFor purpose) override;
  // Decodes READ's result, and after it the change attribute if the data is to be cached.
  static Result<ReadPiece> take_read(CompoundReply& reply, const Slice& destination, bool keeping);
  bool has_change_attributes() const override { return true; }
  bool may_read_ahead(unsigned under_way) const override;
  unsigned most_ahead_on(unsigned loop) const override;
  Task<Result<Written>> write_on_server(NodeRef node, CachedFileRef file, IoAccount account, uint64_t offset,
                                        Slice data, nfs4::stable_how4 stable) override;
  Task<Result<nfs4::verifier4>> commit_on_server(NodeRef node, rpc::CredentialPtr credential, uint64_t offset,
                                                 uint64_t end) override;
  Task<> resend_writes(NodeRef node) override;
  void locks_lost(NodeRef node) override;

  // --- fs_directory.cc ---
  Task<Result<uint32_t>> ask_access_and_list(RequestContext ctx, Listing& listing, uint32_t wanted,
                                             bool plus) override;
  Task<Result<>> read_entries(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus) override;
  nfs4::READDIR4args readdir_args(const Listing& listing, uint64_t cookie, bool plus) const;
  // Stores the attributes of the directory's GETATTR that precedes READDIR, and returns its change attribute.
  // Sets the epoch of `belief`.
  Task<Result<uint64_t>> take_listed(CompoundReply& reply, Listing& listing, NameBelief& belief);
  // Takes READDIR's entries; the READDIR started at `cookie`.
  Task<Result<>> take_entries(CompoundReply& reply, Listing& listing, uint64_t cookie, bool plus,
                              NameBelief belief);
  Task<ListedEntry> listed_entry(NodeRef directory, nfs4::entry4 from, bool plus);

  // --- fs_mount.cc ---
  Task<Result<Entry>> walk_to_export();
  // Fetches the limits of the node's file system.
  Task<Result<>> read_limits(NodeRef node);
  // The same for a node that was just looked up; once per file system below the mount's.
  Task<> learn_limits(NodeRef node);
  ExportLimits export_limits(const NodeRef& node) const;
  FileLimits limits_of(const NodeRef& node) const override;
  Task<> write_back_everything();
  nfs4::nfs_fh4 fh_of(const NodeRef& n) const { return nfs4_node(n).fh(); }
  uint64_t registrable_bytes() const override { return session_.connections().registrable_bytes(); }
  bool promises_hold() const override { return session_.lease().holds(); }
  uint64_t epoch() const override { return session_.epoch(); }
  std::vector<NodeRef> files_in_use() const override { return states_.registry().files(); }

  NodeTable nodes_;
  // The server supports the current stateid, so READ can follow OPEN (RFC 8881 section 16.2.3.1.2).
  std::atomic<bool> reads_with_open_{true};
  Exports exports_;
  ExportLimitsTable export_limits_;
  IdMap ids_;
  Session session_;
  Delegations delegations_;
  StateManager states_;
  CallbackServer callbacks_;
  LockService locks_;
  DelegationService delegating_;
  ExportFinder export_finder_;

  ExportLimits root_limits_;  // fixed after mount()
  mutable Mutex owners_mutex_;
  // For note_owner(): only users whose owner differs.
  std::unordered_map<uint32_t, uint32_t> owners_ NFSRDMA_GUARDED_BY(owners_mutex_);
  bool mounted_ = false;
};

}  // namespace nfsrdma::client::nfs4

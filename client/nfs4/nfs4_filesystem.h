// SPDX-License-Identifier: Apache-2.0
// Nfs4Filesystem: the NFSv4.1 client behind client::Filesystem, one per mount.
//
// Owns the session, the node table and the state manager; the loops and the buffer pool are the caller's and
// outlive it. What is not about the wire is CachingFilesystem's. Its methods are spread over fs_*.cc by
// subject. Every method runs on its caller's loop; what they share is in Nfs4Node (its mutex), FileState and
// the caches. One COMPOUND per action wherever the protocol allows.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "client/cache/caching_filesystem.h"
#include "client/filesystem.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/callback.h"
#include "client/nfs4/delegations.h"
#include "client/nfs4/lock_waits.h"
#include "client/nfs4/session.h"
#include "client/nfs4/state_manager.h"
#include "client/options.h"

namespace nfsrdma::client {

class Nfs4Filesystem final : public CachingFilesystem, private RecoveryHooks, private DelegationHolder {
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
  // With owners mapped.
  Task<Attributes> to_booked(nfs4::fattr4 from, uint32_t export_index);
  // As book(), from the wire.
  Task<bool> apply(NodeRef node, nfs4::fattr4 from, uint64_t order, Cause cause,
                   std::optional<uint64_t> before = {});
  // In front of an operation of ours: asks what the file is before it, unless a promise says that nobody else
  // changes it. take_change_before() of the same `asked`; an error is the COMPOUND's.
  void ask_change_before(CompoundBuilder& b, const NodeRef& node, bool& asked) const;
  // Of the operation, begun at `order`: where it was not asked, and the promise is over by now, or was void,
  // somebody else may have been there, too.
  Cause cause_of_own(const NodeRef& node, uint64_t order, bool asked) const;
  static Result<std::optional<uint64_t>> take_change_before(CompoundReply& reply, bool asked);
  // Of PUTFH, that, and an operation of ours: the operation's result, or what went wrong first.
  template <class Res>
  static Result<Res> take_own(Result<CompoundReply>& reply, bool asked, std::optional<uint64_t>& before) {
    if (!reply) return fail(std::move(reply.error()));
    NFSRDMA_TRY(reply->expect<nfs4::PUTFH4res>());
    auto change = take_change_before(*reply, asked);
    if (!change) return fail(std::move(change.error()));
    before = *change;
    return reply->take<Res>();
  }
  // As lookup() answers it: the Node of `fh` with `from` booked.
  Task<Entry> make_entry(nfs4::nfs_fh4 fh, nfs4::fattr4 from, uint64_t order, Cause cause);
  Task<Result<>> fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) override;
  Task<Result<uint32_t>> ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) override;
  Task<> ask_who_searches(RequestContext ctx, NodeRef directory) override;
  // The answer to GETATTR of kDirectoryAcl.
  void take_acl(CompoundReply& reply, const NodeRef& directory);

  // --- fs_setattr.cc ---
  // SETATTR in one COMPOUND with what is to be written before it. Nothing: it is still to be sent, also where
  // there was one such COMPOUND.
  Task<std::optional<Result<AttributesReply>>> set_with_data(RequestContext ctx, NodeRef node,
                                                             std::shared_ptr<FileState> file,
                                                             nfs4::SETATTR4args args);

  // --- fs_names.cc, fs_remove.cc ---
  // Behind what made the current filehandle's object: the directory's attributes, and ACCESS of the object.
  // ACCESS comes last, where it can spoil nothing, and is left out where the server takes few
  // operations.
  void ask_of_made(CompoundBuilder& b, const nfs4::nfs_fh4& directory) const;
  static Result<nfs4::GETATTR4res> take_directory_of_made(CompoundReply& reply);
  // Books ACCESS of `node`, if it comes next; `change` came before it.
  void take_access_of_made(const RequestContext& ctx, const NodeRef& node, CompoundReply& reply,
                           uint64_t change);
  // book_own_change() by change_info4, with attributes asked for afterwards (an error: none).
  Task<NameBelief> directory_changed(NodeRef directory, nfs4::change_info4 info,
                                     Result<nfs4::GETATTR4res> after, uint64_t order);
  Task<Result<Entry>> lookup_on_server(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<Entry>> create_object(RequestContext ctx, NodeRef directory, std::string name,
                                    nfs4::createtype4 type, uint32_t mode);
  // What a CREATE asked for, and the directory's ctime when it did.
  struct Wanted {
    nfs4::createtype4 type;
    uint32_t mode = 0;
    timespec since{};
  };
  // The server says EXIST, and may have executed our own request before it lost its memory of it.
  Task<Result<Entry>> maybe_own_object(RequestContext ctx, NodeRef directory, std::string name, Wanted wanted,
                                       Error error);
  // Whom the server makes the owner of what a user makes: another one where it squashes that user.
  void note_owner(uint32_t uid, uint32_t owner);
  uint32_t owner_of_new(uint32_t uid) const;
  // A request that takes `victim` its name, of so many operations. What nobody here has open shall not stay
  // open on the server, for the delegation's sake or for others' CLOSEs: it could not be told of by its
  // handle any more. So that ends before it, in the same COMPOUND where it can.
  Task<Result<CompoundReply>> run_without(NodeRef victim, Request request, uint32_t operations);
  Task<Result<>> remove_on_server(RequestContext ctx, NodeRef directory, std::string name,
                                  bool is_directory) override;
  Task<Result<>> rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                  NodeRef to_directory, std::string to) override;

  // --- fs_open.cc ---
  // Room for what is read with an OPEN; empty: nothing.
  Slice room_for_read_with_open(const NodeRef& node, int flags);
  // The data's part of such an OPEN's answer, whose attributes had `change`.
  void take_read_with_open(CompoundReply& reply, Slice room, Nfs4File& handle, uint64_t change,
                           uint64_t epoch, uint32_t touched);
  // CLOSE of a file that was opened by name, of which the same answer did not tell enough to use it.
  Task<> close_unknown(nfs4::nfs_fh4 directory, std::string name, std::optional<nfs4::nfs_fh4> fh,
                       nfs4::OPEN4resok opened, uint32_t access, rpc::CredentialPtr credential);

  // --- fs_delegations.cc ---
  bool wants_delegations() const;
  // OPEN4_SHARE_ACCESS_WANT_*.
  uint32_t delegation_wish() const;
  // What an OPEN has brought, if it is kept; else it goes back at once. `epoch`: before that OPEN was sent.
  DelegationRef take_delegation(FileState& file, const nfs4::OPEN4resok& opened,
                                const rpc::CredentialPtr& credential, uint64_t epoch);
  // The attributes that came with the delegation are booked; `order`: of that OPEN. Null: nothing.
  void begin_promise(const NodeRef& node, const DelegationRef& delegation, uint64_t order);
  // Nothing: it has to be an OPEN.
  Task<std::optional<Result<OpenReply>>> open_under_delegation(RequestContext ctx, NodeRef node, int flags);
  // Returns the file's delegation, if it has one; `read_only`: if that is for reading.
  // `purpose`: as StateManager::give_back().
  Task<> end_delegation_of(NodeRef node, bool read_only, StateManager::Purpose* purpose = nullptr);
  // kAskedFor: somebody else is about to use the file, as far as is known. kOwnUse: what we do next asks for
  // what it needs.
  enum class Why : uint8_t { kAskedFor, kOwnUse };
  // Returns when it has gone back, whoever returns it. `asked`: since when it is wanted back.
  Task<> give_back(DelegationRef delegation, Why why, TimePoint asked,
                   StateManager::Purpose* purpose = nullptr);
  // drop_data(), waited for no longer than `most`.
  struct Dropping {
    explicit Dropping(Loop& loop) : timer(loop) {}
    Timer timer;
    bool over = false;
  };
  Task<> drop_data_within(NodeRef node, Duration most);
  Task<> drop_and_tell(NodeRef node, std::shared_ptr<Dropping> drop);
  void give_back_soon(DelegationRef delegation);
  Task<> give_back_queued();
  Task<> give_back_everything();
  void recalled(DelegationRef delegation) override;
  void recalled_unknown(const nfs4::nfs_fh4& fh, const nfs4::stateid4& stateid, uint64_t begun) override;
  Task<> return_unknown(DelegationRef delegation, uint64_t begun);
  void delegation_ended(NodeRef node) override;
  std::optional<DelegationHolder::Known> delegated_attributes(const Delegation& delegation) override;

  // --- fs_io.cc ---
  Result<> usable(const CachedOpen& open, const IoAccount& account) const override;
  Task<Result<ReadPiece>> read_piece(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                     Slice destination, ReadFor purpose) override;
  // READ's result, and behind it the change attribute if the data is to be kept.
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

  // --- fs_locks.cc ---
  // What the kernel's messages of before this moment brought about, on all loops, has begun.
  Task<> hear_other_loops();
  // The lock-owner that the kernel names so, made if there is none. `of_description`: of the file's own.
  Task<LockUse> use_owner(OpenFileRef file, std::string locker, bool of_description);
  // Closed: the lock-owner `locker`, or (null) those that have asked through `file` alone. At once, so that
  // nobody takes them for the next ones of their names; gives those that may hold something.
  std::vector<LockUse> end_owners(Nfs4File& file, const std::string* locker);
  struct LockHolder {
    Lock lock;          // kUnlock: none
    std::string owner;  // its lock_owner4, if it is ours
    bool ours = false;  // of this mount
  };
  Task<Result<LockHolder>> find_lock_holder(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock);
  Task<Result<>> lock_owner_request(RequestContext ctx, OpenFileRef file, const LockUse& use, Lock lock,
                                    bool wait, LockWaits::Wait* waiting);
  // The lock was granted: what it orders, and whether somebody still wants it; else EINTR, and what was held
  // before is held again. The file's lock_mutex is held.
  Task<Result<>> keep_or_give_back(RequestContext ctx, OpenFileRef file, const LockUse& use, Lock lock,
                                   std::vector<LockRange> held_before);
  // Nothing when it is granted, else whose lock is in the way. The file's lock_mutex is held.
  Task<Result<std::optional<nfs4::lock_owner4>>> try_lock(OpenFileRef file, const LockUse& use, Lock lock,
                                                          bool waiting);
  Task<Result<>> unlock(OpenFileRef file, std::string locker, bool of_description, Lock lock);
  // Of each of `owners`, behind the data that was written under the locks.
  Task<Result<>> drop_locks_of(OpenFileRef file, std::vector<LockUse> owners, Lock lock);
  // The same of one, with the file's lock_mutex held and the data on the server.
  Task<Result<>> unlock_in_turn(OpenFileRef file, const LockUse& use, Lock lock);
  // `owner` stays, because lock_mutex is held.
  Task<Result<>> unlock_at_server(Nfs4File& handle, OpenStateRef state, LockState& owner, Lock lock);
  // The book; with the Node's mutex held.
  void note_unlocked(FileState& file, LockState& owner, const Lock& lock);
  // Nobody else has what is given away here under the file's delegation.
  Task<> confirm_local_locks(std::shared_ptr<FileState> file);
  // FREE_STATEID (section 18.38) for lock-owners that hold nothing.
  Task<> forget_idle_owners(std::shared_ptr<FileState> file, OpenStateRef state);
  // Until a lock of the file is dropped here, or `longest` is over; false when cancelled.
  Task<bool> wait_for_unlock(RequestContext ctx, std::shared_ptr<FileState> file, Duration longest);

  // --- fs_directory.cc ---
  Task<Result<uint32_t>> ask_access_and_list(RequestContext ctx, Listing& listing, uint32_t wanted,
                                             bool plus) override;
  Task<Result<>> read_entries(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus) override;
  nfs4::READDIR4args readdir_args(const Listing& listing, uint64_t cookie, bool plus) const;
  // The directory's GETATTR in front of READDIR, booked; gives its change attribute. `belief` gets its epoch.
  Task<Result<uint64_t>> take_listed(CompoundReply& reply, Listing& listing, NameBelief& belief);
  // READDIR's entries, from `cookie`.
  Task<Result<>> take_entries(CompoundReply& reply, Listing& listing, uint64_t cookie, bool plus,
                              NameBelief belief);
  Task<ListedEntry> listed_entry(NodeRef directory, nfs4::entry4 from, bool plus);

  // --- fs_mount.cc ---
  Task<Result<Entry>> walk_to_export();
  // `error`, of the last of `names` on the way from `from` (null: the root of the server's name space; no
  // names: of that itself), with what there is instead.
  Task<Error> explain(Error error, const nfs4::nfs_fh4* from, std::vector<std::string> names);
  Task<std::string> wanted_flavors(const nfs4::nfs_fh4* from, std::vector<std::string> names);
  Task<std::vector<std::string>> find_exports();
  // A directory of the server's name space, by its path from the root: type and file system, and what is in
  // it with the attributes `wanted`; none wanted: itself alone.
  struct Listed {
    nfs4::fattr4 own;
    std::vector<nfs4::entry4> entries;
  };
  Task<Result<Listed>> list_directory(std::vector<std::string> names, nfs4::bitmap4 wanted);
  // Asks for the limits of the file system that the node is on.
  Task<Result<>> read_limits(NodeRef node);
  // The same, for a node that was just looked up: once for each file system that is crossed into.
  Task<> learn_limits(NodeRef node);
  ExportLimits export_limits(const NodeRef& node) const;
  Limits limits_of(const NodeRef& node) const override;
  Task<> write_back_everything();
  nfs4::nfs_fh4 fh_of(const NodeRef& n) const { return nfs4_node(n).fh(); }
  uint64_t registrable_bytes() const override { return session_.registrable_bytes(); }
  bool promises_hold() const override { return session_.lease_holds(); }
  uint64_t epoch() const override { return session_.epoch(); }
  std::vector<NodeRef> files_in_use() const override { return states_.files(); }

  NodeTable nodes_;
  // The server knows "the current stateid", so that READ can follow OPEN (RFC 8881 section 16.2.3.1.2).
  std::atomic<bool> reads_with_open_{true};
  Exports exports_;
  IdMap ids_;
  Session session_;
  Delegations delegations_;
  StateManager states_;
  CallbackServer callbacks_;

  ExportLimits root_limits_;  // fixed after mount()
  mutable std::mutex owners_mutex_;
  std::unordered_map<uint32_t, uint32_t> owners_;  // note_owner(): where they differ
  bool mounted_ = false;
  LockWaits lock_waits_;
  std::atomic<uint64_t> lock_owners_{0};  // that there were

  std::mutex returns_mutex_;                                 // guards the next two
  std::deque<std::pair<DelegationRef, TimePoint>> returns_;  // since when each is wanted back
  unsigned returning_ = 0;                                   // coroutines at it
  std::atomic<unsigned> unknown_returning_{0};
};

}  // namespace nfsrdma::client

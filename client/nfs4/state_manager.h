// SPDX-License-Identifier: Apache-2.0
// StateManager: opens and their recovery (RFC 8881 sections 8, 9, 18.2, 18.16, 18.18, 18.38, 18.48).
//
// Keeps the register of files that have state, merges OPEN results, closes and downgrades, and brings state
// back: reclaim after a restart, reopening after revocation or expiry. Callers go through run(), which
// repeats a request whose stateid the server refused once the state is there again. Owned by the
// Nfs4Filesystem; any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "client/cache/open_files.h"
#include "client/nfs4/file_state.h"
#include "client/nfs4/session.h"
#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::client {

// What recovery needs of the rest of the client.
class RecoveryHooks {
 public:
  virtual ~RecoveryHooks() = default;
  // The server lost data that was UNSTABLE there: send it again. The file is in the register.
  virtual Task<> resend_writes(NodeRef node) = 0;
  // Locks of the file are lost: nobody may go on reading the kernel's pages under them.
  virtual void locks_lost(NodeRef node) = 0;
  // The file is under a delegation no more: what the kernel knows of it does not hold by itself any longer.
  virtual void delegation_ended(NodeRef node) = 0;
  // A server that has restarted gives the delegation back and wants it returned.
  virtual void recalled(DelegationRef delegation) = 0;
};

class StateManager final : public StateKeeper {
 public:
  // `close_delay`: how long a CLOSE may be put off.
  StateManager(Session& session, NameCache& names, Delegations& delegations, RecoveryHooks& hooks,
               Duration close_delay)
      : session_(session),
        names_(names),
        delegations_(delegations),
        hooks_(hooks),
        close_delay_(close_delay),
        put_off_(close_delay > Duration::zero()),
        closing_timer_(session.loops()[0]) {}

  // The files with state: opens, locks, unwritten data.
  std::shared_ptr<FileState> pin_file(Nfs4Node& node) { return files_.pin(node); }
  void unpin_file(Nfs4Node& node) { files_.unpin(node); }
  void drop_if_unused(Nfs4Node& node) { files_.drop_if_unused(node); }
  std::vector<NodeRef> files() const { return files_.all(); }

  nfs4::open_owner4 open_owner(uint32_t uid) const;
  // Finds or makes the user's OpenState, and counts one opener with `access` in it. `epoch`: the session's
  // before the OPEN was sent.
  OpenStateRef opened(FileState& file, const rpc::CredentialPtr& credential, uint32_t access,
                      const nfs4::OPEN4resok& result, uint64_t epoch);
  // As opened(), without an OPEN: under the file's delegation. The Node's mutex is held.
  OpenStateRef opened_locally(FileState& file, const rpc::CredentialPtr& credential, uint32_t access);
  // The server has refused the user an OPEN with NFS4ERR_ACCESS. nfs-ganesha 6 does so unless he may open the
  // file in every way at once that he has it open in, too, be that what its mode was before or what it was
  // made for (RFC 8881 section 18.16.3 asks for `access` alone). Counts one more opener in what he has if
  // that is enough, and more than `access`; whether he may is for ACCESS to say. Null: it is not.
  OpenStateRef opened_as_held(FileState& file, const rpc::CredentialPtr& credential, uint32_t access);
  // An OPEN of somebody's open, without a new opener: the next close() brings it down again. False when the
  // stateid is not of an open here.
  bool note_upgrade(const nfs4::stateid4& stateid, uint32_t access);
  // --- state_closing.cc ---
  // An opener with `access` is gone: CLOSE, with the locks that are left, or OPEN_DOWNGRADE as needed.
  // Nothing of what the file's delegation covers. A CLOSE that nobody waits for may be put off. None of the
  // file's mutexes is held.
  Task<> closed(std::shared_ptr<FileState> file, OpenStateRef state, uint32_t access);
  // Returns when nothing of the file that nobody here has open is open on the server, unless its delegation
  // keeps it.
  Task<> close_now(NodeRef node);
  // The server has the file open for writing, of which nobody here knows any more.
  static bool open_to_write(Nfs4Node& node);
  // No CLOSE is put off from now on. Loop 0.
  void close_at_once();
  // Returns when those that were put off are over; after close_at_once().
  Task<> close_rest();

  // The stateid for READ, WRITE and SETATTR (`access`: what it does): seqid 0, "the current one" (section
  // 8.2.2). In the order of section 8.2.5: of the delegation; of the lock that the I/O relies on, so that the
  // server can tell when it is gone; of the open where there is none. EIO once the lock is lost. Call while
  // building: that may happen while the request waits for recovery.
  static Result<nfs4::stateid4> io_stateid(const FileState& file, const IoAccount& account, uint32_t access);

  // Runs `request` under `state`, bringing the state back as often as needed. `lock_state`: whose stateid a
  // LOCK or LOCKU carries; it lives until the request is over.
  Task<Result<CompoundReply>> run(Request request, NodeRef node, std::shared_ptr<FileState> file,
                                  OpenStateRef state, LockState* lock_state = nullptr);

  Task<> free_stateid(nfs4::stateid4 stateid, rpc::CredentialPtr credential);
  // Section 8.4.3: each stateid that was revoked is acknowledged, in this order.
  Task<> free_stateids(std::vector<nfs4::stateid4> stateids, rpc::CredentialPtr credential);

  // --- state_delegations.cc ---
  // Books what an OPEN brought. False: it is not to be kept.
  bool keep(FileState& file, const DelegationRef& delegation);
  // The server gives again what it gave before, or upgrades it (section 18.16.3), and its answers come in any
  // order. kNo: `delegation` is another state. kStands: the newer of the two is what the file has, and what
  // `delegation` is now. kGone: this state goes back, or has.
  enum class Again : uint8_t { kNo, kStands, kGone };
  Again comes_again(FileState& file, DelegationRef& delegation);
  // What a delegation is given back for, to be sent behind its DELEGRETURN in the same COMPOUND if the user
  // is the same and nothing of the file stays open. Owned by the caller of give_back().
  struct Purpose {
    const Request& request;
    const uint32_t operations;  // of it
    // Of the COMPOUND, at the first result of `request`. None: `request` is yet to be sent.
    std::optional<Result<CompoundReply>> reply = std::nullopt;
    bool maybe_executed_before = false;
    // Nobody waits for it any more: the delegation goes back without it.
    bool given_up() const { return request.cancellation != nullptr && request.cancellation->cancelled(); }
  };
  // Section 10.4.4, of a delegation in phase kReturning, its data being on the server: opens that were made
  // under it become the server's, opens that only it had kept are closed with it, and it is returned.
  Task<> give_back(NodeRef node, std::shared_ptr<FileState> file, DelegationRef delegation,
                   Purpose* purpose = nullptr);
  // Whether the file's delegation is gone on the server, and is dealt with.
  Task<bool> test_delegation(std::shared_ptr<FileState> file, DelegationRef delegation);
  // DELEGRETURN alone, of one that is in no FileState.
  Task<> return_unwanted(DelegationRef delegation);

  struct Counts {
    uint64_t opens = 0, locks = 0, locks_lost = 0;
  };
  Counts counts() const;

  // StateKeeper
  Task<Result<>> reclaim(RecoveryChannel& channel, uint64_t epoch) override;
  void lose_all(const char* why) override;
  Task<> recovered() override;
  Task<> state_revoked(bool recallable) override;
  void cannot_be_recalled() override;

 private:
  // Calls `task` for every file that is open, several at a time, and returns when all have ended.
  using FileTask = std::function<Task<>(NodeRef node)>;
  struct FileSweep {
    FileTask task;
    std::vector<NodeRef> files;
    size_t next = 0;
    unsigned workers = 0;
    Completion<bool> over;
  };
  Task<> each_file(FileTask task);
  Task<> work_on(std::shared_ptr<FileSweep> sweep);
  Task<> restore_file(NodeRef node);
  Task<> test_opens(NodeRef node);
  // Of a revoked open that nobody needs any more: its end is acknowledged. False: it is needed.
  Task<bool> acknowledge_open(std::shared_ptr<FileState> file, OpenStateRef state, uint64_t version);
  // Asks the server which stateids of `state` are gone, and gives up the locks among them.
  enum class Gone : uint8_t { kUnknown, kNothing, kLocks, kOpen };
  Task<Gone> test_stateids(NodeRef node, std::shared_ptr<FileState> file, OpenStateRef state,
                           uint64_t version);
  Task<Result<>> reopen(NodeRef node, std::shared_ptr<FileState> file, OpenStateRef state, uint64_t version);

  // --- state_closing.cc ---
  // An open that nobody has any more.
  struct Closing {
    NodeRef node;
    std::shared_ptr<FileState> file;
    OpenStateRef state;
  };
  // The same with the file's mutexes held, in this order.
  struct Turn {
    Closing what;
    AsyncMutex::Guard locking, opening, returning;
    nfs4::stateid4 stateid;
  };
  bool may_close_later(const FileState& file, const OpenState& state, uint32_t access) const;
  Task<> close_later(Closing closing);
  Task<> close_when_due();
  Task<> close_queued();
  Task<> close_all(std::vector<Closing> all);
  // Of one user, as many as fit one COMPOUND. Gives back those that it did not get to.
  Task<std::vector<Closing>> close_together(std::vector<Closing> some);
  // False: somebody is at the file, or it takes more than a CLOSE.
  static bool take_turn(Turn& turn);
  // The CLOSE that was sent with `sent` was done.
  static void note_closed(const FileState& file, OpenState& state, const nfs4::stateid4& sent);
  // The file's lock_mutex and open_mutex. Who waits for one of them has not got the other: locks go on while
  // an OPEN waits for another client's delegation.
  struct TurnToClose {
    AsyncMutex::Guard locking, opening;
  };
  Task<TurnToClose> turn_to_close(std::shared_ptr<FileState> file);
  // Puts right what the server has of openers that are gone, of the whole file.
  Task<> close_idle(NodeRef node, std::shared_ptr<FileState> file);
  // The same of one state, with the file's mutexes held.
  Task<> trim(std::shared_ptr<FileState> file, OpenStateRef state);
  // What trim() leaves of the open on the server; the Node's mutex is held.
  static uint32_t wanted_access(const FileState& file, const OpenState& state);

  // One OPEN for each of `modes`, booked. open_mutex held.
  Task<Result<>> open_again(FileState& file, OpenStateRef state, std::vector<uint32_t> modes);
  // With its mutex held: the server's open does not allow what its openers need.
  static uint32_t missing_access(const OpenState& state) {
    return state.needed_access() & ~state.held_access & ~state.refused_access;
  }
  // Nothing once `outcome` is an error; it gets the first one.
  Task<> reclaim_of(NodeRef node, RecoveryChannel& channel, uint64_t epoch, Result<>* outcome);
  Task<Result<>> reclaim_file(RecoveryChannel& channel, NodeRef node, std::shared_ptr<FileState> file,
                              uint64_t epoch);
  // The server has not given `delegation` back: what was opened and locked under it is reclaimed by itself.
  // Not what was `refused`.
  Task<Result<>> reclaim_without(RecoveryChannel& channel, NodeRef node, FileState& file,
                                 std::vector<OpenStateRef> refused, uint64_t epoch, DelegationRef delegation);
  // What the file's delegation does not stand for, with the locks. `delegation`: asked for with it; null:
  // none. False: it was refused, and is marked.
  Task<Result<bool>> reclaim_open(RecoveryChannel& channel, NodeRef node, FileState& file, OpenStateRef state,
                                  uint64_t epoch, DelegationRef delegation);
  // `first`: nothing of `state` was had back before.
  static void book_reclaimed(FileState& file, OpenState& state, uint32_t mode, const nfs4::stateid4& stateid,
                             bool first);
  Task<Result<>> reclaim_locks(RecoveryChannel& channel, NodeRef node, FileState& file, OpenStateRef state,
                               uint64_t epoch);
  // `name`: the owner's.
  Task<Result<>> reclaim_locks_of(std::string name, RecoveryChannel& channel, NodeRef node, FileState& file,
                                  OpenStateRef state);
  Task<Result<>> unlock_reclaimed(RecoveryChannel& channel, FileState& file, OpenState& state,
                                  std::string name, LockRange gone);
  // LOCKU for every owner under `state` that holds something; `all`: that has a stateid. lock_mutex held.
  Task<> drop_locks(std::shared_ptr<FileState> file, OpenStateRef state, bool all);
  // Those that the server gave, the locks before the open they hang on; with the node's mutex held.
  static std::vector<nfs4::stateid4> stateids_of(const OpenState& state);
  // The server's side of `state` is gone; with the node's mutex held. True when locks went with it.
  static bool lose(OpenState& state);
  void report_lost_locks(const NodeRef& node, const char* why);
  std::atomic<uint64_t> locks_lost_{0};
  // A file in a line of the log: its name from log_level=debug on, where one is known, else how to find it.
  // Without the Node's mutex.
  std::string called(const NodeRef& node);

  // --- state_delegations.cc ---
  // An OPEN for each mode that was opened under the delegation. False: the server does not know it any more.
  Task<bool> claim_opens(FileState& file, OpenStateRef state, DelegationRef delegation);
  // One of them: by file handle, or by name where the server knows no other claim.
  Task<Result<nfs4::OPEN4resok>> claim_open(FileState& file, const OpenState& state,
                                            const Delegation& delegation, uint32_t mode);
  // Of a file that was opened in the place of another.
  Task<> close_other(nfs4::nfs_fh4 fh, nfs4::stateid4 stateid, rpc::CredentialPtr credential);
  // A LOCK for each range that was locked under the delegation; what is refused is lost. Nothing once a
  // restart of the server has taken the delegation: its locks are kept by what came after. lock_mutex held.
  Task<> claim_locks(NodeRef node, FileState& file, OpenStateRef state, DelegationRef delegation);
  // CLOSE of `idle`, if there is one, DELEGRETURN, and its purpose. False: it is not returned yet.
  Task<bool> return_together(std::shared_ptr<FileState> file, OpenStateRef idle, DelegationRef delegation,
                             Purpose* purpose);
  bool may_go_together(const FileState& file, const OpenStateRef& idle, const Delegation& delegation,
                       const Purpose& purpose) const;
  Task<> delegreturn(DelegationRef delegation);
  // It is over; false if it was before.
  bool end_delegation(FileState& file, const DelegationRef& delegation, Delegations::Went went);
  // The server took it away: whoever relied on it opens the file anew.
  Task<> revoked(std::shared_ptr<FileState> file, DelegationRef delegation);
  // FREE_STATEID of one that could not be returned, because it was revoked.
  Task<> acknowledge(DelegationRef delegation, nfs4::nfsstat4 status);
  // The second half, after end_delegation().
  Task<> acknowledge_revoked(std::shared_ptr<FileState> file, DelegationRef delegation);
  Task<> test_delegations();
  Task<std::vector<DelegationRef>> gone_among(std::vector<DelegationRef> delegations);
  // What became of the delegation of the file in a restart: `answer` came with CLAIM_PREVIOUS, and with it
  // the change attribute, where it did.
  void reclaimed(FileState& file, const DelegationRef& before, const nfs4::open_delegation4& answer,
                 uint64_t epoch, std::optional<uint64_t> change);

  // How often one request may find its state gone: each needs another revocation or restart in between.
  static constexpr int kMaxRecoveries = 16;
  // How often it may be refused while the server says that its state is there.
  static constexpr int kMaxContradictions = 2;

  Session& session_;
  NameCache& names_;  // for messages
  Delegations& delegations_;
  RecoveryHooks& hooks_;
  OpenFiles<Nfs4Node, FileState> files_;

  std::atomic<bool> claims_by_handle_{true};  // CLAIM_DELEG_CUR_FH, as far as is known

  const Duration close_delay_;
  std::atomic<bool> put_off_;
  Timer closing_timer_;  // of the one close_when_due()
  std::mutex closing_mutex_;
  std::vector<Closing> closing_;  // guarded, as are the next two
  bool closing_timed_ = false;    // close_when_due() runs
  WaitQueue closing_over_;
};

}  // namespace nfsrdma::client

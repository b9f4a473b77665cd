// SPDX-License-Identifier: Apache-2.0
// StateManager: opens and their recovery (RFC 8881 sections 8, 9, 18.2, 18.16, 18.18, 18.38, 18.48).
//
// Keeps the list of files that have state, merges OPEN results, sends CLOSE and OPEN_DOWNGRADE, and restores
// state: reclaim after a restart, reopening after revocation or expiry. Callers use run(): if the server
// rejects the stateid of a request, run() restores the state and sends the request again. Owned by the
// Nfs4Filesystem; any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "client/core/nodes/open_files.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/file_state.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::client::nfs4 {

// What recovery calls in the rest of the client.
class RecoveryHooks {
 public:
  virtual ~RecoveryHooks() = default;
  // The server lost data that was UNSTABLE there: send it again. The file is in files().
  virtual Task<> resend_writes(NodeRef node) = 0;
  // Locks of the file are lost: no application may continue to read the kernel's pages under them.
  virtual void locks_lost(NodeRef node) = 0;
  // The file's delegation was revoked: what the kernel caches of the file may be out of date.
  virtual void delegation_ended(NodeRef node) = 0;
  // The delegation must be returned: a restarted server granted it again with `recall` set, or the server has
  // no back channel to recall it.
  virtual void recalled(DelegationRef delegation) = 0;
};

class StateManager final : public StateKeeper {
 public:
  // `close_delay`: how long a CLOSE may be delayed.
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
  // Finds or creates the user's OpenState, and adds one opener with `access`. `epoch`: Session::epoch()
  // before the OPEN was sent.
  OpenStateRef opened(FileState& file, const rpc::CredentialPtr& credential, uint32_t access,
                      const nfs4::OPEN4resok& result, uint64_t epoch);
  // As opened(), without an OPEN: under the file's delegation. The Node's mutex is held.
  OpenStateRef opened_locally(FileState& file, const rpc::CredentialPtr& credential, uint32_t access);
  // For an OPEN that the server rejected with NFS4ERR_ACCESS. nfs-ganesha 6 checks `access` together with all
  // access that the user has open already, although that may not be allowed any more: the mode was changed,
  // or the file was created with a mode that forbids it (RFC 8881 section 18.16.3 wants a check of `access`
  // alone). Adds an opener to the existing open if that has `access` and more. The caller must check with
  // ACCESS whether the user may. Null: the existing open is not enough.
  OpenStateRef opened_as_held(FileState& file, const rpc::CredentialPtr& credential, uint32_t access);
  // An OPEN upgraded an existing open without a new opener: the next closed() downgrades it again. False if
  // the stateid is of no open here.
  bool note_upgrade(const nfs4::stateid4& stateid, uint32_t access);
  // --- state_closing.cc ---
  // An opener with `access` has closed: drops the locks that are left and sends CLOSE or OPEN_DOWNGRADE as
  // needed, except for access that the file's delegation covers. A CLOSE may be delayed if nobody waits for
  // it. None of the file's mutexes is held.
  Task<> closed(std::shared_ptr<FileState> file, OpenStateRef state, uint32_t access);
  // Closes on the server every open of the file that has no opener here, unless a delegation keeps it.
  // Returns when that is done.
  Task<> close_now(NodeRef node);
  // The server has the file open for writing only because its CLOSE is delayed.
  static bool open_to_write(Nfs4Node& node);
  // No CLOSE is delayed from now on. Loop 0.
  void close_at_once();
  // Returns when all delayed CLOSEs are done. Call close_at_once() before.
  Task<> close_rest();

  // The stateid for READ, WRITE and SETATTR, with seqid 0, "the current one" (section 8.2.2). `access`: what
  // the operation does. The order is that of section 8.2.5: the delegation's; else that of the lock that the
  // I/O relies on, so that the server can reject the I/O if the lock is gone; else the open's. EIO if the
  // lock is lost. Call it while the request is built: the stateid may change while the request waits for
  // recovery.
  static Result<nfs4::stateid4> io_stateid(const FileState& file, const IoAccount& account, uint32_t access);

  // Runs `request` under `state`, and restores the state as often as needed. `lock_state`: the lock-owner
  // whose stateid a LOCK or LOCKU carries; it must outlive the request.
  Task<Result<CompoundReply>> run(Request request, NodeRef node, std::shared_ptr<FileState> file,
                                  OpenStateRef state, LockState* lock_state = nullptr);

  Task<> free_stateid(nfs4::stateid4 stateid, rpc::CredentialPtr credential);
  // Section 8.4.3: acknowledges each revoked stateid, in this order.
  Task<> free_stateids(std::vector<nfs4::stateid4> stateids, rpc::CredentialPtr credential);

  // --- state_delegations.cc ---
  // Records a delegation that an OPEN brought. False: it must be returned.
  bool keep(FileState& file, const DelegationRef& delegation);
  // The server may grant the same delegation again, or upgrade it (section 18.16.3), and its replies come in
  // any order. kNo: `delegation` is a new state. kStands: the file has this state; it and `delegation` are
  // the newer of the two now. kGone: this state is being returned, or was.
  enum class Again : uint8_t { kNo, kStands, kGone };
  Again comes_again(FileState& file, DelegationRef& delegation);
  // The request for which a delegation is returned. It follows DELEGRETURN in the same COMPOUND if the user
  // is the same and nothing of the file stays open. Owned by the caller of give_back().
  struct Purpose {
    const Request& request;
    const uint32_t operations;  // number of operations in `request`
    // The COMPOUND's reply, at the first result of `request`. None: `request` must still be sent.
    std::optional<Result<CompoundReply>> reply = std::nullopt;
    bool maybe_executed_before = false;
    // Nobody waits for it any more: the delegation is returned without it.
    bool given_up() const { return request.cancellation != nullptr && request.cancellation->cancelled(); }
  };
  // Returns a delegation in phase kReturning whose data is on the server (section 10.4.4). Establishes on the
  // server the opens and locks made under it, and closes opens that only the delegation kept.
  Task<> give_back(NodeRef node, std::shared_ptr<FileState> file, DelegationRef delegation,
                   Purpose* purpose = nullptr);
  // True: the file's delegation was gone on the server, and is ended here, too.
  Task<bool> test_delegation(std::shared_ptr<FileState> file, DelegationRef delegation);
  // Sends DELEGRETURN alone, for a delegation that is in no FileState.
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
  // Acknowledges the revocation of an open that nobody needs any more. False: it is needed.
  Task<bool> acknowledge_open(std::shared_ptr<FileState> file, OpenStateRef state, uint64_t version);
  // Asks the server which stateids of `state` are gone, and marks the locks among them as lost.
  enum class Gone : uint8_t { kUnknown, kNothing, kLocks, kOpen };
  Task<Gone> test_stateids(NodeRef node, std::shared_ptr<FileState> file, OpenStateRef state,
                           uint64_t version);
  Task<Result<>> reopen(NodeRef node, std::shared_ptr<FileState> file, OpenStateRef state, uint64_t version);

  // --- state_closing.cc ---
  // An open without openers.
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
  // `some`: of one user, and not more than fit one COMPOUND. Returns those that must be tried again.
  Task<std::vector<Closing>> close_together(std::vector<Closing> some);
  // False: another coroutine uses the file, or CLOSE alone is not enough.
  static bool take_turn(Turn& turn);
  // The CLOSE with the stateid `sent` succeeded.
  static void note_closed(const FileState& file, OpenState& state, const nfs4::stateid4& sent);
  // The file's lock_mutex and open_mutex. A waiter for one of them never holds the other: locks continue
  // while an OPEN waits for another client's delegation.
  struct TurnToClose {
    AsyncMutex::Guard locking, opening;
  };
  Task<TurnToClose> turn_to_close(std::shared_ptr<FileState> file);
  // Closes or downgrades all opens of the file that have lost openers.
  Task<> close_idle(NodeRef node, std::shared_ptr<FileState> file);
  // The same for one state, with the file's mutexes held.
  Task<> trim(std::shared_ptr<FileState> file, OpenStateRef state);
  // What trim() leaves of the open on the server; the Node's mutex is held.
  static uint32_t wanted_access(const FileState& file, const OpenState& state);

  // Sends one OPEN for each of `modes` and records the results. open_mutex is held.
  Task<Result<>> open_again(FileState& file, OpenStateRef state, std::vector<uint32_t> modes);
  // The access that openers need and the server's open does not allow. The Node's mutex is held.
  static uint32_t missing_access(const OpenState& state) {
    return state.needed_access() & ~state.held_access & ~state.refused_access;
  }
  // Does nothing if `outcome` is an error already; stores the first error there.
  Task<> reclaim_of(NodeRef node, RecoveryChannel& channel, uint64_t epoch, Result<>* outcome);
  Task<Result<>> reclaim_file(RecoveryChannel& channel, NodeRef node, std::shared_ptr<FileState> file,
                              uint64_t epoch);
  // The server did not grant `delegation` again: reclaims the opens and locks under it one by one, except the
  // `refused` ones.
  Task<Result<>> reclaim_without(RecoveryChannel& channel, NodeRef node, FileState& file,
                                 std::vector<OpenStateRef> refused, uint64_t epoch, DelegationRef delegation);
  // Reclaims the opens that the file's delegation does not cover, and their locks. `delegation`: to be
  // reclaimed with the first OPEN; null: none. False: the server refused, and `state` is marked.
  Task<Result<bool>> reclaim_open(RecoveryChannel& channel, NodeRef node, FileState& file, OpenStateRef state,
                                  uint64_t epoch, DelegationRef delegation);
  // `first`: nothing of `state` was reclaimed before.
  static void book_reclaimed(FileState& file, OpenState& state, uint32_t mode, const nfs4::stateid4& stateid,
                             bool first);
  Task<Result<>> reclaim_locks(RecoveryChannel& channel, NodeRef node, FileState& file, OpenStateRef state,
                               uint64_t epoch);
  // `name`: LockState::owner.
  Task<Result<>> reclaim_locks_of(std::string name, RecoveryChannel& channel, NodeRef node, FileState& file,
                                  OpenStateRef state);
  Task<Result<>> unlock_reclaimed(RecoveryChannel& channel, FileState& file, OpenState& state,
                                  std::string name, LockRange gone);
  // Sends LOCKU for every owner under `state` that holds a lock; `all`: every one that has a stateid.
  // lock_mutex is held.
  Task<> drop_locks(std::shared_ptr<FileState> file, OpenStateRef state, bool all);
  // The stateids that the server gave, the locks' before the open's. The Node's mutex is held.
  static std::vector<nfs4::stateid4> stateids_of(const OpenState& state);
  // The server no longer has `state`. True if locks were lost with it. The Node's mutex is held.
  static bool lose(OpenState& state);
  void report_lost_locks(const NodeRef& node, const char* why);
  std::atomic<uint64_t> locks_lost_{0};
  // How a log line identifies a file: with log_level=debug by a known name, else by its inode number. Without
  // the Node's mutex.
  std::string called(const NodeRef& node);

  // --- state_delegations.cc ---
  // Sends an OPEN for each share access opened under the delegation. False: the server no longer has the
  // delegation.
  Task<bool> claim_opens(FileState& file, OpenStateRef state, DelegationRef delegation);
  // One of them: by file handle, or by name if the server supports no other claim.
  Task<Result<nfs4::OPEN4resok>> claim_open(FileState& file, const OpenState& state,
                                            const Delegation& delegation, uint32_t mode);
  // CLOSE of a file that was opened in place of another.
  Task<> close_other(nfs4::nfs_fh4 fh, nfs4::stateid4 stateid, rpc::CredentialPtr credential);
  // Sends a LOCK for each range that was locked under the delegation; refused locks are lost. Stops if a
  // server restart has ended the delegation: then recovery reclaims its locks. lock_mutex is held.
  Task<> claim_locks(NodeRef node, FileState& file, OpenStateRef state, DelegationRef delegation);
  // Sends CLOSE of `idle` (if not null), DELEGRETURN, and the purpose's request. False: it is not returned
  // yet.
  Task<bool> return_together(std::shared_ptr<FileState> file, OpenStateRef idle, DelegationRef delegation,
                             Purpose* purpose);
  bool may_go_together(const FileState& file, const OpenStateRef& idle, const Delegation& delegation,
                       const Purpose& purpose) const;
  Task<> delegreturn(DelegationRef delegation);
  // Ends the delegation here. False if it had ended before.
  bool end_delegation(FileState& file, const DelegationRef& delegation, Delegations::Went went);
  // The server revoked it: openers that relied on it reopen the file.
  Task<> revoked(std::shared_ptr<FileState> file, DelegationRef delegation);
  // FREE_STATEID for a delegation that could not be returned because it was revoked.
  Task<> acknowledge(DelegationRef delegation, nfs4::nfsstat4 status);
  // The second half of revoked(), after end_delegation().
  Task<> acknowledge_revoked(std::shared_ptr<FileState> file, DelegationRef delegation);
  Task<> test_delegations();
  Task<std::vector<DelegationRef>> gone_among(std::vector<DelegationRef> delegations);
  // Takes the file's delegation from the reply to OPEN with CLAIM_PREVIOUS. `change`: the change attribute,
  // if it came with the reply.
  void reclaimed(FileState& file, const DelegationRef& before, const nfs4::open_delegation4& answer,
                 uint64_t epoch, std::optional<uint64_t> change);

  // How often one request may find its state gone. Each time needs another revocation or restart.
  static constexpr int kMaxRecoveries = 16;
  // How often it may be rejected while TEST_STATEID says that its state is valid.
  static constexpr int kMaxContradictions = 2;

  Session& session_;
  NameCache& names_;  // for messages, and to claim opens by name
  Delegations& delegations_;
  RecoveryHooks& hooks_;
  OpenFiles<Nfs4Node, FileState> files_;

  std::atomic<bool> claims_by_handle_{true};  // the server supports CLAIM_DELEG_CUR_FH, as far as we know

  const Duration close_delay_;
  std::atomic<bool> put_off_;
  Timer closing_timer_;  // of close_when_due(), which runs once at a time
  Mutex closing_mutex_;
  std::vector<Closing> closing_ NFSRDMA_GUARDED_BY(closing_mutex_);
  bool closing_timed_ NFSRDMA_GUARDED_BY(closing_mutex_) = false;  // close_when_due() runs
  WaitQueue closing_over_ NFSRDMA_GUARDED_BY(closing_mutex_);
};

}  // namespace nfsrdma::client::nfs4

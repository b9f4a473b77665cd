// StateManager: opens and their recovery (RFC 8881 sections 8, 9, 18.2, 18.16, 18.18, 18.38, 18.48).
//
// Keeps the register of files that have state, merges OPEN results, closes and downgrades, and brings state
// back: reclaim after a restart, reopening after revocation or expiry. Callers go through run(), which
// repeats a request whose stateid the server refused once the state is there again. Owned by the
// Nfs4Filesystem; any loop.
#pragma once

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
};

class StateManager final : public StateKeeper {
 public:
  StateManager(Session& session, NameCache& names, RecoveryHooks& hooks)
      : session_(session), names_(names), hooks_(hooks) {}

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
  // An OPEN of somebody's open, without a new opener: the next close() brings it down again. False when the
  // stateid is not of an open here.
  bool note_upgrade(const nfs4::stateid4& stateid, uint32_t access);
  // An opener with `access` is gone: CLOSE, with the locks that are left, or OPEN_DOWNGRADE as needed.
  // Neither `file.lock_mutex` nor `file.open_mutex` is held.
  Task<> closed(std::shared_ptr<FileState> file, OpenStateRef state, uint32_t access);

  // The stateid for READ, WRITE and SETATTR: seqid 0, "the current one" (section 8.2.2). Of the lock that the
  // I/O relies on, so that the server can tell when it is gone; of the open where there is none. EIO once the
  // lock is lost. Call while building: that may happen while the request waits for recovery.
  static Result<nfs4::stateid4> io_stateid(const FileState& file, const IoAccount& account);

  // Runs `request` under `state`, bringing the state back as often as needed. `lock_state`: whose stateid a
  // LOCK or LOCKU carries; it lives until the request is over.
  Task<Result<CompoundReply>> run(Request request, NodeRef node, std::shared_ptr<FileState> file,
                                  OpenStateRef state, LockState* lock_state = nullptr);

  Task<> free_stateid(nfs4::stateid4 stateid, rpc::CredentialPtr credential);
  // Section 8.4.3: each stateid that was revoked is acknowledged, in this order.
  Task<> free_stateids(std::vector<nfs4::stateid4> stateids, rpc::CredentialPtr credential);

  struct Counts {
    uint64_t opens = 0, locks = 0;
  };
  Counts counts() const;

  // StateKeeper
  Task<Result<>> reclaim(RecoveryChannel& channel, uint64_t epoch) override;
  void lose_all(const char* why) override;
  Task<> recovered() override;
  Task<> state_revoked() override;

 private:
  // Asks the server which stateids of `state` are gone, and gives up the locks among them.
  enum class Gone : uint8_t { kUnknown, kNothing, kLocks, kOpen };
  Task<Gone> test_stateids(NodeRef node, std::shared_ptr<FileState> file, OpenStateRef state,
                           uint64_t version);
  Task<Result<>> reopen(NodeRef node, std::shared_ptr<FileState> file, OpenStateRef state, uint64_t version);
  // One OPEN for each of `modes`, booked. open_mutex held.
  Task<Result<>> open_again(FileState& file, OpenStateRef state, std::vector<uint32_t> modes);
  // With its mutex held: the server's open does not allow what its openers need.
  static uint32_t missing_access(const OpenState& state) {
    return state.needed_access() & ~state.held_access & ~state.refused_access;
  }
  Task<Result<>> reclaim_file(RecoveryChannel& channel, NodeRef node, std::shared_ptr<FileState> file,
                              uint64_t epoch);
  Task<Result<>> reclaim_open(RecoveryChannel& channel, NodeRef node, FileState& file, OpenStateRef state,
                              uint64_t epoch);
  Task<Result<>> reclaim_locks(RecoveryChannel& channel, NodeRef node, FileState& file, OpenStateRef state);
  // LOCKU for every owner under `state` that holds something; `all`: that has a stateid. lock_mutex held.
  Task<> drop_locks(std::shared_ptr<FileState> file, OpenStateRef state, bool all);
  // Those that the server gave, the locks before the open they hang on; with the node's mutex held.
  static std::vector<nfs4::stateid4> stateids_of(const OpenState& state);
  // The server's side of `state` is gone; with the node's mutex held. True when locks went with it.
  static bool lose(OpenState& state);
  void report_lost_locks(const NodeRef& node, const char* why);

  Session& session_;
  NameCache& names_;  // for messages
  RecoveryHooks& hooks_;
  OpenFiles<Nfs4Node, FileState> files_;
};

}  // namespace nfsrdma::client

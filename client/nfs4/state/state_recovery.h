// SPDX-License-Identifier: Apache-2.0
// StateRecovery: restores opens and locks: reclaim in grace (RFC 8881 section 8.4.2.1), reopening after
// expiry or revocation (sections 8.4.2.4, 8.5), TEST_STATEID and FREE_STATEID after SEQ4_STATUS_*_REVOKED
// (section 18.46.3).
//
// Owned by the StateManager. The Session calls it as its StateKeeper on loop 0; reopen() and test_stateids()
// on any loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/nfs4/delegations/delegations.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/delegation_states.h"
#include "client/nfs4/state/file_state.h"
#include "client/nfs4/state/open_closer.h"
#include "client/nfs4/state/state_registry.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::client::nfs4 {

class StateRecovery final : public StateKeeper {
 public:
  StateRecovery(Session& session, Delegations& delegations, RecoveryHooks& hooks, StateRegistry& registry,
                OpenCloser& closer, DelegationStates& delegation_states)
      : session_(session),
        delegations_(delegations),
        hooks_(hooks),
        registry_(registry),
        closer_(closer),
        delegation_states_(delegation_states) {}

  // --- StateKeeper ---
  Task<Result<>> reclaim(RecoveryChannel& channel, uint64_t epoch) override;
  void lose_all(const char* why) override;
  Task<> recovered() override;
  Task<> state_revoked(bool recallable) override;
  void cannot_be_recalled() override;

  // Asks the server which stateids of `state` are gone, and marks the locks among them as lost. `version`: of
  // the state when a request under it was sent; kUnknown if it has changed since.
  enum class Gone : uint8_t { kUnknown, kNothing, kLocks, kOpen };
  Task<Gone> test_stateids(NodeRef node, std::shared_ptr<FileState> file, OpenStateRef state,
                           uint64_t version);
  // Opens the file anew if `state` still has that version. If the server refuses all of it, I/O under `state`
  // fails with that error from now on.
  Task<Result<>> reopen(NodeRef node, std::shared_ptr<FileState> file, OpenStateRef state, uint64_t version);

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
  // Acknowledges the revocation of an open that nobody needs any more. Returns false if the open is needed.
  Task<bool> acknowledge_open(std::shared_ptr<FileState> file, OpenStateRef state, uint64_t version);

  // Sends one OPEN for each of `modes` and records the results. open_mutex is held.
  Task<Result<>> open_again(FileState& file, OpenStateRef state, std::vector<uint32_t> modes);
  // Does nothing if `outcome` is an error already; stores the first error there.
  Task<> reclaim_of(NodeRef node, RecoveryChannel& channel, uint64_t epoch, Result<>* outcome);
  Task<Result<>> reclaim_file(RecoveryChannel& channel, NodeRef node, std::shared_ptr<FileState> file,
                              uint64_t epoch);
  // The server did not grant `delegation` again: reclaims the opens and locks under it one by one, except the
  // `refused` ones.
  Task<Result<>> reclaim_without(RecoveryChannel& channel, NodeRef node, FileState& file,
                                 std::vector<OpenStateRef> refused, uint64_t epoch, DelegationRef delegation);
  // Reclaims the opens that the file's delegation does not cover, and their locks. `delegation`: to be
  // reclaimed with the first OPEN; null: none. Returns false if the server refused; `state` then must be
  // reopened.
  Task<Result<bool>> reclaim_open(RecoveryChannel& channel, NodeRef node, FileState& file, OpenStateRef state,
                                  uint64_t epoch, DelegationRef delegation);
  // `first`: nothing of `state` was reclaimed before.
  static void record_reclaimed(FileState& file, OpenState& state, uint32_t mode,
                               const nfs4::stateid4& stateid, bool first);
  Task<Result<>> reclaim_locks(RecoveryChannel& channel, NodeRef node, FileState& file, OpenStateRef state,
                               uint64_t epoch);
  // `name`: LockState::owner.
  Task<Result<>> reclaim_locks_of(std::string name, RecoveryChannel& channel, NodeRef node, FileState& file,
                                  OpenStateRef state);
  Task<Result<>> unlock_reclaimed(RecoveryChannel& channel, FileState& file, OpenState& state,
                                  std::string name, LockRange gone);

  Session& session_;
  Delegations& delegations_;
  RecoveryHooks& hooks_;
  StateRegistry& registry_;
  OpenCloser& closer_;
  DelegationStates& delegation_states_;
};

}  // namespace nfsrdma::client::nfs4

// SPDX-License-Identifier: Apache-2.0
// StateManager: the state of a mount's files (RFC 8881 sections 8, 9, 10): which files have some, how it is
// closed, how delegations come and go, and how it is restored. It composes the classes that do each, and runs
// requests under a state: if the server rejects the stateid of a request, run() restores the state and sends
// the request again.
//
// Owned by the Nfs4Filesystem; any loop.
#pragma once

#include <cstdint>
#include <memory>

#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/delegation_states.h"
#include "client/nfs4/state/file_state.h"
#include "client/nfs4/state/open_closer.h"
#include "client/nfs4/state/state_recovery.h"
#include "client/nfs4/state/state_registry.h"

namespace nfsrdma::client::nfs4 {

class StateManager {
 public:
  // `close_delay`: how long a CLOSE may be delayed.
  StateManager(Session& session, NameCache& names, Delegations& delegations, RecoveryHooks& hooks,
               Duration close_delay)
      : session_(session),
        registry_(session, names, hooks),
        closer_(session, registry_, close_delay),
        delegation_states_(session, names, delegations, hooks, registry_, closer_),
        recovery_(session, delegations, hooks, registry_, closer_, delegation_states_) {}

  StateRegistry& registry() { return registry_; }
  const StateRegistry& registry() const { return registry_; }
  OpenCloser& closer() { return closer_; }
  DelegationStates& delegation_states() { return delegation_states_; }
  StateKeeper& keeper() { return recovery_; }

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

 private:
  Session& session_;
  StateRegistry registry_;
  OpenCloser closer_;
  DelegationStates delegation_states_;
  StateRecovery recovery_;
};

}  // namespace nfsrdma::client::nfs4

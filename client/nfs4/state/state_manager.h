// SPDX-License-Identifier: Apache-2.0
// StateManager: the state of a mount's files (RFC 8881 sections 8, 9, 10): which files have state, how opens
// are closed, how delegations come and go, and how state is restored. It composes the classes that do this,
// and runs requests under a state: if the server rejects the stateid of a request, run() restores the state
// and sends the request again.
//
// Owned by the Nfs4Filesystem; any loop.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/delegation_states.h"
#include "client/nfs4/state/file_state.h"
#include "client/nfs4/state/open_closer.h"
#include "client/nfs4/state/state_recovery.h"
#include "client/nfs4/state/state_registry.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {

// The state of a file that a request uses. I/O uses a stateid of section 8.2.5. A LOCK or LOCKU uses the
// stateid of its lock-owner. What it refers to lives in the frame of the caller, which awaits the request.
struct StateUse {
  const NodeRef& node;
  const std::shared_ptr<FileState>& file;
  OpenStateRef open;
  LockState* owner = nullptr;          // LOCK, LOCKU
  const IoAccount* account = nullptr;  // I/O; and:
  uint32_t access = 0;                 // what it does: CachedOpen::kRead or kWrite
  nfs4::stateid4* stateid = nullptr;   // where to put the stateid, before the request is built

  static StateUse by_io(const NodeRef& node, const std::shared_ptr<FileState>& file, const IoAccount& account,
                        uint32_t access, nfs4::stateid4& stateid) {
    return {.node = node,
            .file = file,
            .open = open_state(account),
            .account = &account,
            .access = access,
            .stateid = &stateid};
  }
  static StateUse by_owner(const NodeRef& node, const std::shared_ptr<FileState>& file, OpenStateRef open,
                           LockState& owner) {
    return {.node = node, .file = file, .open = std::move(open), .owner = &owner};
  }
};

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
  // lock is lost.
  static Result<nfs4::stateid4> io_stateid(const FileState& file, const IoAccount& account, uint32_t access)
      NFSRDMA_REQUIRES(file.node.mutex);

  // Runs a request under the state of `use`, and restores that as often as needed. Both outlive the call.
  Task<Result<CompoundReply>> run(const Request& original, const StateUse& use);

 private:
  // The state that a request was built with.
  struct Basis {
    bool checked = false;  // whether the open is usable
    bool usable = true;    // false: the open must be restored first
    uint64_t version = 0;  // OpenState::version
    DelegationRef delegation;
    nfs4::stateid4 sent;  // of the lock-owner
  };

  // Called while the request is built, not before: the state may change while the request waits for its slot
  // and for recovery. Checks the open only at the first time: later the request may be under way already, and
  // must not change its slot (section 2.10.6.2). Returns an error if the request must not be sent.
  static Result<> choose(const StateUse& use, nfs4::nfs_opnum4 op, Basis& basis);
  // Call it after the server rejected the state. Returns true if the request can be sent again, false if the
  // open must be restored first.
  Task<bool> revise(const StateUse& use, const Basis& basis, const CompoundReply& reply, int attempt);

  Session& session_;
  StateRegistry registry_;
  OpenCloser closer_;
  DelegationStates delegation_states_;
  StateRecovery recovery_;
};

}  // namespace nfsrdma::client::nfs4

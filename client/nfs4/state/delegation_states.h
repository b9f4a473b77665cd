// SPDX-License-Identifier: Apache-2.0
// DelegationStates: grant, return and revocation of delegations, with the opens and locks under them (RFC
// 8881 sections 10.4.4, 10.5, 18.6, 18.16, 18.38, 18.48).
//
// Owned by the StateManager; any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "client/nfs4/delegations/delegations.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/file_state.h"
#include "client/nfs4/state/open_closer.h"
#include "client/nfs4/state/state_registry.h"

namespace nfsrdma::client::nfs4 {

class DelegationStates {
 public:
  // `names`: to claim opens by name.
  DelegationStates(Session& session, NameCache& names, Delegations& delegations, RecoveryHooks& hooks,
                   StateRegistry& registry, OpenCloser& closer)
      : session_(session),
        names_(names),
        delegations_(delegations),
        hooks_(hooks),
        registry_(registry),
        closer_(closer) {}

  // --- grant ---
  // Records a delegation that an OPEN brought. Returns false if it must be returned.
  bool keep(FileState& file, const DelegationRef& delegation);
  // The server may grant the same delegation again, or upgrade it (section 18.16.3), and its replies come in
  // any order. kNo: `delegation` is a new state. kStands: the file has this state already; the file's
  // delegation and `delegation` now both are the one with the newer stateid. kGone: this state is being
  // returned, or has ended.
  enum class Again : uint8_t { kNo, kStands, kGone };
  Again comes_again(FileState& file, DelegationRef& delegation);
  // Takes the file's delegation from the reply to OPEN with CLAIM_PREVIOUS. `change`: the change attribute,
  // if it came with the reply.
  void reclaimed(FileState& file, const DelegationRef& before, const nfs4::open_delegation4& answer,
                 uint64_t epoch, std::optional<uint64_t> change);

  // --- return ---
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
  // Sends DELEGRETURN alone, for a delegation that is in no FileState.
  Task<> return_unwanted(DelegationRef delegation);
  // The server cannot recall any delegation: asks for the return of all.
  void recall_all();

  // --- revocation ---
  // Tests the file's delegation with TEST_STATEID. If the server no longer has it, ends it here, too, and
  // returns true.
  Task<bool> test_delegation(std::shared_ptr<FileState> file, DelegationRef delegation);
  // The same for all.
  Task<> test_delegations();
  // Ends the delegation here. False if it had ended before.
  bool end_delegation(FileState& file, const DelegationRef& delegation, Delegations::Went went);

 private:
  // Sends an OPEN for each share access opened under the delegation. Returns false if the server no longer
  // has the delegation.
  Task<bool> claim_opens(FileState& file, OpenStateRef state, DelegationRef delegation);
  // Sends one of these OPENs: by file handle, or by name if the server supports no other claim.
  Task<Result<nfs4::OPEN4resok>> claim_open(FileState& file, const OpenState& state,
                                            const Delegation& delegation, uint32_t mode);
  // CLOSE of a file that was opened in place of another.
  Task<> close_other(nfs4::nfs_fh4 fh, nfs4::stateid4 stateid, rpc::CredentialPtr credential);
  // Sends a LOCK for each range that was locked under the delegation; refused locks are lost. Stops if a
  // server restart has ended the delegation: then recovery reclaims its locks. lock_mutex is held.
  Task<> claim_locks(NodeRef node, FileState& file, OpenStateRef state, DelegationRef delegation);
  // Sends CLOSE of `idle` (if not null), DELEGRETURN, and the purpose's request. Returns false if the
  // delegation is not returned yet.
  Task<bool> return_together(std::shared_ptr<FileState> file, OpenStateRef idle, DelegationRef delegation,
                             Purpose* purpose);
  bool may_go_together(const FileState& file, const OpenStateRef& idle, const Delegation& delegation,
                       const Purpose& purpose) const;
  Task<> delegreturn(DelegationRef delegation);
  // The server revoked it: openers that relied on it reopen the file.
  Task<> revoked(std::shared_ptr<FileState> file, DelegationRef delegation);
  // FREE_STATEID for a delegation that could not be returned because it was revoked.
  Task<> acknowledge(DelegationRef delegation, nfs4::nfsstat4 status);
  // The second half of revoked(), after end_delegation().
  Task<> acknowledge_revoked(std::shared_ptr<FileState> file, DelegationRef delegation);
  Task<std::vector<DelegationRef>> gone_among(std::vector<DelegationRef> delegations);

  Session& session_;
  NameCache& names_;
  Delegations& delegations_;
  RecoveryHooks& hooks_;
  StateRegistry& registry_;
  OpenCloser& closer_;
  std::atomic<bool> claims_by_handle_{true};  // the server supports CLAIM_DELEG_CUR_FH, as far as we know
};

}  // namespace nfsrdma::client::nfs4

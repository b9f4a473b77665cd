// SPDX-License-Identifier: Apache-2.0
// StateRegistry: the files that have state (opens, locks, unwritten data), and the record of each user's
// open: what OPEN gives, what is lost, what FREE_STATEID acknowledges (RFC 8881 sections 8.2,
// 9, 18.16, 18.38).
//
// Owned by the StateManager; the classes that close, return and recover state use it. Any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/core/nodes/open_files.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/file_state.h"
#include "client/nfs4/state/recovery_hooks.h"
#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::client::nfs4 {

// How often one request may find its state gone. Each time needs another revocation or restart.
inline constexpr int kMaxRecoveries = 16;
// How often it may be rejected while TEST_STATEID says that its state is valid.
inline constexpr int kMaxContradictions = 2;

// The stateids that the server gave, the locks' before the open's. The Node's mutex is held.
std::vector<nfs4::stateid4> stateids_of(const OpenState& state);
// The server no longer has `state`. True if locks were lost with it. The Node's mutex is held.
bool lose(OpenState& state);

class StateRegistry {
 public:
  // `names`: for messages.
  StateRegistry(Session& session, NameCache& names, RecoveryHooks& hooks)
      : session_(session), names_(names), hooks_(hooks) {}

  // --- files ---
  std::shared_ptr<FileState> pin_file(Nfs4Node& node) { return files_.pin(node); }
  void unpin_file(Nfs4Node& node) { files_.unpin(node); }
  void drop_if_unused(Nfs4Node& node) { files_.drop_if_unused(node); }
  std::vector<NodeRef> files() const { return files_.all(); }
  struct Counts {
    uint64_t opens = 0, locks = 0, locks_lost = 0;
  };
  Counts counts() const;

  // --- opens ---
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
  // An OPEN upgraded an existing open without a new opener: when its next opener closes, it is downgraded
  // again. False if the stateid is of no open here.
  bool note_upgrade(const nfs4::stateid4& stateid, uint32_t access);

  // --- state that is gone ---
  void report_lost_locks(const NodeRef& node, const char* why);
  Task<> free_stateid(nfs4::stateid4 stateid, rpc::CredentialPtr credential);
  // Section 8.4.3: acknowledges each revoked stateid, in this order.
  Task<> free_stateids(std::vector<nfs4::stateid4> stateids, rpc::CredentialPtr credential);
  // How a log line identifies a file: with log_level=debug by a known name, else by its inode number. Without
  // the Node's mutex.
  std::string describe_file(const NodeRef& node);

 private:
  Session& session_;
  NameCache& names_;
  RecoveryHooks& hooks_;
  OpenFiles<Nfs4Node, FileState> files_;
  std::atomic<uint64_t> locks_lost_{0};
};

}  // namespace nfsrdma::client::nfs4

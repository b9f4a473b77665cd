// SPDX-License-Identifier: Apache-2.0
// Core: one NFSv4.1 server without its sockets. It holds file systems, clients, state, clocks, and the lock
// that guards them.
//
// Everything in it needs `mutex`, which is held for one COMPOUND, one callback reply or one call of the test
// API. No thread waits while it holds the lock. Data for other threads leaves through Link and
// BackChannel::Environment.
//
// A restart keeps what a disk would keep: the tree and the recovery records. All else, which is in memory, is
// lost.
#pragma once

#include <cstdint>

#include "filer/nfs/back_channel.h"
#include "filer/nfs/journal.h"
#include "filer/nfs/options.h"
#include "filer/state/recovery.h"
#include "filer/state/stable_storage.h"
#include "filer/state/states.h"
#include "filer/tree/attributes.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::filer::nfs {

class Core {
 public:
  Core(const Options& options, BackChannel::Environment environment);

  // Handles expired leases, the end of the grace period, and recalled delegations that were not returned in
  // time. Called before each COMPOUND and after the clock was moved.
  void tick();
  // Passes switches on to the objects that keep copies of them.
  void apply_switches() {
    tree.preserve_unlinked(switches.preserve_unlinked);
    tree.tell_changes(switches.change_told);
  }
  // The flavors that the options give an export.
  const tree::Flavors& flavors_of(const std::string& path) const;
  // Drops everything that a restart loses. The caller closes the links.
  void restart(bool forget_reclaims);
  // At start: takes over what the previous run has stored. Begins a grace period if any client may reclaim.
  void remember_from(std::unique_ptr<state::StableStorage> storage);
  // Stores which clients may reclaim, if that has changed. Called before the operation that changed it is
  // answered.
  void save_clients();
  // created() records that an exclusive create with this verifier made the file. was_created_by() returns
  // whether one did.
  void created(tree::Node& node, const nfs4::verifier4& verifier);
  bool was_created_by(const tree::Node& node, const nfs4::verifier4& verifier) const;
  // The values of time_access and time_modify (whole seconds) that store a verifier
  // (Switches::verifier_in_times).
  static std::array<nfs4::nfstime4, 2> times_of(const nfs4::verifier4& verifier);
  void expire_client(state::Client& client);
  // Revokes a state; by default as an administrative revocation.
  void revoke(state::State& state, state::Revoked why = state::Revoked::kAdmin);
  // Called when another client requests something that conflicts with `state`. If its client's lease has
  // expired (Expiry::kCourtesy), the state is revoked and the result is true.
  bool take_from_expired(state::State& state);
  // Whether the client may have one more state (StateTable::Limits); if not, the operation is answered
  // NFS4ERR_DELAY. At the limit for all clients together, other clients with expired leases are forgotten
  // first, beginning with the longest expired.
  bool room_for_state(state::Client& client);
  // As room_for_state(), for an OPEN of a file that nobody has open. Such an open may occupy one of the
  // server's file descriptors until CLOSE, for example if the file is removed while open. One client may
  // occupy half of these descriptors.
  bool room_for_open(state::Client& client, const tree::FileSystem& fs);
  bool room_for_locks(state::Client& client, ptrdiff_t more);

  uint32_t status_flags(const state::Session& session);
  tree::ServerFacts facts() const;
  state::LeaseClock::Duration lease() const { return options.lease; }
  bool lease_expired(const state::Client& client) const { return clock.now() - client.renewed > lease(); }

  // Recalls a delegation. Does nothing if it was recalled already.
  void recall(state::State& delegation);
  // Recalls every delegation, or revokes every one as if its recall had timed out.
  void recall_delegations();
  void revoke_delegations();
  // Sends recalls that were lost with a session, or had no session, on another session of the client.
  void resume_recalls(const state::Client& client);
  // Remembers a denied lock request, so that locks_changed() can send CB_NOTIFY_LOCK when a lock on the file
  // is released. Keeps the latest kMaxDeniedLocks of all clients; clients of older ones have to poll.
  void denied(nfs4::clientid4 client, tree::NodeId node, const std::string& owner);
  void locks_changed(tree::Node& node);

  Mutex mutex{LockRank::kOuter};
  ConditionVariable changed;  // signalled when something happened that a test may wait for

  Options options;  // fixed after the start, except for the lease, which a restart may change
  Switches switches;
  state::LeaseClock clock;
  tree::Tree tree;
  state::StateTable states;
  state::ClientTable clients;
  state::Recovery recovery;
  Journal journal;
  BackChannel back;
  bool clients_moved = false;  // whether save_clients() has to write
  uint64_t boot = 0;
  // Called after a WRITE or COMMIT of the node: "The server must vary the value of the write verifier at each
  // server event or instantiation that may lead to a loss of uncommitted data" (RFC 8881 section 18.3.3).
  void renew_verifier_after_loss(const tree::Node& node);
  nfs4::verifier4 write_verifier;
  // By directory; a test changes it to make READDIR verifiers invalid.
  std::map<tree::NodeId, uint64_t> cookie_generation;

  static constexpr size_t kMaxDeniedLocks = 1024;

 private:
  struct DeniedLock {
    nfs4::clientid4 client = 0;
    tree::NodeId node = 0;
    nfs4::lock_owner4 owner;
  };

  void renew_write_verifier() { write_verifier = nfs4::verifier4::of(boot << 32 | ++write_turn_); }
  void send_recall(state::State& delegation);
  // Forgets expired clients for which `helps` is true until look() no longer says kAllFull.
  bool make_room(state::Client& client, const std::function<state::StateTable::Room()>& look,
                 bool (*helps)(const state::Client&));
  state::Client* longest_expired(const state::Client& except, bool (*helps)(const state::Client&));

  std::unique_ptr<state::StableStorage> storage_;  // null: nothing is stored
  uint64_t write_turn_ = 0;                        // counts write verifiers
  std::vector<DeniedLock> denied_locks_;
  // Recalled delegations; revoked if not returned within a lease period.
  std::vector<nfs4::stateid4> recalled_;
};

}  // namespace nfsrdma::filer::nfs

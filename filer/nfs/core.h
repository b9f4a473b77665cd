// SPDX-License-Identifier: Apache-2.0
// Core: one NFSv4.1 server without its sockets: file systems, clients, states, clocks, and the lock that
// guards them.
//
// Everything inside happens under `mutex`, held for one COMPOUND, one callback reply, one call of the test's
// API. It is never held while anything waits. What crosses threads leaves through Link and `post`.
//
// A restart keeps the tree and the recovery records (the disk) and loses the rest (the memory).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "filer/journal.h"
#include "filer/nfs/back_channel.h"
#include "filer/options.h"
#include "filer/state/recovery.h"
#include "filer/state/stable_storage.h"
#include "filer/state/states.h"
#include "filer/tree/attributes.h"

namespace nfsrdma::filer {

class Core {
 public:
  Core(const Options& options, BackChannel::Environment environment);

  // Time has passed: leases, grace, recalls that were not honoured. Before every COMPOUND, and after the
  // clock moved.
  void tick();
  // Switches that others than the operations look at.
  void apply_switches() {
    tree.preserve_unlinked(switches.preserve_unlinked);
    tree.tell_changes(switches.change_told);
  }
  // The memory is gone. Links are the caller's to close.
  void restart(bool forget_reclaims);
  // At the start: this server is the next run of the one that wrote this. Begins a grace period if anybody
  // may reclaim.
  void remember_from(std::unique_ptr<StableStorage> storage);
  // Who may reclaim has changed: it is written down before the operation that did it is answered.
  void save_clients();
  // A file that an exclusive create has made, and whether one with this verifier did.
  void created(Node& node, const nfs4::verifier4& verifier);
  bool was_created_by(const Node& node, const nfs4::verifier4& verifier) const;
  // The times that say it (Switches::verifier_in_times): accessed and modified, of whole seconds.
  static std::array<nfs4::nfstime4, 2> times_of(const nfs4::verifier4& verifier);
  void expire_client(Client& client);
  // Takes a state away, as an administrator would.
  void revoke(State& state, Revoked why = Revoked::kAdmin);
  // Somebody else wants what a client with an expired lease holds (Expiry::kCourtesy). True when it was taken
  // away.
  bool take_from_expired(State& state);
  // Whether there is room for one more state, or for so many more locks (StateTable::Limits); where there is
  // none the answer is NFS4ERR_DELAY. Clients whose leases are over are forgotten for it, the longest expired
  // first, if it is all clients' limit and not this one's.
  bool room_for_state(Client& client);
  // ...which opens a file there that nobody has open. Those that were removed since they were opened, for
  // example, keep descriptors of the server's: one client may have half of these, too.
  bool room_for_open(Client& client, const FileSystem& fs);
  bool room_for_locks(Client& client, ptrdiff_t more);

  uint32_t status_flags(const Session& session);
  ServerFacts facts() const;
  LeaseClock::Duration lease() const { return options.lease; }
  bool lease_expired(const Client& client) const { return clock.now() - client.renewed > lease(); }

  // Starts the recall of a delegation, once.
  void recall(State& delegation);
  // Every delegation there is: recalled, or taken away as though its recall had gone unheeded.
  void recall_delegations();
  void revoke_delegations();
  // Recalls that were lost with their session, or found none, go over another one of the client.
  void resume_recalls(const Client& client);
  // Who was denied a lock and would wait for it is told (CB_NOTIFY_LOCK) when one was given up on the file:
  // the latest kMaxDeniedLocks of all. Others have to ask again.
  void denied(nfs4::clientid4 client, NodeId node, const std::string& owner);
  void locks_changed(Node& node);

  std::mutex mutex;
  std::condition_variable changed;  // something a test may wait for has happened

  Options options;  // fixed, but for the lease, which another server may have another of
  Switches switches;
  LeaseClock clock;
  Tree tree;
  StateTable states;
  ClientTable clients;
  Recovery recovery;
  Journal journal;
  BackChannel back;
  bool clients_moved = false;  // save_clients() has something to do
  uint64_t boot = 0;
  // Behind a WRITE or COMMIT of the node: "The server must vary the value of the write verifier at each
  // server event or instantiation that may lead to a loss of uncommitted data" (RFC 8881 section 18.3.3).
  void renew_verifier_after_loss(const Node& node);
  nfs4::verifier4 write_verifier;
  std::map<NodeId, uint64_t> cookie_generation;  // READDIR verifiers made invalid by a test

  static constexpr size_t kMaxDeniedLocks = 1024;

 private:
  struct DeniedLock {
    nfs4::clientid4 client = 0;
    NodeId node = 0;
    nfs4::lock_owner4 owner;
  };

  void renew_write_verifier() { write_verifier = nfs4::verifier4::of(boot << 32 | ++write_turn_); }
  void send_recall(State& delegation);
  // `helps`: whether there is more room without a client.
  bool make_room(Client& client, const std::function<StateTable::Room()>& look, bool (*helps)(const Client&));
  Client* longest_expired(const Client& except, bool (*helps)(const Client&));

  std::unique_ptr<StableStorage> storage_;  // null: nothing is kept
  uint64_t write_turn_ = 0;                 // of write verifiers
  std::vector<DeniedLock> denied_locks_;
  std::vector<nfs4::stateid4> recalled_;  // delegations to be revoked when their time is over
};

}  // namespace nfsrdma::filer

// SPDX-License-Identifier: Apache-2.0
// StateTable: opens, byte-range locks and delegations, with their stateids (RFC 8881 sections 8.2, 9, 10.4).
//
// A State has one "other" value. Its seqid starts at 1 and grows with each change; NFS4_UINT32_MAX is
// followed by 1. Revoked state holds nothing and stays until FREE_STATEID. "Other" values are random, so
// clients cannot guess each other's stateids. check() validates as described in section 8.2.4. Guarded by the
// server's lock; lost when the server restarts.
//
// The amount of state is limited (Limits): an operation checks for room before it adds state.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "filer/state/byte_locks.h"
#include "filer/state/session.h"
#include "filer/tree/tree.h"
#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::filer::state {

enum class StateKind : uint8_t { kOpen = 1, kLock = 2, kDelegation = 4 };

inline constexpr unsigned kAnyState = 7;

constexpr unsigned mask(StateKind kind) {
  return static_cast<unsigned>(kind);
}

enum class Revoked : uint8_t { kNo, kExpired, kAdmin, kRecall };

struct State {
  StateKind kind = StateKind::kOpen;
  nfs4::stateid4 id;  // with the current seqid
  Client* client = nullptr;
  tree::NodePtr node;
  Revoked revoked = Revoked::kNo;

  // For an open. A lock stateid uses only `owner`; it has the access of its `open` (share_access()).
  std::string owner;  // open-owner, or lock-owner
  uint32_t access = 0;
  uint32_t deny = 0;
  // Bit access * 4 + deny is set for each OPEN that contributed; limits OPEN_DOWNGRADE.
  uint16_t combinations = 0;
  bool reclaimed = false;  // reclaimed by CLAIM_PREVIOUS: I/O with it is safe during the grace period
  bool pins = false;       // counted in Client::pinned

  // kLock: the open it was taken under; null if both were revoked and the open has been freed.
  State* open = nullptr;
  std::vector<State*> locks{};                                       // kOpen: the lock stateids under it
  size_t place_of_node = 0, place_of_client = 0, place_of_open = 0;  // position in each list

  // For a delegation.
  bool write = false;
  bool recalled = false;
  LeaseClock::Duration recalled_at{0};
  nfs4::sessionid4 granted_session;  // the request that granted it, for csa_referring_call_lists
  uint32_t granted_slot = 0;
  uint32_t granted_sequence = 0;
  uint64_t recall_call = 0;     // the CallbackId of its CB_RECALL; 0: not sent
  uint64_t granted_change = 0;  // the change attribute when it was granted
  // What the holder has answered to CB_GETATTR (section 10.4.3).
  struct Told {
    enum class Phase : uint8_t { kNothing, kAsked, kAnswered, kFailed } phase = Phase::kNothing;
    LeaseClock::Duration since{0};
    uint64_t at = 0;    // StateTable::delegations_moved() when the answer came
    bool used = false;  // the answer has been used in a reply
    uint64_t size = 0, change = 0;
  } told;

  bool live() const { return revoked == Revoked::kNo; }
  uint32_t share_access() const { return kind == StateKind::kLock ? open->access : access; }
};

class StateTable {
 public:
  // Limits for all clients together. One client may have at most half.
  struct Limits {
    // Opens, lock stateids and delegations; includes revoked ones until they are freed.
    size_t max_states = 1u << 19;
    size_t max_locks = 1u << 19;  // byte ranges
  };
  enum class Room : uint8_t { kEnough, kClientFull, kAllFull };

  StateTable(tree::Tree& tree, Limits limits) : tree_(tree), limits_(limits) {}

  void restart();

  State& add(StateKind kind, Client& client, tree::NodePtr node);
  // Adds a lock stateid under an open.
  State& add_lock(State& open, std::string owner);
  // Advances the seqid and returns the stateid for the reply.
  static const nfs4::stateid4& advance(State& state);
  void remove(State& state);
  // Releases what the state holds and keeps its stateid, so that its use gets the error for `why`.
  void revoke(State& state, Revoked why);
  void revoke_client(Client& client, Revoked why);
  void remove_client(Client& client);

  State* find(const nfs4::stateid4& id);
  // Section 8.2.4, for stateids that are not special. `kinds` is a mask of StateKind. `node` null: the
  // filehandle is not compared.
  tree::Answer<State*> check(const nfs4::stateid4& id, const Client& client, const tree::Node* node,
                             unsigned kinds);

  State* find_open(const Client& client, const std::string& owner, tree::NodeId node);
  State* find_lock(const State& open, const std::string& owner);
  State* find_delegation(const Client& client, tree::NodeId node);
  // The states of one file, of all clients, including revoked ones.
  const std::vector<State*>& of(tree::NodeId node) const;

  // Counter that changes when a delegation ends and when a holder has answered CB_GETATTR.
  uint64_t delegations_moved() const { return delegations_moved_; }
  void delegation_moved() { ++delegations_moved_; }

  // An open that conflicts with a new open of `access` and `deny` (section 9.7); `except` is ignored.
  State* share_conflict(tree::NodeId node, uint32_t access, uint32_t deny,
                        const State* except = nullptr) const;
  // An open, other than `except`, that denies `access` to I/O.
  State* denies(tree::NodeId node, uint32_t access, const State* except = nullptr) const;

  // Whether there is room for one more state, or for `more` locks.
  Room room_for_state(const Client& client) const;
  Room room_for_locks(const Client& client, size_t more) const;
  // The same for an open of a file that nobody has open, given how full the store is.
  static Room room_for_descriptors(const Client& client, const tree::Store::Crowd& crowd);
  // Updates Client::pinned after Node::pinned has changed.
  void count_pins(tree::NodeId node);

  const ByteLocks& locks(tree::NodeId node) const;
  // Locks or unlocks a range for a lock stateid.
  void lock(State& state, const ByteRange& range, bool write);
  void unlock(State& state, const ByteRange& range);
  static LockOwner lock_owner(const State& state) { return {state.client->id, state.owner}; }

  template <class Visit>
  void each(Visit visit) {
    for (auto& [id, state] : states_) visit(*state);
  }
  size_t size() const { return states_.size(); }
  size_t lock_count() const { return lock_count_; }

 private:
  nfs4::stateid4 new_id() const;
  void let_go(State& state);
  static void set_pins(State& state, bool pins);
  template <class Change>
  void change_locks(State& state, Change change);

  tree::Tree& tree_;
  const Limits limits_;
  uint64_t delegations_moved_ = 0;
  std::unordered_map<nfs4::stateid4, std::unique_ptr<State>> states_;  // keyed by "other" only
  std::unordered_map<tree::NodeId, std::vector<State*>> by_node_;
  std::unordered_map<tree::NodeId, ByteLocks> locks_;  // a file without locks has no entry
  size_t lock_count_ = 0;
};

// A stateid reduced to its "other" value, the key of the table.
nfs4::stateid4 state_key(const nfs4::stateid4& id);

}  // namespace nfsrdma::filer::state

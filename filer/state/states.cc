// SPDX-License-Identifier: Apache-2.0
#include "filer/state/states.h"

#include <algorithm>

#include "filer/state/random.h"

namespace nfsrdma::filer::state {

using namespace nfs4;

namespace {

nfsstat4 revocation_status(Revoked why) {
  switch (why) {
    case Revoked::kNo: return NFS4_OK;
    case Revoked::kExpired: return NFS4ERR_EXPIRED;
    case Revoked::kAdmin: return NFS4ERR_ADMIN_REVOKED;
    case Revoked::kRecall: return NFS4ERR_DELEG_REVOKED;
  }
  return NFS4ERR_BAD_STATEID;
}

// Section 8.2.2: near the wrap-around the numerically smaller seqid is the newer one. "Near" means within the
// number of slots of all the client's sessions.
bool older(uint32_t a, uint32_t b, const Client& client) {
  uint64_t slots = 0;
  for (const Session* session : client.sessions) slots += session->slots.size();
  const bool a_high = a > UINT32_MAX - slots;
  const bool b_high = b > UINT32_MAX - slots;
  if (a_high && b < slots) return true;
  if (b_high && a < slots) return false;
  return a < b;
}

// A state stores its position in each list, so that it can be removed in constant time: the last element
// takes its place.
void put(std::vector<State*>& list, State& state, size_t State::*place) {
  state.*place = list.size();
  list.push_back(&state);
}

void take(std::vector<State*>& list, State& state, size_t State::*place) {
  list.back()->*place = state.*place;
  list[state.*place] = list.back();
  list.pop_back();
}

// The client's counter of states revoked for this reason.
uint32_t* revoked_count(Client& client, Revoked why) {
  switch (why) {
    case Revoked::kNo: return nullptr;
    case Revoked::kExpired: return &client.revoked_expired;
    case Revoked::kAdmin: return &client.revoked_admin;
    case Revoked::kRecall: return &client.revoked_recall;
  }
  return nullptr;
}

}  // namespace

stateid4 state_key(const stateid4& id) {
  return {0, id.other};
}

void StateTable::restart() {
  for (auto& [id, state] : states_) {  // clients may survive the restart
    state->client->states.clear();
    state->client->locks = 0;
    state->client->pinned = 0;
  }
  states_.clear();
  by_node_.clear();
  locks_.clear();
  lock_count_ = 0;
}

// Section 8.2.3: all zeros and all ones are special values.
stateid4 StateTable::new_id() const {
  constexpr std::array<std::byte, 12> kZeros{};
  stateid4 id;
  do {
    fill_random(id.other);
  } while (id.other == kZeros || id.other == kAllOnes || states_.contains(id));
  return id;
}

State& StateTable::add(StateKind kind, Client& client, tree::NodePtr node) {
  auto state = std::make_unique<State>();
  state->kind = kind;
  state->client = &client;
  state->node = std::move(node);
  state->id = new_id();
  if (kind != StateKind::kLock) {
    tree_.hold(*state->node);  // a delegation too: DELEGRETURN must still find the file
    set_pins(*state, state->node->pinned);
  }
  State& added = *states_.emplace(state_key(state->id), std::move(state)).first->second;
  put(by_node_[added.node->id], added, &State::place_of_node);
  put(client.states, added, &State::place_of_client);
  return added;
}

State& StateTable::add_lock(State& open, std::string owner) {
  State& lock = add(StateKind::kLock, *open.client, open.node);
  lock.open = &open;
  lock.owner = std::move(owner);
  put(open.locks, lock, &State::place_of_open);
  return lock;
}

const stateid4& StateTable::advance(State& state) {
  state.id.seqid = state.id.seqid == UINT32_MAX ? 1 : state.id.seqid + 1;
  return state.id;
}

// Releases what the state holds.
void StateTable::let_go(State& state) {
  if (!state.live()) return;
  if (state.kind == StateKind::kDelegation) delegation_moved();
  if (state.kind == StateKind::kOpen) state.access = state.deny = 0;
  if (state.kind != StateKind::kLock) tree_.release(*state.node);
  set_pins(state, false);
  if (state.kind == StateKind::kLock) {
    change_locks(state, [&](ByteLocks& locks) { locks.drop_state(lock_owner(state), &state); });
  }
}

template <class Change>
void StateTable::change_locks(State& state, Change change) {
  ByteLocks& locks = locks_[state.node->id];
  const size_t before = locks.size();
  change(locks);
  state.client->locks += locks.size() - before;  // may be negative: unsigned arithmetic modulo 2^64
  lock_count_ += locks.size() - before;
  if (locks.empty()) locks_.erase(state.node->id);
}

void StateTable::lock(State& state, const ByteRange& range, bool write) {
  change_locks(state, [&](ByteLocks& locks) { locks.lock({range, write, lock_owner(state), &state}); });
}

void StateTable::unlock(State& state, const ByteRange& range) {
  change_locks(state, [&](ByteLocks& locks) { locks.unlock(range, lock_owner(state)); });
}

const ByteLocks& StateTable::locks(tree::NodeId node) const {
  static const ByteLocks kNone;
  const auto at = locks_.find(node);
  return at == locks_.end() ? kNone : at->second;
}

StateTable::Room StateTable::room_for_state(const Client& client) const {
  if (states_.size() >= limits_.max_states) return Room::kAllFull;
  return client.states.size() >= limits_.max_states / 2 ? Room::kClientFull : Room::kEnough;
}

StateTable::Room StateTable::room_for_locks(const Client& client, size_t more) const {
  if (lock_count_ + more > limits_.max_locks) return Room::kAllFull;
  return client.locks + more > limits_.max_locks / 2 ? Room::kClientFull : Room::kEnough;
}

StateTable::Room StateTable::room_for_descriptors(const Client& client, const tree::Store::Crowd& crowd) {
  if (crowd.kept >= crowd.most) return Room::kAllFull;
  return std::min(crowd.kept, client.pinned) >= crowd.most / 2 ? Room::kClientFull : Room::kEnough;
}

void StateTable::set_pins(State& state, bool pins) {
  if (state.pins == pins) return;
  state.pins = pins;
  state.client->pinned += pins ? size_t{1} : SIZE_MAX;  // modulo 2^64
}

void StateTable::count_pins(tree::NodeId node) {
  for (State* state : of(node)) {
    if (state->kind != StateKind::kLock && state->live()) set_pins(*state, state->node->pinned);
  }
}

void StateTable::remove(State& state) {
  while (!state.locks.empty()) {
    State& lock = *state.locks.back();
    // A revoked lock stateid stays until FREE_STATEID acknowledges it, even after its open is gone.
    if (lock.live()) {
      remove(lock);
    } else {
      state.locks.pop_back();
      lock.open = nullptr;
    }
  }
  let_go(state);
  if (uint32_t* count = revoked_count(*state.client, state.revoked)) --*count;
  if (state.open != nullptr) take(state.open->locks, state, &State::place_of_open);
  take(state.client->states, state, &State::place_of_client);
  const auto siblings = by_node_.find(state.node->id);
  take(siblings->second, state, &State::place_of_node);
  if (siblings->second.empty()) by_node_.erase(siblings);
  const stateid4 key = state_key(state.id);
  states_.erase(key);
}

void StateTable::revoke(State& state, Revoked why) {
  if (!state.live()) return;
  for (State* lock : state.locks) revoke(*lock, why);
  let_go(state);
  state.revoked = why;
  if (uint32_t* count = revoked_count(*state.client, why)) ++*count;
}

void StateTable::revoke_client(Client& client, Revoked why) {
  for (State* state : client.states) revoke(*state, why);
}

void StateTable::remove_client(Client& client) {
  while (!client.states.empty()) remove(*client.states.back());
}

State* StateTable::find(const stateid4& id) {
  const auto at = states_.find(state_key(id));
  return at == states_.end() ? nullptr : at->second.get();
}

tree::Answer<State*> StateTable::check(const stateid4& id, const Client& client, const tree::Node* node,
                                       unsigned kinds) {
  State* state = find(id);
  if (state == nullptr || state->client != &client) return tree::refuse(NFS4ERR_BAD_STATEID);
  if (node != nullptr && state->node.get() != node) return tree::refuse(NFS4ERR_BAD_STATEID);
  // Checked before the revocation status: operations on opens do not return NFS4ERR_DELEG_REVOKED (section
  // 15.2).
  if ((mask(state->kind) & kinds) == 0) return tree::refuse(NFS4ERR_BAD_STATEID);
  if (!state->live()) return tree::refuse(revocation_status(state->revoked));
  if (id.seqid != 0 && id.seqid != state->id.seqid) {
    return tree::refuse(older(id.seqid, state->id.seqid, client) ? NFS4ERR_OLD_STATEID : NFS4ERR_BAD_STATEID);
  }
  return state;
}

State* StateTable::find_open(const Client& client, const std::string& owner, tree::NodeId node) {
  for (State* state : of(node)) {
    if (state->kind == StateKind::kOpen && state->live() && state->client == &client &&
        state->owner == owner) {
      return state;
    }
  }
  return nullptr;
}

State* StateTable::find_lock(const State& open, const std::string& owner) {
  for (State* lock : open.locks) {
    if (lock->live() && lock->owner == owner) return lock;
  }
  return nullptr;
}

State* StateTable::find_delegation(const Client& client, tree::NodeId node) {
  for (State* state : of(node)) {
    if (state->kind == StateKind::kDelegation && state->live() && state->client == &client) return state;
  }
  return nullptr;
}

const std::vector<State*>& StateTable::of(tree::NodeId node) const {
  static const std::vector<State*> kNone;
  const auto at = by_node_.find(node);
  return at == by_node_.end() ? kNone : at->second;
}

State* StateTable::share_conflict(tree::NodeId node, uint32_t access, uint32_t deny,
                                  const State* except) const {
  for (State* state : of(node)) {
    if (state->kind != StateKind::kOpen || !state->live() || state == except) continue;
    if ((state->deny & access) != 0 || (state->access & deny) != 0) return state;
  }
  return nullptr;
}

State* StateTable::denies(tree::NodeId node, uint32_t access, const State* except) const {
  return share_conflict(node, access, 0, except);
}

}  // namespace nfsrdma::filer::state

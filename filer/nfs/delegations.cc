// SPDX-License-Identifier: Apache-2.0
#include "filer/nfs/delegations.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

open_delegation4 none(bool wanted, why_no_delegation4 why) {
  open_delegation4 d;
  // If the client sent one of the new flags: "in the event the server does not return a delegation, it MUST
  // return a delegation type of OPEN_DELEGATE_NONE_EXT".
  d.delegation_type = wanted ? OPEN_DELEGATE_NONE_EXT : OPEN_DELEGATE_NONE;
  d.ond_why = why;
  return d;
}

open_delegation4 describe(const state::State& state, const stateid4& id) {
  open_delegation4 d;
  d.delegation_type = state.write ? OPEN_DELEGATE_WRITE : OPEN_DELEGATE_READ;
  d.stateid = id;
  d.space_limit.limitby = NFS_LIMIT_SIZE;
  d.space_limit.filesize = NFS4_UINT64_MAX;
  // This ACE allows nothing, so clients still have to send ACCESS: the server's permissions are not an ACL.
  d.permissions.who = "EVERYONE@";
  return d;
}

open_delegation4 grant(Context& c, const tree::NodePtr& node, bool write) {
  state::State& state = c.core.states.add(state::StateKind::kDelegation, *c.client, node);
  state.write = write;
  state.granted_session = c.sequence.sa_sessionid;
  state.granted_slot = c.sequence.sa_slotid;
  state.granted_sequence = c.sequence.sa_sequenceid;
  state.granted_change = c.core.tree.told_change(*node);
  return describe(state, c.core.states.advance(state));
}

bool another_is_in_the_way(const Context& c, const tree::Node& node, bool write) {
  for (const state::State* state : c.core.states.of(node.id)) {
    if (!state->live() || state->client == c.client) continue;
    if (state->kind == state::StateKind::kDelegation && (write || state->write)) return true;
    if (state->kind != state::StateKind::kOpen) continue;
    const bool disturbs_reader =
        (state->access & OPEN4_SHARE_ACCESS_WRITE) != 0 || (state->deny & OPEN4_SHARE_DENY_READ) != 0;
    if (write || disturbs_reader) return true;
  }
  return false;
}

// How long the holder may take to answer CB_GETATTR, and how long its answer is valid. The answer serves the
// request that waited for it, and the first of those that were sent away with NFS4ERR_DELAY.
constexpr std::chrono::seconds kPatience{2};
constexpr std::chrono::seconds kGoodFor{1};

state::State* write_delegation_of_another(const Context& c, const tree::Node& node) {
  for (state::State* state : c.core.states.of(node.id)) {
    if (state->kind == state::StateKind::kDelegation && state->write && state->live() &&
        state->client != c.client)
      return state;
  }
  return nullptr;
}

void heard(Core& core, const stateid4& id, const CB_COMPOUND4res& reply) {
  state::State* state = core.states.find(id);
  if (state == nullptr) return;
  state::State::Told& told = state->told;
  told.phase = state::State::Told::Phase::kFailed;
  told.since = core.clock.now();
  core.states.delegation_moved();
  told.at = core.states.delegations_moved();
  told.used = false;
  if (reply.status != NFS4_OK || reply.resarray.size() != 2) return;
  const auto* res = std::get_if<CB_GETATTR4res>(&reply.resarray[1].op);
  if (res == nullptr || res->status != NFS4_OK) return;
  const fattr4& a = res->resok4.obj_attributes;
  if (!a.has(FATTR4_SIZE) || !a.has(FATTR4_CHANGE)) return;
  told.phase = state::State::Told::Phase::kAnswered;
  told.size = a.size;
  told.change = a.change;
}

bool send_getattr(Core& core, state::State& state) {
  state::Session* session = nullptr;
  for (state::Session* s : state.client->sessions) {
    if (core.back.link_of(*s) != nullptr) session = s;
  }
  if (session == nullptr) return false;
  Callback callback;
  callback.ops.push_back(
      {CB_GETATTR4args{core.tree.handle(*state.node), bitmap4::of({FATTR4_SIZE, FATTR4_CHANGE})}});
  callback.done = [&core, id = state.id](const CB_COMPOUND4res& reply) { heard(core, id, reply); };
  state.told.phase = state::State::Told::Phase::kAsked;
  state.told.since = core.clock.now();
  core.back.call(*session, std::move(callback));
  return true;
}

bool has_back_channel(const Context& c) {
  for (const state::Session* session : c.client->sessions) {
    if (c.core.back.link_of(*session) != nullptr) return true;
  }
  return false;
}

}  // namespace

open_delegation4 offer_delegation(Context& c, const tree::NodePtr& node, uint32_t share_access) {
  const uint32_t want = share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK;
  constexpr uint32_t kFlags = OPEN4_SHARE_ACCESS_WANT_DELEG_MASK |
                              OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL |
                              OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED;
  const bool wanted = (share_access & kFlags) != 0;
  if (want == OPEN4_SHARE_ACCESS_WANT_NO_DELEG) return none(true, WND4_NOT_WANTED);
  if (want == OPEN4_SHARE_ACCESS_WANT_CANCEL) return none(true, WND4_CANCELLED);
  const Delegations policy = c.core.switches.delegations;
  if (policy == Delegations::kNever || !has_back_channel(c) || c.core.recovery.in_grace()) {
    return none(wanted, WND4_RESOURCE);
  }
  const bool opens_to_write = (share_access & OPEN4_SHARE_ACCESS_WRITE) != 0;
  bool write = want == OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG;
  if (want == OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE || want == OPEN4_SHARE_ACCESS_WANT_ANY_DELEG) {
    write = opens_to_write;
  }
  if (write && policy == Delegations::kRead) return none(wanted, WND4_WRITE_DELEG_NOT_SUPP_FTYPE);
  if (const state::State* held = c.core.states.find_delegation(*c.client, node->id)) {
    if (write && !held->write) return none(wanted, WND4_NOT_SUPP_UPGRADE);
    if (!write && held->write) return none(wanted, WND4_NOT_SUPP_DOWNGRADE);
    return none(wanted, WND4_RESOURCE);
  }
  if (another_is_in_the_way(c, *node, write)) return none(wanted, WND4_CONTENTION);
  if (c.core.states.room_for_state(*c.client) != state::StateTable::Room::kEnough)
    return none(wanted, WND4_RESOURCE);
  return grant(c, node, write);
}

HeldAttributes ask_holder(Context& c, tree::Node& node) {
  using Phase = state::State::Told::Phase;
  state::State* const state = write_delegation_of_another(c, node);
  if (state == nullptr || c.core.take_from_expired(*state)) return {};
  state::State::Told& told = state->told;
  const state::LeaseClock::Duration age = c.core.clock.now() - told.since;
  // If the holder does not answer, the delegation is recalled and finally revoked.
  const bool failed = told.phase == Phase::kFailed || (told.phase == Phase::kAsked && age > kPatience);
  const HeldAttributes later = {NFS4ERR_DELAY, {}};
  c.delegation_in_the_way = true;
  if (state->recalled || failed) {
    c.core.recall(*state);
    return later;
  }
  if (told.phase == Phase::kAsked) return later;
  const bool good = told.at > c.began || (!told.used && age <= kGoodFor);
  if (told.phase == Phase::kNothing || !good) {
    if (send_getattr(c.core, *state)) return later;
    told.phase = Phase::kFailed;
    return ask_holder(c, node);
  }
  told.used = true;
  // Section 10.4.3: if the holder reports the change attribute that came with the delegation, the file has
  // not been modified.
  if (told.change == state->granted_change) return {};
  // Otherwise the server changes its own change attribute and time_modify, so that no value of these
  // attributes describes two contents.
  const settime4 now{SET_TO_SERVER_TIME4, {}};
  const nfsstat4 status = c.core.tree.set(node, {.modified = now}, tree::Principal::superuser());
  return {status, told.size};
}

open_delegation4 reclaim_delegation(Context& c, const tree::NodePtr& node, open_delegation_type4 type) {
  if (!c.core.switches.give_delegations_back) return {};
  if (type != OPEN_DELEGATE_READ && type != OPEN_DELEGATE_WRITE) return {};
  const bool write = type == OPEN_DELEGATE_WRITE;
  // A repeated reclaim gets the delegation that the first one was granted, if the type is the same.
  if (const state::State* held = c.core.states.find_delegation(*c.client, node->id)) {
    return held->write == write ? describe(*held, held->id) : open_delegation4{};
  }
  if (another_is_in_the_way(c, *node, write)) return {};
  if (c.core.states.room_for_state(*c.client) != state::StateTable::Room::kEnough) return {};
  return grant(c, node, write);
}

}  // namespace nfsrdma::filer::nfs

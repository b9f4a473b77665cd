// SPDX-License-Identifier: Apache-2.0
// Stateids: DELEGRETURN, DELEGPURGE, TEST_STATEID, FREE_STATEID, and the delegation operations that this
// server does not implement (RFC 8881 sections 18.5, 18.6, 18.38, 18.39, 18.48, 18.49).

#include "filer/nfs/ops.h"
#include "filer/nfs/stateid_use.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

DELEGRETURN4res execute(Context& c, const DELEGRETURN4args& args) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<DELEGRETURN4res>(status);
  const tree::Answer<state::State*> state =
      named_state(c, args.deleg_stateid, mask(state::StateKind::kDelegation));
  if (!state) return refused<DELEGRETURN4res>(state.error());
  c.core.states.remove(**state);
  return {};
}

// "MUST NOT support ... DELEGPURGE" unless CLAIM_DELEGATE_PREV is supported.
DELEGPURGE4res execute(Context&, const DELEGPURGE4args&) {
  return refused<DELEGPURGE4res>(NFS4ERR_NOTSUPP);
}

TEST_STATEID4res execute(Context& c, const TEST_STATEID4args& args) {
  TEST_STATEID4res res;
  for (const stateid4& id : args.ts_stateids) {
    // "Special stateids are always considered invalid": the table does not contain them.
    const tree::Answer<state::State*> state = c.core.states.check(id, *c.client, nullptr, state::kAnyState);
    res.resok4.tsr_status_codes.push_back(state ? NFS4_OK : state.error());
  }
  return res;
}

FREE_STATEID4res execute(Context& c, const FREE_STATEID4args& args) {
  const tree::Answer<stateid4> id = substitute_current(c, args.fsa_stateid, false);
  if (!id) return refused<FREE_STATEID4res>(id.error());
  state::State* state = c.core.states.find(*id);
  if (state == nullptr || state->client != c.client) return refused<FREE_STATEID4res>(NFS4ERR_BAD_STATEID);
  if (!state->live()) {  // "the client acknowledges the loss of those locks"
    c.core.states.remove(*state);
    c.core.clients_moved = true;
    return {};
  }
  const tree::Answer<state::State*> valid = c.core.states.check(*id, *c.client, nullptr, state::kAnyState);
  if (!valid) return refused<FREE_STATEID4res>(valid.error());
  // "If there are valid locks (of any kind) associated with the stateid in question, the error
  // NFS4ERR_LOCKS_HELD".
  const bool holds = state->kind != state::StateKind::kLock ||
                     c.core.states.locks(state->node->id).holds(state::StateTable::lock_owner(*state), state);
  if (holds) return refused<FREE_STATEID4res>(NFS4ERR_LOCKS_HELD);
  c.core.states.remove(*state);
  return {};
}

WANT_DELEGATION4res execute(Context&, const WANT_DELEGATION4args&) {
  return refused<WANT_DELEGATION4res>(NFS4ERR_NOTSUPP);
}

GET_DIR_DELEGATION4res execute(Context&, const GET_DIR_DELEGATION4args&) {
  return refused<GET_DIR_DELEGATION4res>(NFS4ERR_NOTSUPP);
}

}  // namespace nfsrdma::filer::nfs

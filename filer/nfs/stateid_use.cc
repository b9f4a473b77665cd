// SPDX-License-Identifier: Apache-2.0
#include "filer/nfs/stateid_use.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

constexpr std::array<std::byte, 12> kZeros{};

bool has_reserved_other(const stateid4& id) {
  return id.other == kZeros || id.other == kAllOnes;
}

}  // namespace

tree::Answer<stateid4> substitute_current(const Context& c, const stateid4& given, bool keep_seqid) {
  if (given != kCurrentStateid) return given;
  // "if the value of a current stateid is a special stateid ... the server MUST return the error
  // NFS4ERR_BAD_STATEID".
  if (has_reserved_other(c.current.stateid)) return tree::refuse(NFS4ERR_BAD_STATEID);
  stateid4 id = c.current.stateid;
  if (!keep_seqid) id.seqid = 0;
  return id;
}

tree::Answer<state::State*> named_state(Context& c, const stateid4& given, unsigned kinds, bool keep_seqid) {
  const tree::Answer<stateid4> id = substitute_current(c, given, keep_seqid);
  if (!id) return tree::refuse(id.error());
  if (has_reserved_other(*id)) return tree::refuse(NFS4ERR_BAD_STATEID);
  return c.core.states.check(*id, *c.client, c.current.node.get(), kinds);
}

tree::Answer<state::State*> io_state(Context& c, const stateid4& given, uint32_t access) {
  const tree::Answer<stateid4> id = substitute_current(c, given, false);
  if (!id) return tree::refuse(id.error());
  tree::Node& node = *c.current.node;
  const bool writes = access == OPEN4_SHARE_ACCESS_WRITE;
  const bool bypass = *id == kReadBypassStateid;
  if (*id == kAnonymousStateid || bypass) {
    // During the grace period the server cannot know whether the I/O conflicts with state that a client may
    // still reclaim.
    if (c.core.recovery.in_grace()) return tree::refuse(NFS4ERR_GRACE);
    while (state::State* denying = writes || !bypass ? c.core.states.denies(node.id, access) : nullptr) {
      if (!c.core.take_from_expired(*denying)) return tree::refuse(NFS4ERR_LOCKED);
    }
    if (recall_conflicting(c, node, writes)) return tree::refuse(NFS4ERR_DELAY);
    return nullptr;
  }
  if (has_reserved_other(*id)) return tree::refuse(NFS4ERR_BAD_STATEID);
  const tree::Answer<state::State*> state = c.core.states.check(*id, *c.client, &node, state::kAnyState);
  if (!state) return state;
  const uint32_t allowed = (*state)->kind != state::StateKind::kDelegation ? (*state)->share_access()
                           : (*state)->write                               ? OPEN4_SHARE_ACCESS_BOTH
                                                                           : OPEN4_SHARE_ACCESS_READ;
  if ((allowed & access) == 0) return tree::refuse(NFS4ERR_OPENMODE);
  if (recall_conflicting(c, node, writes)) return tree::refuse(NFS4ERR_DELAY);
  return state;
}

bool recall_conflicting(Context& c, const tree::Node& node, bool wants_write) {
  bool conflict = false;
  for (state::State* state : c.core.states.of(node.id)) {
    if (state->kind != state::StateKind::kDelegation || !state->live() || state->client == c.client) continue;
    if (!wants_write && !state->write) continue;
    if (c.core.take_from_expired(*state)) continue;
    c.core.recall(*state);
    conflict = c.delegation_in_the_way = true;
  }
  return conflict;
}

}  // namespace nfsrdma::filer::nfs

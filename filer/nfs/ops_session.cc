// SPDX-License-Identifier: Apache-2.0
// Client IDs and sessions: EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION, BACKCHANNEL_CTL,
// RECLAIM_COMPLETE, SET_SSV, DESTROY_SESSION, DESTROY_CLIENTID (RFC 8881 sections 18.33 to 18.37, 18.47,
// 18.50, 18.51). Most rules are in state/clients.cc and state/recovery.cc.

#include "filer/nfs/ops.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

// Whether the session's parameters allow callbacks from this server.
bool can_have_back_channel(const state::Session& s) {
  return !s.back_slots.empty() && s.back.ca_maxoperations >= 2 &&
         s.back.ca_maxrequestsize >= state::kSmallestCallback && s.cb_security.has_value();
}

}  // namespace

SEQUENCE4res execute(Context&, const SEQUENCE4args&) {
  return refused<SEQUENCE4res>(NFS4ERR_SEQUENCE_POS);
}

EXCHANGE_ID4res execute(Context& c, const EXCHANGE_ID4args& args) {
  return c.core.clients.exchange_id(args, c.who, c.core.clock.now(), c.core.lease(),
                                    c.link->standing.address);
}

CREATE_SESSION4res execute(Context& c, const CREATE_SESSION4args& args) {
  CREATE_SESSION4args allowed = args;
  if (!c.core.switches.back_channels) allowed.csa_flags &= ~uint32_t{CREATE_SESSION4_FLAG_CONN_BACK_CHAN};
  CREATE_SESSION4res res =
      c.core.clients.create_session(allowed, c.who, c.link->id(), c.core.clock.now(), c.core.lease());
  if (state::Client* client = c.core.clients.find(args.csa_clientid)) {
    if (res.status == NFS4_OK) links::recognise(*c.link, client->who);
    c.core.resume_recalls(*client);
  }
  return res;
}

BACKCHANNEL_CTL4res execute(Context& c, const BACKCHANNEL_CTL4args& args) {
  BACKCHANNEL_CTL4res res;
  res.status = state::check_callback_security(args.bca_sec_parms);
  if (res.status != NFS4_OK) return res;
  const auto security = state::callback_security(args.bca_sec_parms);
  if (!security) return refused<BACKCHANNEL_CTL4res>(NFS4ERR_INVAL);
  c.session->cb_program = args.bca_cb_program;
  c.session->cb_security = security;
  return res;
}

BIND_CONN_TO_SESSION4res execute(Context& c, const BIND_CONN_TO_SESSION4args& args) {
  using Res = BIND_CONN_TO_SESSION4res;
  state::Session* s = c.core.clients.find(args.bctsa_sessid);
  if (s == nullptr) return refused<Res>(NFS4ERR_BADSESSION);
  const links::LinkId link = c.link->id();
  const bool fore = s->fore_links.contains(link);
  const bool back = s->back_links.contains(link);
  bool want_fore = args.bctsa_dir != CDFC4_BACK;
  bool want_back = args.bctsa_dir != CDFC4_FORE;
  if (fore || back) {
    // "has no effect ... unless the client is demanding changes to the set of channels": then NFS4ERR_INVAL.
    // A choice that is left to the server (OR_BOTH) is no demand, so the other channel is added.
    const bool demands = args.bctsa_dir == CDFC4_FORE           ? back || !fore
                         : args.bctsa_dir == CDFC4_BACK         ? fore || !back
                         : args.bctsa_dir == CDFC4_FORE_OR_BOTH ? !fore
                                                                : !back;
    if (demands) return refused<Res>(NFS4ERR_INVAL);
  }
  if (want_back && !(c.core.switches.back_channels && can_have_back_channel(*s))) {
    if (args.bctsa_dir != CDFC4_FORE_OR_BOTH) return refused<Res>(NFS4ERR_INVAL);
    want_back = false;
  }
  links::recognise(*c.link, s->client->who);
  if (want_fore) s->fore_links.insert(link);
  if (want_back) s->back_links.insert(link);
  Res res;
  res.resok4.bctsr_sessid = args.bctsa_sessid;
  res.resok4.bctsr_dir = want_fore && want_back ? CDFS4_BOTH : want_fore ? CDFS4_FORE : CDFS4_BACK;
  if (want_back) c.core.back.link_bound(*s);
  return res;
}

DESTROY_SESSION4res execute(Context& c, const DESTROY_SESSION4args& args) {
  using Res = DESTROY_SESSION4res;
  state::Session* s = c.core.clients.find(args.dsa_sessionid);
  if (s == nullptr) return refused<Res>(NFS4ERR_BADSESSION);
  // "DESTROY_SESSION MUST be the final operation in the COMPOUND request."
  if (s == c.session && !c.last()) return refused<Res>(NFS4ERR_NOT_ONLY_OP);
  // Under SP4_NONE this check alone keeps another user of the client's machine from destroying the session.
  if (!s->client->who.same_user(c.who)) return refused<Res>(NFS4ERR_WRONG_CRED);
  const links::LinkId link = c.link->id();
  if (!s->fore_links.contains(link) && !s->back_links.contains(link)) {
    return refused<Res>(NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  }
  if (s == c.session) c.session = nullptr;
  state::Client& client = *s->client;
  c.core.back.session_gone(*s);
  c.core.clients.destroy_session(*s);
  c.core.resume_recalls(client);
  return {};
}

DESTROY_CLIENTID4res execute(Context& c, const DESTROY_CLIENTID4args& args) {
  using Res = DESTROY_CLIENTID4res;
  state::Client* client = c.core.clients.find(args.dca_clientid);
  if (client == nullptr) return refused<Res>(NFS4ERR_STALE_CLIENTID);
  if (!client->who.same_user(c.who)) return refused<Res>(NFS4ERR_WRONG_CRED);
  const bool busy = !client->sessions.empty() || !client->states.empty();
  if (client == c.client || (busy && !c.core.lease_expired(*client)))
    return refused<Res>(NFS4ERR_CLIENTID_BUSY);
  c.core.clients.destroy_client(*client);
  return {};
}

RECLAIM_COMPLETE4res execute(Context& c, const RECLAIM_COMPLETE4args& args) {
  if (args.rca_one_fs) {
    // "in a file system not in the process of migration, the operation returns NFS4_OK and is otherwise
    // ignored".
    return refused<RECLAIM_COMPLETE4res>(need_current(c));
  }
  if (c.client->reclaim_complete) return refused<RECLAIM_COMPLETE4res>(NFS4ERR_COMPLETE_ALREADY);
  c.core.recovery.complete(*c.client);
  c.core.clients_moved = true;
  if (!c.core.recovery.in_grace()) c.core.tree.forget_unlinked();
  return {};
}

// This server grants no client ID SP4_SSV.
SET_SSV4res execute(Context&, const SET_SSV4args&) {
  return refused<SET_SSV4res>(NFS4ERR_INVAL);
}

}  // namespace nfsrdma::filer::nfs

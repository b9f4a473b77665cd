// SPDX-License-Identifier: Apache-2.0
#include "filer/state/clients.h"

#include <algorithm>
#include <utility>

#include "filer/state/random.h"

namespace nfsrdma::filer::state {

using namespace nfs4;

namespace {

constexpr uint32_t kClientFlags = EXCHGID4_FLAG_SUPP_MOVED_REFER | EXCHGID4_FLAG_SUPP_MOVED_MIGR |
                                  EXCHGID4_FLAG_BIND_PRINC_STATEID | EXCHGID4_FLAG_MASK_PNFS |
                                  EXCHGID4_FLAG_UPD_CONFIRMED_REC_A;
constexpr uint32_t kSessionFlags =
    CREATE_SESSION4_FLAG_PERSIST | CREATE_SESSION4_FLAG_CONN_BACK_CHAN | CREATE_SESSION4_FLAG_CONN_RDMA;

// "If the client selects a value for ca_maxresponsesize such that a replier on a channel could never send a
// response, the server SHOULD return NFS4ERR_TOOSMALL": these sizes fit the smallest replies, to SEQUENCE
// alone and to CB_SEQUENCE with CB_RECALL. The RFC sets no minimum for ca_maxrequestsize.
constexpr uint32_t kSmallestResponse = 128;
constexpr uint32_t kSmallestCallbackReply = 128;

// Errors of CREATE_SESSION that depend only on its arguments.
bool is_refusal(nfsstat4 status) {
  return status == NFS4ERR_TOOSMALL || status == NFS4ERR_INVAL || status == NFS4ERR_NOENT;
}

nfsstat4 check_protection(const state_protect4_a& protect) {
  switch (protect.how) {
    case SP4_NONE: return NFS4_OK;
    case SP4_MACH_CRED:
      return NFS4ERR_INVAL;  // not supported, also under RPCSEC_GSS; clients go on with SP4_NONE
    case SP4_SSV:
      if (protect.ssv.ssp_hash_algs.empty() || protect.ssv.ssp_encr_algs.empty() ||
          protect.ssv.ssp_window == 0) {
        return NFS4ERR_INVAL;
      }
      return NFS4ERR_ENCR_ALG_UNSUPP;
  }
  return NFS4ERR_INVAL;
}

}  // namespace

std::optional<callback_sec_parms4> callback_security(const std::vector<callback_sec_parms4>& security) {
  const auto usable = std::find_if(security.begin(), security.end(), [](const callback_sec_parms4& s) {
    return s.cb_secflavor == rpc::AUTH_NONE || s.cb_secflavor == rpc::AUTH_SYS;
  });
  return usable == security.end() ? std::nullopt : std::optional(*usable);
}

nfsstat4 check_callback_security(const std::vector<callback_sec_parms4>& security) {
  const bool gss = std::any_of(security.begin(), security.end(), [](const callback_sec_parms4& s) {
    return s.cb_secflavor == rpc::RPCSEC_GSS;
  });
  return gss && !callback_security(security) ? NFS4ERR_NOENT : NFS4_OK;
}

ClientTable::ClientTable(Identity identity, Limits limits, Hooks hooks)
    : identity_(std::move(identity)),
      limits_(limits),
      hooks_(std::move(hooks)),
      reply_memory_(limits.reply_cache_bytes) {}

void ClientTable::restart(uint64_t boot) {
  sessions_.clear();
  clients_.clear();
  reply_memory_.release_all();
  boot_ = boot;
  next_client_ = 1;
}

void ClientTable::restart_persistent() {
  for (auto& [id, client] : clients_) {
    client->reclaim_complete = false;
    client->revoked_expired = client->revoked_admin = client->revoked_recall = 0;
    client->expired_all = false;
  }
  for (auto& [id, session] : sessions_) {
    session->fore_links.clear();
    session->back_links.clear();
    for (Slot& slot : session->slots) {
      if (std::exchange(slot.in_progress, false)) --slot.sequence;
    }
  }
}

Client* ClientTable::find_record(const std::string& ownerid, bool confirmed) {
  for (auto& [id, client] : clients_) {
    if (client->confirmed == confirmed && client->owner.co_ownerid == ownerid) return client.get();
  }
  return nullptr;
}

Client* ClientTable::find_owner(const std::string& ownerid) {
  return find_record(ownerid, true);
}

Client* ClientTable::find(clientid4 id) {
  const auto at = clients_.find(id);
  return at == clients_.end() ? nullptr : at->second.get();
}

Session* ClientTable::find(const sessionid4& id) {
  const auto at = sessions_.find(id);
  return at == sessions_.end() ? nullptr : at->second.get();
}

Client& ClientTable::add(const EXCHANGE_ID4args& args, const tree::Principal& who, LeaseClock::Duration now) {
  auto client = std::make_unique<Client>();
  // The boot number makes client IDs of earlier instances invalid: NFS4ERR_STALE_CLIENTID.
  client->id = boot_ << 32 | next_client_++;
  client->owner = args.eia_clientowner;
  client->who = who;
  client->flags = EXCHGID4_FLAG_USE_NON_PNFS;
  client->renewed = now;
  // Section 18.36.4: the slot starts at eir_sequenceid - 1 with a contrived result of NFS4ERR_SEQ_MISORDERED.
  client->create_sequence = 0;
  client->create_reply.status = NFS4ERR_SEQ_MISORDERED;
  return *clients_.emplace(client->id, std::move(client)).first->second;
}

EXCHANGE_ID4res ClientTable::answer(const Client& client) const {
  EXCHANGE_ID4res res;
  res.resok4.eir_clientid = client.id;
  res.resok4.eir_sequenceid = client.create_sequence + 1;
  res.resok4.eir_flags = client.flags | (client.confirmed ? uint32_t{EXCHGID4_FLAG_CONFIRMED_R} : 0);
  res.resok4.eir_server_owner = {identity_.owner_minor, identity_.owner_major};
  res.resok4.eir_server_scope = identity_.scope;
  res.resok4.eir_server_impl_id = identity_.implementation;
  return res;
}

EXCHANGE_ID4res ClientTable::exchange_id(const EXCHANGE_ID4args& args, const tree::Principal& who,
                                         LeaseClock::Duration now, LeaseClock::Duration lease,
                                         const std::string& address) {
  EXCHANGE_ID4res res;
  // "Bits not defined above cannot be set ... the server MUST reject the operation with NFS4ERR_INVAL."
  // CONFIRMED_R "can only be set in eir_flags".
  if ((args.eia_flags & ~kClientFlags) != 0) return res.status = NFS4ERR_INVAL, res;
  if (res.status = check_protection(args.eia_state_protect); res.status != NFS4_OK) return res;

  const std::string& ownerid = args.eia_clientowner.co_ownerid;
  Client* confirmed = find_record(ownerid, true);
  if ((args.eia_flags & EXCHGID4_FLAG_UPD_CONFIRMED_REC_A) != 0) {
    if (confirmed == nullptr) return res.status = NFS4ERR_NOENT, res;  // case 7
    if (confirmed->owner.co_verifier != args.eia_clientowner.co_verifier) {
      return res.status = NFS4ERR_NOT_SAME, res;  // case 8
    }
    if (!confirmed->who.same_user(who)) return res.status = NFS4ERR_PERM, res;  // case 9
    return answer(*confirmed);  // case 6: this server stores nothing that could be updated
  }

  if (confirmed != nullptr && !confirmed->who.same_user(who)) {  // case 3
    const bool expired = now - confirmed->renewed > lease;
    const bool busy = !confirmed->sessions.empty() || hooks_.holds_state(*confirmed);
    if (busy && !expired) return res.status = NFS4ERR_CLID_INUSE, res;
    destroy_client(*confirmed);
    confirmed = nullptr;
  }
  if (confirmed != nullptr && confirmed->owner.co_verifier == args.eia_clientowner.co_verifier) {
    return answer(*confirmed);  // case 2
  }
  // Cases 1, 4 and 5. If the client restarted (case 5), its confirmed record stays until CREATE_SESSION.
  if (Client* unconfirmed = find_record(ownerid, false)) destroy_client(*unconfirmed);
  const auto his = [&](const Client& c) { return c.address == address && c.who.same_user(who); };
  const auto one = [](const Client&) -> size_t { return 1; };
  if (!has_share(who, address, clients_.size(), limits_.max_clients, one) &&
      !make_room(confirmed, now, lease, his))
    return res.status = NFS4ERR_DELAY, res;
  if (clients_.size() >= limits_.max_clients && !make_room(confirmed, now, lease))
    return res.status = NFS4ERR_DELAY, res;
  Client& client = add(args, who, now);
  client.address = address;
  return answer(client);
}

bool ClientTable::has_share(const tree::Principal& who, const std::string& address, size_t there, size_t most,
                            size_t (*of)(const Client&)) {
  const size_t left = most - std::min(most, there);
  size_t his = 0, from_there = 0;
  each_client([&](Client& client) {
    if (client.address != address) return;
    from_there += of(client);
    if (client.who.same_user(who)) his += of(client);
  });
  const bool here = address.starts_with("127.") || address.starts_with("::ffff:127.") || address == "::1";
  return his < std::max(left / 4, kOwnShare) && (here || from_there < std::max(left, kOwnShare));
}

// Removes one unconfirmed client, else the client whose lease expired first. Returns false if there is
// neither.
bool ClientTable::make_room(const Client* except, LeaseClock::Duration now, LeaseClock::Duration lease,
                            const std::function<bool(const Client&)>& whose) {
  Client* chosen = nullptr;
  each_client([&](Client& client) {
    if (&client == except || (client.confirmed && now - client.renewed <= lease)) return;
    if (whose && !whose(client)) return;
    const bool better = chosen == nullptr || (chosen->confirmed && !client.confirmed) ||
                        (chosen->confirmed == client.confirmed && client.renewed < chosen->renewed);
    if (better) chosen = &client;
  });
  if (chosen != nullptr) destroy_client(*chosen);
  return chosen != nullptr;
}

CREATE_SESSION4res ClientTable::create_session(const CREATE_SESSION4args& args, const tree::Principal& who,
                                               links::LinkId link, LeaseClock::Duration now,
                                               LeaseClock::Duration lease) {
  CREATE_SESSION4res res;
  Client* client = find(args.csa_clientid);
  if (client == nullptr) return res.status = NFS4ERR_STALE_CLIENTID, res;
  // "the client has changed principals after the previous EXCHANGE_ID request, or there has been a chance
  // collision between shorthand client identifiers. ... Neither of these cases is permissible. Processing
  // stops and NFS4ERR_CLID_INUSE is returned". This applies to confirmed and unconfirmed records, and before
  // the replay check, because a replay would return another user's session. Nothing changes, not even the
  // sequence ID.
  if (!client->who.same_user(who)) return res.status = NFS4ERR_CLID_INUSE, res;
  // A replay gets the stored reply. After a refusal the arguments are checked again instead: clients written
  // for Linux' server, where a refusal does not use up the sequence ID, send better arguments with the same
  // sequence ID.
  const bool again = args.csa_sequence == client->create_sequence;
  if (again && !is_refusal(client->create_reply.status)) return client->create_reply;
  if (!again && args.csa_sequence != client->create_sequence + 1)
    return res.status = NFS4ERR_SEQ_MISORDERED, res;

  while (sessions_.size() >= limits_.max_sessions && make_room(client, now, lease)) {
  }
  const auto sessions = [](const Client& c) { return c.sessions.size(); };
  if (sessions_.size() >= limits_.max_sessions ||
      !has_share(client->who, client->address, sessions_.size(), limits_.max_sessions, sessions))
    return res.status = NFS4ERR_NOSPC, res;

  res.status = create_phases(args, *client, link, now, res.resok4);
  client->create_sequence = args.csa_sequence;
  client->create_reply = res;
  return res;
}

nfsstat4 ClientTable::negotiate(const CREATE_SESSION4args& args, CREATE_SESSION4resok& r) const {
  if ((args.csa_flags & ~kSessionFlags) != 0) return NFS4ERR_INVAL;
  const bool wants_back = (args.csa_flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN) != 0;
  if (const nfsstat4 status = check_callback_security(args.csa_sec_parms); status != NFS4_OK) return status;

  const channel_attrs4& fore = args.csa_fore_chan_attrs;
  const channel_attrs4& back = args.csa_back_chan_attrs;
  if (fore.ca_maxresponsesize < kSmallestResponse) return NFS4ERR_TOOSMALL;
  // The check includes a back channel that may be bound to a connection later. Without slots (ca_maxrequests)
  // there will be no back channel.
  const bool has_back = wants_back || back.ca_maxrequests > 0;
  if (has_back && (back.ca_maxresponsesize < kSmallestCallbackReply || back.ca_maxoperations < 2))
    return NFS4ERR_TOOSMALL;
  r.csr_fore_chan_attrs = fore;
  r.csr_fore_chan_attrs.ca_headerpadsize = 0;
  r.csr_fore_chan_attrs.ca_maxrequestsize = std::min(fore.ca_maxrequestsize, limits_.max_request_bytes);
  r.csr_fore_chan_attrs.ca_maxresponsesize = std::min(fore.ca_maxresponsesize, limits_.max_response_bytes);
  r.csr_fore_chan_attrs.ca_maxresponsesize_cached =
      std::min({fore.ca_maxresponsesize_cached, limits_.max_cached_bytes, fore.ca_maxresponsesize});
  // "For the fore channel, the server MAY change the requested value": at least two operations and one slot.
  r.csr_fore_chan_attrs.ca_maxoperations = std::clamp(fore.ca_maxoperations, 2u, limits_.max_operations);
  r.csr_fore_chan_attrs.ca_maxrequests = std::clamp(fore.ca_maxrequests, 1u, limits_.max_slots);
  // "For the backchannel, the server MUST NOT change the value": ca_maxoperations and ca_maxrequests stay.
  r.csr_back_chan_attrs = back;
  r.csr_back_chan_attrs.ca_headerpadsize = 0;
  const bool back_works = wants_back && callback_security(args.csa_sec_parms) && back.ca_maxrequests > 0 &&
                          back.ca_maxrequestsize >= kSmallestCallback;
  r.csr_flags = back_works ? uint32_t{CREATE_SESSION4_FLAG_CONN_BACK_CHAN} : 0;
  return NFS4_OK;
}

nfsstat4 ClientTable::create_phases(const CREATE_SESSION4args& args, Client& client, links::LinkId link,
                                    LeaseClock::Duration now, CREATE_SESSION4resok& r) {
  if (const nfsstat4 status = negotiate(args, r); status != NFS4_OK) return status;

  if (!client.confirmed) {
    if (Client* old = find_record(client.owner.co_ownerid, true))
      destroy_client(*old);  // the client restarted
    client.confirmed = true;
  }
  client.renewed = now;
  reply_memory_.reserve(r.csr_fore_chan_attrs);

  auto session = std::make_unique<Session>();
  // A session ID must be unguessable: everybody who knows it may use the session, with any credential
  // (SP4_NONE, section 2.10.8.3).
  do {
    fill_random(session->id.data);
  } while (sessions_.contains(session->id));
  session->client = &client;
  session->fore = r.csr_fore_chan_attrs;
  session->back = r.csr_back_chan_attrs;
  session->flags = r.csr_flags;
  session->cb_program = args.csa_cb_program;
  session->cb_security = callback_security(args.csa_sec_parms);
  session->slots.resize(session->fore.ca_maxrequests);
  // The server uses at most 16 of the offered back channel slots.
  session->back_slots.resize(std::min(session->back.ca_maxrequests, 16u));
  session->highest_slot = session->target_highest_slot = session->fore.ca_maxrequests - 1;
  session->fore_links.insert(link);
  if ((r.csr_flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN) != 0) session->back_links.insert(link);
  r.csr_sessionid = session->id;
  r.csr_sequence = args.csa_sequence;
  client.sessions.insert(session.get());
  sessions_.emplace(session->id, std::move(session));
  return NFS4_OK;
}

void ClientTable::destroy_session(Session& session) {
  session.client->sessions.erase(&session);
  reply_memory_.release(session.fore);
  const sessionid4 id = session.id;
  sessions_.erase(id);
}

void ClientTable::destroy_client(Client& client) {
  hooks_.on_client_gone(client);
  while (!client.sessions.empty()) destroy_session(**client.sessions.begin());
  const clientid4 id = client.id;
  clients_.erase(id);
}

std::vector<Client*> ClientTable::overdue(LeaseClock::Duration now, LeaseClock::Duration lease,
                                          LeaseClock::Duration kept) {
  std::vector<Client*> over;
  if (now <= look_at_ && lease == looked_lease_ && kept == looked_kept_) return over;
  ++looks_;
  looked_lease_ = lease;
  looked_kept_ = kept;
  look_at_ = now + lease;
  each_client([&](Client& client) {
    const LeaseClock::Duration end = client.renewed + (client.confirmed ? kept : lease);
    if (now > end) {
      over.push_back(&client);
    } else {
      look_at_ = std::min(look_at_, end);
    }
  });
  return over;
}

void ClientTable::set_renewed(Client& client, LeaseClock::Duration when) {
  client.renewed = when;
  look_at_ = LeaseClock::Duration(-1);
}

void ClientTable::link_gone(links::LinkId link) {
  each_session([&](Session& session) {
    session.fore_links.erase(link);
    session.back_links.erase(link);
  });
}

}  // namespace nfsrdma::filer::state

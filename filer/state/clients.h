// SPDX-License-Identifier: Apache-2.0
// ClientTable: client IDs and sessions, by the numbered cases of RFC 8881 sections 18.35.4 and 18.36.4.
//
// Decides nothing about state: when a client goes, the `on_client_gone` hook releases what it held. Guarded
// by the server's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "filer/state/reply_memory.h"
#include "filer/state/session.h"

namespace nfsrdma::filer {

class ClientTable {
 public:
  struct Identity {
    std::string owner_major = "nfsrdma-filer";
    uint64_t owner_minor = 0;
    std::string scope = "nfsrdma-filer";
    nfs4::nfs_impl_id4 implementation{"", "nfsrdma-filer", {}};
  };
  struct Limits {
    uint32_t max_request_bytes = (1u << 20) + (64u << 10);
    uint32_t max_response_bytes = (1u << 20) + (64u << 10);
    uint32_t max_cached_bytes = 64u << 10;  // of one reply
    size_t reply_cache_bytes = 64u << 20;   // of all sessions, reply_memory.h
    uint32_t max_operations = 64;
    uint32_t max_slots = 64;
    // Of all clients. At a limit an unconfirmed client goes for a new one, else the longest expired; where
    // none is, EXCHANGE_ID is DELAY and CREATE_SESSION is NOSPC. One principal of one address may have a
    // quarter of what others have left, one address half (but for loopback, where principals are known), and
    // kOwnShare in any case: whoever comes finds room.
    size_t max_clients = 4096;
    size_t max_sessions = 8192;
  };
  static constexpr size_t kOwnShare = 16;
  struct Hooks {
    std::function<bool(const Client&)> holds_state;  // opens, locks, delegations
    std::function<void(Client&)> on_client_gone;     // release everything of it
  };

  ClientTable(Identity identity, Limits limits, Hooks hooks);

  // A new instance of the server: nothing is remembered, and no client ID or session ID of an earlier one
  // comes back.
  void restart(uint64_t boot);
  // The same with persistent client IDs and sessions (section 2.10.6.5); what was being executed was not.
  void restart_persistent();

  // `address`: where it comes from.
  nfs4::EXCHANGE_ID4res exchange_id(const nfs4::EXCHANGE_ID4args& args, const Principal& who,
                                    LeaseClock::Duration now, LeaseClock::Duration lease,
                                    const std::string& address = {});
  // On success the link is on the new session's fore channel, and on its back channel if that was asked for.
  nfs4::CREATE_SESSION4res create_session(const nfs4::CREATE_SESSION4args& args, const Principal& who,
                                          LinkId link, LeaseClock::Duration now, LeaseClock::Duration lease);
  void destroy_session(Session& session);
  void destroy_client(Client& client);

  Session* find(const nfs4::sessionid4& id);
  Client* find(nfs4::clientid4 id);
  // The confirmed client of this co_ownerid.
  Client* find_owner(const std::string& ownerid);
  // Who has not renewed for longer than `lease` while unconfirmed (such records "SHOULD be removed"), and for
  // longer than `kept` since. Looks at all clients only when that can have come about for one of them.
  std::vector<Client*> overdue(LeaseClock::Duration now, LeaseClock::Duration lease,
                               LeaseClock::Duration kept);
  uint64_t looks() const { return looks_; }
  // As if it had renewed last at that time, which is before the present one.
  void set_renewed(Client& client, LeaseClock::Duration when);
  void link_gone(LinkId link);

  // As who the server presents itself from now on: it has become another one.
  Identity& identity() { return identity_; }

  template <class Visit>
  void each_client(Visit visit) {
    for (auto& [id, client] : clients_) visit(*client);
  }
  template <class Visit>
  void each_session(Visit visit) {
    for (auto& [id, session] : sessions_) visit(*session);
  }

 private:
  Client& add(const nfs4::EXCHANGE_ID4args& args, const Principal& who, LeaseClock::Duration now);
  Client* find_record(const std::string& ownerid, bool confirmed);
  bool make_room(const Client* except, LeaseClock::Duration now, LeaseClock::Duration lease,
                 const std::function<bool(const Client&)>& whose = {});
  // Whether there may be one more of this principal and this address, `of` a client counting so much.
  bool has_share(const Principal& who, const std::string& address, size_t there, size_t most,
                 size_t (*of)(const Client&));
  nfs4::EXCHANGE_ID4res answer(const Client& client) const;
  nfs4::nfsstat4 create_phases(const nfs4::CREATE_SESSION4args& args, Client& client, LinkId link,
                               LeaseClock::Duration now, nfs4::CREATE_SESSION4resok& result);
  nfs4::nfsstat4 negotiate(const nfs4::CREATE_SESSION4args& args, nfs4::CREATE_SESSION4resok& result) const;

  Identity identity_;
  Limits limits_;
  Hooks hooks_;
  uint64_t boot_ = 0;
  uint32_t next_client_ = 1;
  std::unordered_map<nfs4::clientid4, std::unique_ptr<Client>> clients_;
  std::unordered_map<nfs4::sessionid4, std::unique_ptr<Session>> sessions_;
  ReplyMemory reply_memory_;

  // Until then nobody is overdue by these times: whoever comes or renews has longer.
  LeaseClock::Duration look_at_{-1};
  LeaseClock::Duration looked_lease_{0};
  LeaseClock::Duration looked_kept_{0};
  uint64_t looks_ = 0;
};

// A CB_RECALL with its headers: there is no back channel on which it would be too long.
inline constexpr uint32_t kSmallestCallback = 512;

// The first of the credentials that this server can call back with: AUTH_NONE or AUTH_SYS. The others are not
// kept: a client may name as many as a message has room for.
std::optional<nfs4::callback_sec_parms4> callback_security(
    const std::vector<nfs4::callback_sec_parms4>& security);
// NOENT if nothing but GSS handles is named: this server has given out none (section 18.36.3). Beside what it
// can use they are let be, as by Linux' server: the client has said that any of the list will do.
nfs4::nfsstat4 check_callback_security(const std::vector<nfs4::callback_sec_parms4>& security);

}  // namespace nfsrdma::filer

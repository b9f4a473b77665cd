// SPDX-License-Identifier: Apache-2.0
// ClientTable: client IDs and sessions, by the numbered cases of RFC 8881 sections 18.35.4 and 18.36.4.
//
// It knows nothing of opens, locks and delegations: when a client is removed, the `on_client_gone` hook
// releases its state. Guarded by the server's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "filer/state/reply_memory.h"
#include "filer/state/session.h"

namespace nfsrdma::filer::state {

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
    // Limits for all clients. At a limit one client is removed for a new one: an unconfirmed client, else the
    // one whose lease expired first. If there is none, EXCHANGE_ID fails with NFS4ERR_DELAY and
    // CREATE_SESSION with NFS4ERR_NOSPC. One principal at one address may have at most a quarter of the
    // number still free. One address may have at most the number still free, and so at most half of all; this
    // limit does not apply to loopback, which all local users share. kOwnShare is always allowed, so a new
    // client finds room.
    size_t max_clients = 4096;
    size_t max_sessions = 8192;
  };
  static constexpr size_t kOwnShare = 16;
  struct Hooks {
    std::function<bool(const Client&)> holds_state;  // opens, locks, delegations
    std::function<void(Client&)> on_client_gone;     // releases all its state
  };

  ClientTable(Identity identity, Limits limits, Hooks hooks);

  // A new instance of the server: it knows no clients, and no client ID or session ID of an earlier instance
  // is valid.
  void restart(uint64_t boot);
  // As restart(), but client IDs and sessions persist (section 2.10.6.5). Requests in progress are lost.
  void restart_persistent();

  // `address`: the address that the call came from.
  nfs4::EXCHANGE_ID4res exchange_id(const nfs4::EXCHANGE_ID4args& args, const tree::Principal& who,
                                    LeaseClock::Duration now, LeaseClock::Duration lease,
                                    const std::string& address = {});
  // On success the link is bound to the new session's fore channel, and to its back channel if the client
  // asked for that.
  nfs4::CREATE_SESSION4res create_session(const nfs4::CREATE_SESSION4args& args, const tree::Principal& who,
                                          links::LinkId link, LeaseClock::Duration now,
                                          LeaseClock::Duration lease);
  void destroy_session(Session& session);
  void destroy_client(Client& client);

  Session* find(const nfs4::sessionid4& id);
  Client* find(nfs4::clientid4 id);
  // The confirmed client with this co_ownerid.
  Client* find_owner(const std::string& ownerid);
  // Unconfirmed clients that have not renewed for `lease` (such records "SHOULD be removed"), and confirmed
  // ones that have not renewed for `kept`. It visits all clients only if one of them can be overdue by now.
  std::vector<Client*> overdue(LeaseClock::Duration now, LeaseClock::Duration lease,
                               LeaseClock::Duration kept);
  uint64_t looks() const { return looks_; }
  // Sets the time of the last renewal to `when`, which must be earlier than the present value.
  void set_renewed(Client& client, LeaseClock::Duration when);
  void link_gone(links::LinkId link);

  // The server's identity in EXCHANGE_ID results. Tests change it to make the server another one.
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
  Client& add(const nfs4::EXCHANGE_ID4args& args, const tree::Principal& who, LeaseClock::Duration now);
  Client* find_record(const std::string& ownerid, bool confirmed);
  bool make_room(const Client* except, LeaseClock::Duration now, LeaseClock::Duration lease,
                 const std::function<bool(const Client&)>& whose = {});
  // Whether this principal and this address may have one more client or session; `of` returns a client's
  // number.
  bool has_share(const tree::Principal& who, const std::string& address, size_t there, size_t most,
                 size_t (*of)(const Client&));
  nfs4::EXCHANGE_ID4res answer(const Client& client) const;
  nfs4::nfsstat4 create_phases(const nfs4::CREATE_SESSION4args& args, Client& client, links::LinkId link,
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

  // With the two periods below, no client is overdue before look_at_: a client that is renewed or new becomes
  // overdue only later.
  LeaseClock::Duration look_at_{-1};
  LeaseClock::Duration looked_lease_{0};
  LeaseClock::Duration looked_kept_{0};
  uint64_t looks_ = 0;
};

// Size of a CB_RECALL with its headers. A back channel that cannot carry it is not used.
inline constexpr uint32_t kSmallestCallback = 512;

// The first credential in the list that the server can use for callbacks: AUTH_NONE or AUTH_SYS. The others
// are not kept, because their number is limited only by the size of a message.
std::optional<nfs4::callback_sec_parms4> callback_security(
    const std::vector<nfs4::callback_sec_parms4>& security);
// NFS4ERR_NOENT if the list has only GSS handles: this server has issued none (section 18.36.3). GSS handles
// beside a usable credential are ignored, as Linux' server does, because the client accepts any entry of the
// list.
nfs4::nfsstat4 check_callback_security(const std::vector<nfs4::callback_sec_parms4>& security);

}  // namespace nfsrdma::filer::state

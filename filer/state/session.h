// SPDX-License-Identifier: Apache-2.0
// Sessions and clients as the server remembers them (RFC 8881 sections 2.10.6, 18.35.4, 18.36.4).
//
// Plain records: the rules are in clients.cc (EXCHANGE_ID, CREATE_SESSION), nfs/sequence.cc (SEQUENCE) and
// nfs/ops_session.cc. All of it is lost when the server restarts. Guarded by the server's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "filer/net/link.h"
#include "filer/state/clock.h"
#include "filer/tree/principal.h"
#include "xdr/nfs4/client_ops.h"
#include "xdr/nfs4/session_ops.h"

namespace nfsrdma::filer {

// One slot of the fore channel, with its entry of the reply cache.
struct Slot {
  uint32_t sequence = 0;  // of the last request; the first request must have 1
  bool used = false;
  bool retired =
      false;  // was above the enforced limit for a while: its owner may go on or begin with 1 again
  bool in_progress = false;
  uint64_t told = 0;   // Session::target_turn that the last reply was of
  bool whole = false;  // `reply` is all of the reply, not just SEQUENCE's result
  ByteVector reply;    // as it was sent, but for the RPC header, which has its room in front
  BulkPlaces items;    // in it, what may be placed
  nfs4::SEQUENCE4resok result;
  uint64_t digest = 0;  // of the operations behind SEQUENCE: finds false retries
  Principal who;
};

// One slot of the back channel; this server is the requester there.
struct BackSlot {
  uint32_t sequence = 0;
  bool busy = false;
};

struct Client;
struct State;

struct Session {
  nfs4::sessionid4 id;
  Client* client = nullptr;
  nfs4::channel_attrs4 fore;
  nfs4::channel_attrs4 back;
  uint32_t flags = 0;
  uint32_t cb_program = 0;
  std::optional<nfs4::callback_sec_parms4> cb_security;  // none that this server can use
  std::vector<Slot> slots;
  std::vector<BackSlot> back_slots;
  uint32_t highest_slot = 0;         // enforced
  uint32_t target_highest_slot = 0;  // wished
  uint64_t target_turn = 1;          // counts the wishes
  bool target_seen = false;          // the client has had a reply with the present one
  std::set<LinkId> fore_links;
  std::set<LinkId> back_links;
};

struct Client {
  nfs4::clientid4 id = 0;
  nfs4::client_owner4 owner;
  Principal who;
  std::string address{};  // where its EXCHANGE_ID came from
  bool confirmed = false;
  uint32_t flags = 0;  // EXCHGID4_FLAG_* of the results, without CONFIRMED_R
  LeaseClock::Duration renewed{0};
  bool reclaim_complete = false;
  uint32_t revoked_expired = 0;  // revoked states that are not freed yet, by reason
  uint32_t revoked_admin = 0;
  uint32_t revoked_recall = 0;
  bool expired_all = false;      // the lease ran out and everything was revoked; until all of it is freed
  std::vector<State*> states{};  // all that StateTable has of it, revoked ones included
  size_t locks = 0;              // byte ranges
  size_t pinned = 0;             // opens and delegations of files that keep a descriptor (Node::pinned)
  bool told_full = false;        // that it is at a limit has been logged

  // For CREATE_SESSION: "the size of the client ID reply cache is of one slot" (section 18.36.4).
  nfs4::sequenceid4 create_sequence = 0;
  nfs4::CREATE_SESSION4res create_reply;

  std::set<Session*> sessions;
};

}  // namespace nfsrdma::filer

// SPDX-License-Identifier: Apache-2.0
// Sessions and clients as the server knows them (RFC 8881 sections 2.10.6, 18.35.4, 18.36.4).
//
// Plain data. The rules are in clients.cc (EXCHANGE_ID, CREATE_SESSION), nfs/sequence.cc (SEQUENCE) and
// nfs/ops_session.cc. All is lost when the server restarts. Guarded by the server's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "filer/links/link.h"
#include "filer/state/clock.h"
#include "filer/tree/principal.h"
#include "xdr/nfs4/client_ops.h"
#include "xdr/nfs4/session_ops.h"

namespace nfsrdma::filer::state {

// One slot of the fore channel, with its entry of the reply cache.
struct Slot {
  uint32_t sequence = 0;  // of the last request; the first request must have 1
  bool used = false;
  // The slot was above the enforced limit for some time. Its next request may have the next sequence ID, or
  // 1.
  bool retired = false;
  bool in_progress = false;
  uint64_t told = 0;        // Session::target_turn when the last reply was sent
  bool whole = false;       // `reply` is the complete reply, not only the result of SEQUENCE
  ByteVector reply;         // as sent, before it is protected; the space for the RPC header is in front, ...
  size_t front = 0;         // ...of so many bytes
  links::BulkPlaces items;  // the parts of `reply` eligible for direct data placement
  nfs4::SEQUENCE4resok result;
  uint64_t digest = 0;  // of the operations after SEQUENCE, to detect false retries
  tree::Principal who;
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
  std::optional<nfs4::callback_sec_parms4> cb_security;  // nullopt: no credential that this server can use
  std::vector<Slot> slots;
  std::vector<BackSlot> back_slots;
  uint32_t highest_slot = 0;         // the enforced limit
  uint32_t target_highest_slot = 0;  // the limit that the server wants
  uint64_t target_turn = 1;          // counts changes of the wanted limit
  bool target_seen = false;          // the client has received a reply with the wanted limit
  std::set<links::LinkId> fore_links;
  std::set<links::LinkId> back_links;
};

struct Client {
  nfs4::clientid4 id = 0;
  nfs4::client_owner4 owner;
  tree::Principal who;
  std::string address{};  // where its EXCHANGE_ID came from
  bool confirmed = false;
  uint32_t flags = 0;  // EXCHGID4_FLAG_* of the results, without CONFIRMED_R
  LeaseClock::Duration renewed{0};
  bool reclaim_complete = false;
  uint32_t revoked_expired = 0;  // number of revoked states not yet freed, by reason
  uint32_t revoked_admin = 0;
  uint32_t revoked_recall = 0;
  bool expired_all = false;      // its lease expired and all state was revoked; true until all of it is freed
  std::vector<State*> states{};  // all its states in StateTable, including revoked ones
  size_t locks = 0;              // byte ranges
  size_t pinned = 0;             // opens and delegations of files that keep a descriptor (Node::pinned)
  bool told_full = false;        // the lack of room for its state has been logged

  // For CREATE_SESSION: "the size of the client ID reply cache is of one slot" (section 18.36.4).
  nfs4::sequenceid4 create_sequence = 0;
  nfs4::CREATE_SESSION4res create_reply;

  std::set<Session*> sessions;
};

}  // namespace nfsrdma::filer::state

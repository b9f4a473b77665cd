// SPDX-License-Identifier: Apache-2.0
#include "filer/nfs/sequence.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

// Checks the request's slot numbers against the slot table.
nfsstat4 check_slots(const state::Session& s, const SEQUENCE4args& args) {
  if (args.sa_slotid >= s.slots.size()) return NFS4ERR_BADSLOT;
  if (args.sa_highest_slotid >= s.slots.size()) return NFS4ERR_BAD_HIGH_SLOT;
  if (args.sa_slotid > args.sa_highest_slotid) return NFS4ERR_BAD_HIGH_SLOT;
  const bool retry = args.sa_sequenceid == s.slots[args.sa_slotid].sequence && s.slots[args.sa_slotid].used;
  // Slots above the enforced limit accept only retries.
  if (args.sa_slotid > s.highest_slot && !retry) return NFS4ERR_BADSLOT;
  if (args.sa_highest_slotid > s.highest_slot && !retry) return NFS4ERR_BAD_HIGH_SLOT;
  return NFS4_OK;
}

// Lowers the enforced limit. "The replier SHOULD retain the slots it wants to retire until the requester
// sends a request with a highest_slotid less than or equal to" the target. The client may have sent such a
// request, and others after it, before it saw the target: "The replier can infer that the requester has seen
// such a reply when it receives a new request with the same slot ID as the request replied to and the next
// higher sequence ID" (section 2.10.6.1). The RFC does not say with which sequence ID a retired slot starts
// again, so both are accepted: the next one, and 1.
void follow_target(state::Session& s, uint32_t highest_in_use) {
  if (s.target_highest_slot > s.highest_slot) s.highest_slot = s.target_highest_slot;
  if (s.target_highest_slot < s.highest_slot && s.target_seen && highest_in_use <= s.target_highest_slot) {
    for (uint32_t i = s.target_highest_slot + 1; i <= s.highest_slot; ++i) {
      const uint32_t sequence = s.slots[i].sequence;
      s.slots[i] = state::Slot{};
      s.slots[i].sequence = sequence;
      s.slots[i].retired = true;
    }
    s.highest_slot = s.target_highest_slot;
  }
}

SEQUENCE4resok make_result(Core& core, const state::Session& s, const SEQUENCE4args& args) {
  SEQUENCE4resok r;
  r.sr_sessionid = args.sa_sessionid;
  r.sr_sequenceid = args.sa_sequenceid;
  r.sr_slotid = args.sa_slotid;
  r.sr_highest_slotid = s.highest_slot;
  r.sr_target_highest_slotid = s.target_highest_slot;
  r.sr_status_flags = core.status_flags(s);
  return r;
}

void renew(Core& core, state::Client& client, uint32_t flags) {
  if ((flags & SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED) == 0) client.renewed = core.clock.now();
}

nfsstat4 check_session(Context& c, state::Session* s, size_t request_bytes) {
  if (s == nullptr) return NFS4ERR_BADSESSION;
  if (!s->fore_links.contains(c.link->id())) {
    if (c.core.switches.enforce_connection_binding) return NFS4ERR_CONN_NOT_BOUND_TO_SESSION;
    // "When SP4_NONE protection is used, simply sending a COMPOUND request with a SEQUENCE operation is
    // sufficient".
    s->fore_links.insert(c.link->id());
  }
  links::recognise(*c.link, s->client->who);
  if (c.operations > s->fore.ca_maxoperations) return NFS4ERR_TOO_MANY_OPS;
  if (request_bytes > s->fore.ca_maxrequestsize) return NFS4ERR_REQ_TOO_BIG;
  return NFS4_OK;
}

// "A replier MAY return NFS4ERR_REP_TOO_BIG as the status for the first operation": if not even the shortest
// reply fits (section 2.10.6.4).
nfsstat4 check_reply(const state::Session& s, const SEQUENCE4args& args, size_t reply_bytes) {
  if (reply_bytes > s.fore.ca_maxresponsesize) return NFS4ERR_REP_TOO_BIG;
  if (args.sa_cachethis && reply_bytes > s.fore.ca_maxresponsesize_cached)
    return NFS4ERR_REP_TOO_BIG_TO_CACHE;
  return NFS4_OK;
}

}  // namespace

SequenceVerdict begin_sequence(Context& c, const SEQUENCE4args& args, const Message& message) {
  SequenceVerdict v;
  const auto refuse_with = [&v](nfsstat4 status) {
    v.result.status = status;
    return v;
  };
  state::Session* s = c.core.clients.find(args.sa_sessionid);
  if (const nfsstat4 status = check_session(c, s, message.request_bytes); status != NFS4_OK)
    return refuse_with(status);
  if (const nfsstat4 status = check_slots(*s, args); status != NFS4_OK) return refuse_with(status);
  state::Slot& slot = s->slots[args.sa_slotid];

  if (slot.used && args.sa_sequenceid == slot.sequence) {
    if (slot.in_progress) return refuse_with(NFS4ERR_DELAY);
    // A retry by another user must get NFS4ERR_SEQ_FALSE_RETRY ("MUST"); one with other operations may get
    // it.
    const bool false_retry =
        !slot.who.same_user(c.who) || (c.core.switches.detect_false_retry && slot.digest != message.digest);
    if (false_retry) return refuse_with(NFS4ERR_SEQ_FALSE_RETRY);
    c.session = s;
    c.client = s->client;
    renew(c.core, *s->client, c.core.status_flags(*s));
    v.kind = slot.whole ? SequenceVerdict::Kind::kReplay : SequenceVerdict::Kind::kUncached;
    v.result.resok4 = slot.result;
    v.kept = &slot;
    return v;
  }
  // A new request has the next sequence ID. It is 1 on an unused slot, whose value is 0. A retired slot
  // accepts 1 as well.
  const bool fresh = slot.retired && args.sa_sequenceid == 1;
  if (args.sa_sequenceid != slot.sequence + 1 && !fresh) return refuse_with(NFS4ERR_SEQ_MISORDERED);
  if (slot.in_progress)
    return refuse_with(NFS4ERR_SEQ_MISORDERED);  // the reply to the last request is not complete yet
  if (const nfsstat4 status = check_reply(*s, args, message.reply_bytes); status != NFS4_OK)
    return refuse_with(status);

  s->target_seen = s->target_seen || slot.told == s->target_turn;
  slot.sequence = args.sa_sequenceid;
  slot.told = s->target_turn;
  slot.used = true;
  slot.retired = false;
  slot.in_progress = true;
  slot.whole = false;
  slot.reply.clear();
  slot.items.clear();
  slot.digest = message.digest;
  slot.who = c.who;
  follow_target(*s, args.sa_highest_slotid);
  c.session = s;
  c.client = s->client;
  c.sequence = args;
  v.kind = SequenceVerdict::Kind::kNew;
  v.result.resok4 = make_result(c.core, *s, args);
  slot.result = v.result.resok4;
  renew(c.core, *s->client, v.result.resok4.sr_status_flags);
  return v;
}

void finish_sequence(Core& core, const SEQUENCE4args& args, uint32_t operations, const ReplyToKeep& made) {
  state::Session* s = core.clients.find(args.sa_sessionid);
  if (s == nullptr || args.sa_slotid >= s->slots.size()) return;
  state::Slot& slot = s->slots[args.sa_slotid];
  if (slot.sequence != args.sa_sequenceid || !slot.in_progress) return;
  slot.in_progress = false;
  // "When a SEQUENCE ... operation is successfully executed, its reply MUST always be cached"; the other
  // results only if the client asks for it.
  slot.whole = args.sa_cachethis || operations == 1;
  if (!slot.whole) return;
  slot.reply = made.reply;
  slot.items = made.items;
  slot.front = made.front;
}

}  // namespace nfsrdma::filer::nfs

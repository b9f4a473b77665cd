// SPDX-License-Identifier: Apache-2.0
#include "filer/nfs/back_channel.h"

#include "transport/runtime/log.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

constexpr std::chrono::milliseconds kDelayedRetry{50};
constexpr std::chrono::milliseconds kRefusedRetry{1000};
constexpr unsigned kMostDoublings = 4;
// The number of results kept for result(), the number of them kept with the client's reply, and the longest
// reply that is accepted, in bytes.
constexpr size_t kKeptResults = 4096;
constexpr size_t kKeptReplies = 64;
constexpr size_t kLongestReply = 64u << 10;

struct CallbackCredential {
  ByteVector body;
  rpc::opaque_auth auth;

  explicit CallbackCredential(const std::optional<callback_sec_parms4>& security) {
    if (!security || security->cb_secflavor != rpc::AUTH_SYS) return;
    body = rpc::encode_authsys(security->cbsp_sys_cred);
    auth = {rpc::AUTH_SYS, body};
  }
};

}  // namespace

links::LinkPtr BackChannel::link_of(const state::Session& session) const {
  for (const links::LinkId id : session.back_links) {
    if (links::LinkPtr link = environment_.find_link(id)) return link;
  }
  return nullptr;
}

bool BackChannel::waiting(const state::Session& session) const {
  for (const auto& [id, pending] : pending_) {
    if (pending.owner == &session && !pending.sent) return true;
  }
  return false;
}

const CallbackResult* BackChannel::result(CallbackId id) const {
  const auto at = results_.find(id);
  return at == results_.end() ? nullptr : &at->second;
}

CallbackId BackChannel::call(state::Session& session, Callback callback) {
  const CallbackId id = next_id_++;
  for (auto at = results_.begin(); at != results_.end() && at->first + kKeptResults < id;)
    at = pending_.contains(at->first) ? std::next(at) : results_.erase(at);
  if (const auto old = results_.find(id - std::min<CallbackId>(id, kKeptReplies)); old != results_.end())
    old->second.reply = {};
  Pending& pending = pending_[id];
  pending.id = id;
  pending.session = session.id;
  pending.owner = &session;
  pending.callback = std::move(callback);
  results_[id];
  pump(session);
  return id;
}

void BackChannel::pump(state::Session& session) {
  const links::LinkPtr link = link_of(session);
  if (link == nullptr) return;
  for (auto& [id, pending] : pending_) {
    if (pending.owner != &session || pending.sent || pending.resting) continue;
    if (!pending.has_slot) {
      for (uint32_t slot = 0; slot < session.back_slots.size() && !pending.has_slot; ++slot) {
        if (session.back_slots[slot].busy) continue;
        session.back_slots[slot].busy = true;
        pending.slot = slot;
        pending.sequence = session.back_slots[slot].sequence + 1;
        pending.has_slot = true;
      }
      if (!pending.has_slot) return;
    }
    transmit(pending, link);
  }
}

ByteVector BackChannel::encode(const Pending& pending) const {
  const state::Session& session = *pending.owner;
  const Callback& c = pending.callback;
  CB_COMPOUND4args args;
  args.minorversion = c.minor_version.value_or(1);
  if (!c.without_sequence) {
    CB_SEQUENCE4args sequence;
    sequence.csa_sessionid = c.session.value_or(session.id);
    sequence.csa_sequenceid = c.sequence.value_or(pending.sequence);
    sequence.csa_slotid = c.slot.value_or(pending.slot);
    uint32_t highest = pending.slot;
    for (uint32_t slot = 0; slot < session.back_slots.size(); ++slot) {
      if (session.back_slots[slot].busy) highest = std::max(highest, slot);
    }
    sequence.csa_highest_slotid = c.highest_slot.value_or(highest);
    sequence.csa_cachethis = c.cache_this;
    sequence.csa_referring_call_lists = c.referring;
    args.argarray.push_back({sequence});
  }
  args.argarray.insert(args.argarray.end(), c.ops.begin(), c.ops.end());

  const CallbackCredential credential(session.cb_security);
  rpc::call_header header;
  header.xid = pending.xid;
  header.prog = c.program.value_or(session.cb_program);
  header.vers = c.version.value_or(rpc_version);
  header.proc = c.procedure.value_or(CB_COMPOUND);
  header.cred = credential.auth;
  ByteVector message;
  xdr::Encoder x(message);
  if (!x(header) || !x(args)) log::error("filer: a callback cannot be encoded: {}", x.failure());
  return message;
}

void BackChannel::transmit(Pending& pending, const links::LinkPtr& link) {
  pending.link = link->id();
  pending.xid = rpc::Xid{next_xid_++};
  pending.sent = true;
  CallbackResult& result = results_[pending.id];
  result.state = CallbackResult::State::kSent;
  ++result.transmissions;
  ByteVector message = encode(pending);
  if (pending.callback.edit) pending.callback.edit(message);
  link->send(std::move(message));
  environment_.notify();
}

void BackChannel::give_slot_back(Pending& pending, bool advance) {
  if (!pending.has_slot || pending.owner == nullptr) return;
  state::BackSlot& slot = pending.owner->back_slots[pending.slot];
  slot.busy = false;
  if (advance) slot.sequence = pending.sequence;
  pending.has_slot = false;
}

bool BackChannel::answered(links::LinkId link, ConstBytes message) {
  xdr::Decoder x(message);
  rpc::reply_header header;
  const auto prefix = rpc::peek(message);
  if (!prefix || prefix->type != rpc::REPLY) return false;
  for (auto& [id, pending] : pending_) {
    if (!pending.sent || pending.link != link || pending.xid != prefix->xid) continue;
    CB_COMPOUND4res reply;
    std::string rejected;
    if (message.size() > kLongestReply) {
      rejected = "longer than any answer";
    } else if (!x(header)) {
      rejected = x.failure();
    } else if (!header.success()) {
      rejected = rpc::name_of(rpc::status_of(header));
    } else if (pending.callback.procedure.value_or(CB_COMPOUND) == CB_COMPOUND && !x(reply)) {
      rejected = x.failure();
    } else if (x.left() != 0) {
      rejected = "trailing bytes";
    }
    results_[id].rejected = rejected;
    finish(id, reply);
    return true;
  }
  return false;
}

void BackChannel::finish(CallbackId id, const CB_COMPOUND4res& reply) {
  Pending& pending = pending_.at(id);
  CallbackResult& result = results_.at(id);
  const bool overridden = pending.callback.sequence || pending.callback.slot || pending.callback.session ||
                          pending.callback.without_sequence;
  const auto* sequence =
      reply.resarray.empty() ? nullptr : std::get_if<CB_SEQUENCE4res>(&reply.resarray.front().op);
  const bool advanced =
      result.rejected.empty() && sequence != nullptr && sequence->status == NFS4_OK && !overridden;
  give_slot_back(pending, advanced);
  if (result.rejected.empty() && reply.status == NFS4ERR_DELAY && pending.callback.repeat_on_delay)
    return repeat_after(pending, kDelayedRetry);
  const bool refused = !result.rejected.empty() || reply.status != NFS4_OK;
  if (refused && pending.callback.wanted && pending.callback.wanted())
    return repeat_after(pending, kRefusedRetry * (1u << std::min(pending.refused++, kMostDoublings)));
  result.state = CallbackResult::State::kAnswered;
  result.reply = reply;
  state::Session* owner = pending.owner;
  const auto done = std::move(pending.callback.done);
  pending_.erase(id);
  if (done) done(reply);
  environment_.notify();
  pump(*owner);
}

void BackChannel::repeat_after(Pending& pending, std::chrono::milliseconds delay) {
  pending.sent = false;
  pending.resting = true;
  results_[pending.id].state = CallbackResult::State::kWaiting;
  environment_.after(delay, [this, id = pending.id] {
    const auto at = pending_.find(id);
    if (at == pending_.end() || !at->second.resting) return;
    Pending& again = at->second;
    state::Session& session = *again.owner;
    again.resting = false;
    if (again.callback.wanted && !again.callback.wanted()) {
      results_[id].state = CallbackResult::State::kAnswered;
      pending_.erase(at);
    }
    pump(session);
  });
  environment_.notify();
  pump(*pending.owner);
}

void BackChannel::link_bound(state::Session& session) {
  pump(session);
}

void BackChannel::link_gone(links::LinkId link) {
  std::vector<state::Session*> owners;
  for (auto& [id, pending] : pending_) {
    if (!pending.sent || pending.link != link) continue;
    pending.sent = false;
    results_[id].state = CallbackResult::State::kWaiting;
    owners.push_back(pending.owner);
  }
  for (state::Session* owner : owners) pump(*owner);  // another connection of the session may carry it
}

void BackChannel::session_gone(const state::Session& session) {
  std::erase_if(pending_, [&](auto& entry) {
    if (entry.second.owner != &session) return false;
    results_[entry.first].state = CallbackResult::State::kLost;
    return true;
  });
  environment_.notify();
}

void BackChannel::restart() {
  for (auto& [id, pending] : pending_) results_[id].state = CallbackResult::State::kLost;
  pending_.clear();
  environment_.notify();
}

}  // namespace nfsrdma::filer::nfs

// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: a server that sends any callbacks. Some calls wait while others arrive, and the client
// meanwhile gets and loses delegations, sends requests and creates sessions.
//
// Checked: each message that begins as a call gets one reply, which decodes as the reply to that call and is
// no larger than negotiated. The verdict of CB_SEQUENCE agrees with the slot model below. A retry gets the
// bytes of the first reply, or an error that says that they were not kept, and executes nothing.
//
// Input: steps. A step is one byte: the low three bits select the action (see Conversation::step()), the next
// two say how long to wait afterwards, and three belong to the action. A call follows as two bytes of length
// and its bytes, from the XID on.

#include <algorithm>
#include <array>
#include <optional>

#include "client/nfs4/callbacks/callback.h"
#include "tests/fuzz/fuzz.h"
#include "xdr/rpc.h"

namespace {

using namespace nfsrdma;  // NOLINT
using namespace nfs4;     // NOLINT: operations and statuses
using fuzz::require;

constexpr size_t kMaxCalls = 16;
constexpr uint32_t kForeSlots = 16;

sessionid4 session_id(unsigned n) {
  sessionid4 id;
  id.data.fill(static_cast<std::byte>(n));
  return id;
}

const nfs_fh4 kFile(as_const_bytes("file"));

stateid4 delegation() {
  stateid4 s;
  s.seqid = 1;
  s.other.fill(std::byte{1});
  return s;
}

// Kinds of limits: none; small replies; small cached replies; few slots, operations and bytes.
channel_attrs4 limits_of(unsigned kind) {
  channel_attrs4 limits = client::nfs4::offered_back_channel();
  if (kind == 1) limits.ca_maxresponsesize = 100;
  if (kind == 2) limits.ca_maxresponsesize_cached = 92;
  if (kind == 3) limits.ca_maxrequests = 2, limits.ca_maxoperations = 3, limits.ca_maxrequestsize = 300;
  return limits;
}

// The decoded parts of a call, as far as it decodes. Uses only the codec.
struct Call {
  rpc::call_header header;
  bool begins = false;  // begins as an RPC call, so it must be answered
  bool to_us = false;   // CB_COMPOUND of our program, and the header decodes
  bool whole = false;   // its arguments decode
  CB_COMPOUND4args args;
  std::optional<CB_SEQUENCE4args> sequence;  // its first operation
  size_t sequence_id_at = 0;                 // offset in the message; 0: there is none
};

Call take_apart(ConstBytes message) {
  Call call;
  const auto prefix = rpc::peek(message);
  call.begins = prefix && prefix->type == rpc::CALL;
  xdr::Decoder x(message);
  if (!x(call.header)) return call;
  call.to_us = call.header.rpcvers == rpc::kRpcVersion &&
               call.header.prog == client::nfs4::kCallbackProgram &&
               call.header.vers == client::nfs4::kCallbackVersion && call.header.proc == 1;
  if (!call.to_us) return call;
  xdr::Decoder arguments(x.rest());
  call.whole = arguments(call.args) && arguments.left() == 0;
  ConstBytes tag;
  uint32_t minor_version = 0, ident = 0, count = 0;
  if (!x.opaque(tag, kMaxTag) || !x(minor_version) || !x(ident) || !x(count)) return call;
  const size_t at = x.position();
  nfs_cb_argop4 first;
  if (minor_version != 1 || count == 0 || !x(first)) return call;
  if (const auto* sequence = std::get_if<CB_SEQUENCE4args>(&first.op)) {
    call.sequence = *sequence;
    call.sequence_id_at = at + 4 + sizeof(sessionid4);
  }
  return call;
}

// --- the rules of RFC 8881 sections 2.10.6 and 20.9 for the slots of a session ---

struct Slot {
  uint32_t sequence = 0;
  bool busy = false;
  bool used = false;
  ByteVector first;         // the reply when it was executed, with XID 0
  ByteVector retried;       // the reply to its first retry, with XID 0; empty: none yet
  bool may_forget = false;  // the first reply is too large for the cache, so it may be forgotten
};

struct Model {
  unsigned generation = 0;
  sessionid4 session{};
  channel_attrs4 limits;
  std::vector<Slot> slots;

  void open(unsigned id, const channel_attrs4& granted) {
    ++generation;
    session = session_id(id);
    limits = granted;
    slots.assign(granted.ca_maxrequests, Slot{});
  }

  enum class Kind : uint8_t { kNew, kRetry, kError };
  struct Verdict {
    Kind kind = Kind::kError;
    nfsstat4 status = NFS4_OK;
  };
  Verdict judge(const CB_SEQUENCE4args& a) const {
    if (a.csa_sessionid != session) return {Kind::kError, NFS4ERR_BADSESSION};
    if (a.csa_slotid >= slots.size()) return {Kind::kError, NFS4ERR_BADSLOT};
    if (a.csa_highest_slotid >= slots.size()) return {Kind::kError, NFS4ERR_BAD_HIGH_SLOT};
    const Slot& slot = slots[a.csa_slotid];
    if (a.csa_sequenceid == slot.sequence && slot.busy) return {Kind::kError, NFS4ERR_DELAY};
    if (a.csa_sequenceid == slot.sequence && slot.used) return {Kind::kRetry, NFS4_OK};
    if (a.csa_sequenceid == slot.sequence + 1 && !slot.busy) return {Kind::kNew, NFS4_OK};
    return {Kind::kError, NFS4ERR_SEQ_MISORDERED};
  }
};

// --- Replies ---

struct Reply {
  rpc::reply_header header;
  CB_COMPOUND4res results;
  bool compound = false;  // has results
};

Reply read(ConstBytes message, const Call& call) {
  Reply reply;
  xdr::Decoder x(message);
  require(x(reply.header), "a reply has a header");
  require(reply.header.xid == call.header.xid, "with the call's XID");
  if (!reply.header.success() || call.header.proc == 0) {
    require(x.left() == 0, "a reply without results ends with its header");
    return reply;
  }
  require(call.to_us, "only CB_COMPOUND and CB_NULL succeed");
  require(x(reply.results) && x.left() == 0, "the results decode");
  fuzz::survives_its_own_encoding(reply.results);
  reply.compound = true;
  return reply;
}

void holds_together(const Reply& reply, const Call& call) {
  const CB_COMPOUND4res& res = reply.results;
  for (size_t i = 0; i < res.resarray.size(); ++i) {
    const bool last = i + 1 == res.resarray.size();
    require((res.resarray[i].status() == NFS4_OK) || last, "the first error ends it");
    require(!last || res.resarray[i].status() == res.status, "whose status is the whole's");
  }
  require(res.status != NFS4_OK || call.whole, "only what decodes is done");
  if (!call.whole) return;
  require(res.tag == call.args.tag, "the tag comes back");
  require(res.resarray.size() <= call.args.argarray.size(), "no results but of what was called");
  require(res.status != NFS4_OK || res.resarray.size() == call.args.argarray.size(), "and of all of it");
  for (size_t i = 0; i < res.resarray.size(); ++i) {
    require(res.resarray[i].opnum() == call.args.argarray[i].opnum() ||
                res.resarray[i].status() == NFS4ERR_OP_ILLEGAL,
            "in its order");
  }
}

void set_xid(ByteVector& message, uint32_t xid) {
  if (message.size() >= 4) store_be32(message.data(), xid);
}

// --- The conversation ---

class Holder final : public client::nfs4::DelegationHolder {
  void recalled(client::nfs4::DelegationRef) override {}
  void recalled_unknown(const nfs_fh4&, const stateid4&, uint64_t) override {}
  std::optional<Known> delegated_attributes(const client::nfs4::Delegation&) override {
    return Known{17, 4711};
  }
};

class Conversation {
 public:
  Conversation(Loop& loop, ConstBytes input) : loop_(loop), input_(input) {
    delegations_.attach(&holder_);
    slots_.open(1, session_id(1), kForeSlots, {2});
    open_session(1, 0);
  }

  Task<> run() {
    while (!input_.empty() && calls_ < kMaxCalls) {
      const unsigned control = byte();
      const unsigned action = control & 7;
      co_await step(action, (control & 0x20) != 0, control >> 6);
      static constexpr unsigned kTurns[] = {0, 1, 5, 1000};
      for (unsigned n = 0; n < kTurns[control >> 3 & 3] && under_way_ > 0; ++n) co_await turn();
    }
    while (under_way_ > 0) co_await turn();
    if (ticket_) slots_.release(*ticket_, client::nfs4::SlotUse::kExecuted);
    loop_.stop();
  }

 private:
  Task<> turn() { co_await loop_.sleep(Duration::zero()); }
  unsigned byte() {
    if (input_.empty()) return 0;
    const auto b = std::to_integer<unsigned>(input_.front());
    input_ = input_.subspan(1);
    return b;
  }

  void grant(bool write) {
    if (held_) return;
    open_delegation4 granted;
    granted.delegation_type = write ? OPEN_DELEGATE_WRITE : OPEN_DELEGATE_READ;
    granted.stateid = delegation();
    held_ = std::make_shared<client::nfs4::Delegation>(kFile, granted, nullptr, 1);
    delegations_.add(held_, client::nfs4::Delegations::Came::kGranted);
  }

  // `fitting`: use the sequence ID that the slot expects next. `kind`: the limits of a new session.
  Task<> step(unsigned action, bool fitting, unsigned kind) {
    switch (action) {
      case 0: grant(fitting); break;
      case 1:
        if (held_)
          delegations_.remove(std::exchange(held_, nullptr), client::nfs4::Delegations::Went::kReturned);
        break;
      case 2: open_session(1 + (fitting ? 1 : 0), kind); break;
      case 3:
        // A request of the client itself, which a referring call can name.
        if (ticket_) {
          slots_.release(*ticket_, client::nfs4::SlotUse::kExecuted);
          ticket_.reset();
        } else {
          ticket_ = co_await slots_.acquire();
        }
        break;
      default: {
        const size_t high = byte();
        const size_t told = high << 8 | byte();
        const size_t length = std::min(told, input_.size());
        ByteVector message(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(length));
        input_ = input_.subspan(length);
        if (fitting) fit(message);
        loop_.spawn(call(std::move(message), true));
      }
    }
  }

  void open_session(unsigned id, unsigned kind) {
    const channel_attrs4 limits = limits_of(kind);
    server_.session_opened(session_id(id), limits);
    model_.open(id, limits);
  }

  void fit(ByteVector& message) const {
    const Call call = take_apart(message);
    if (!call.sequence || call.sequence->csa_slotid >= model_.slots.size()) return;
    std::copy(model_.session.data.begin(), model_.session.data.end(),
              message.begin() + static_cast<ptrdiff_t>(call.sequence_id_at - sizeof(sessionid4)));
    store_be32(message.data() + call.sequence_id_at, model_.slots[call.sequence->csa_slotid].sequence + 1);
  }

  // Makes one call and waits for its reply. If it was executed, the call is then repeated.
  Task<> call(ByteVector message, bool retry) {
    ++calls_;
    ++under_way_;
    const Call made = take_apart(message);
    const unsigned generation = model_.generation;
    const channel_attrs4 limits = model_.limits;
    Model::Verdict verdict;
    if (made.sequence) verdict = model_.judge(*made.sequence);
    const uint64_t counted = server_.count();
    const uint32_t target = slots_.counts().target;
    // Another call may come while this one waits; it must find the slot busy.
    Slot* slot = verdict.kind == Model::Kind::kNew ? &model_.slots[made.sequence->csa_slotid] : nullptr;
    Slot before;
    if (slot != nullptr) {
      before = *slot;
      *slot = Slot{};
      slot->sequence = before.sequence + 1;
      slot->busy = slot->used = true;
    }
    ByteVector sent = message;
    ByteVector answer = co_await server_.serve(std::move(sent));
    --under_way_;
    if (generation != model_.generation) slot = nullptr;  // the slot belonged to a session that is gone

    require(answer.empty() != made.begins, "what begins as a call has an answer");
    if (answer.empty()) co_return;
    const Reply reply = read(answer, made);
    const bool executed =
        verdict.kind == Model::Kind::kNew && reply.compound && !reply.results.resarray.empty() &&
        reply.results.resarray[0].opnum() == OP_CB_SEQUENCE && reply.results.resarray[0].status() == NFS4_OK;
    if (slot != nullptr && !executed) *slot = std::move(before);  // an error does not change the slot
    require(executed || slots_.counts().target == target, "what is refused or a retry executes nothing");
    const bool from_nobody = made.header.cred.flavor == rpc::AUTH_NONE && made.header.cred.body.empty();
    require(reply.compound || !made.whole || !from_nobody, "what decodes has results");
    if (!reply.compound) co_return;
    require(server_.count() > counted, "a CB_COMPOUND is counted");
    if (verdict.kind != Model::Kind::kRetry) holds_together(reply, made);
    check_verdict(made, verdict, reply, answer, limits);
    if (!executed || slot == nullptr) co_return;
    set_xid(answer, 0);
    slot->busy = false;
    slot->first = std::move(answer);
    slot->may_forget = !made.sequence->csa_cachethis && reply.results.resarray.size() > 2 &&
                       slot->first.size() > limits.ca_maxresponsesize_cached;
    if (!retry) co_return;
    grow();
    set_xid(message, static_cast<uint32_t>(made.header.xid) + 1);
    co_await call(std::move(message), false);
  }

  void check_verdict(const Call& made, const Model::Verdict& verdict, const Reply& reply,
                     const ByteVector& answer, const channel_attrs4& limits) {
    const CB_COMPOUND4res& res = reply.results;
    if (res.resarray.empty()) {  // refused as a whole
      require(answer.size() <= std::max<size_t>(limits.ca_maxresponsesize, 36 + xdr_padded(res.tag.size())),
              "a reply without results is no larger than it must be");
      return;
    }
    const nfsstat4 first = res.resarray[0].status();
    if (!made.sequence) {
      require(res.resarray.size() == 1 && first != NFS4_OK, "nothing is done without a CB_SEQUENCE");
      return;
    }
    require(res.resarray[0].opnum() == OP_CB_SEQUENCE, "CB_SEQUENCE comes first");
    if (first == NFS4ERR_REP_TOO_BIG || first == NFS4ERR_REP_TOO_BIG_TO_CACHE) return;
    require(answer.size() <= limits.ca_maxresponsesize, "a reply is not larger than was negotiated");
    require(first == verdict.status, "CB_SEQUENCE says what the slot is like");
    if (first != NFS4_OK) return;
    const CB_SEQUENCE4resok& ok = std::get<CB_SEQUENCE4res>(res.resarray[0].op).resok4;
    require(ok.csr_sessionid == made.sequence->csa_sessionid && ok.csr_slotid == made.sequence->csa_slotid &&
                ok.csr_sequenceid == made.sequence->csa_sequenceid,
            "and which one it means");
    if (verdict.kind == Model::Kind::kRetry) check_retry(model_.slots[ok.csr_slotid], reply, answer);
  }

  static void check_retry(Slot& slot, const Reply& reply, ByteVector answer) {
    set_xid(answer, 0);
    const bool again = slot.retried.empty() ? answer == slot.first : answer == slot.retried;
    const CB_COMPOUND4res& res = reply.results;
    const bool forgotten = slot.may_forget && slot.retried.empty() && res.resarray.size() == 2 &&
                           res.status == NFS4ERR_RETRY_UNCACHED_REP;
    require(again || forgotten, "a retry gets the same answer, or hears that it was not kept");
    slot.retried = std::move(answer);
  }

  // Restores the number of slots, so that a CB_RECALL_SLOT executed by a retry would be noticed.
  void grow() {
    const auto ticket = slots_.try_acquire_upkeep();
    if (!ticket) return;
    slots_.set_target(*ticket, kForeSlots - 1);
    slots_.release(*ticket, client::nfs4::SlotUse::kNotExecuted);
  }

  Loop& loop_;
  ConstBytes input_;
  client::nfs4::SlotTable slots_;
  client::nfs4::NodeTable nodes_;
  client::NodeRef node_ = nodes_.get(kFile, 0);
  Holder holder_;
  client::nfs4::Delegations delegations_;
  client::nfs4::DelegationRef held_;
  client::nfs4::CallbackServer server_{slots_, nodes_, delegations_, Duration::zero()};
  Model model_;
  std::optional<client::nfs4::SlotTicket> ticket_;
  size_t calls_ = 0;
  size_t under_way_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Loop loop;
  Conversation conversation(loop, fuzz::bytes_of(data, size));
  loop.spawn(conversation.run());
  loop.run();
  require(loop.live_tasks() == 0, "every call ended");
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "filer/dispatcher.h"

#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::filer {

using namespace nfs4;

// One call, from its arrival until its reply is sent.
struct Dispatcher::Exchange {
  links::LinkPtr link;
  ByteVector message;
  rpc::call_header header;
  size_t arguments = 0;  // offset of the procedure's arguments
  tree::Principal who;
  std::shared_ptr<const security::ProtectedCall> protection;  // RPCSEC_GSS
  std::vector<nfs_opnum4> ops;                                // filled only while fault rules exist
  uint64_t boot = 0;

  FaultEvent::Kind phase = FaultEvent::Kind::kRequest;
  std::vector<FaultPlan::Fired> actions;  // of the current phase
  size_t next_action = 0;
  nfs::CompoundOrders orders;
  bool patient = true;  // waits until a conflicting delegation ends; false: gets NFS4ERR_DELAY
  bool timed = false;   // the time limit for that wait is running
  FaultPlan::RuleId stop_rule = 0;
  std::unique_ptr<nfs::CompoundRun> run;

  rpc::reply_header reply_header;  // under RPCSEC_GSS `reply` has only room for it until it is sealed
  ByteVector reply;
  links::BulkPlaces items;  // positions of READ's data and READLINK's text in `reply`
  std::vector<ByteVector> before;
  std::vector<ByteVector> after;
  std::vector<ByteVector> raw_before;
  std::vector<ByteVector> raw_after;
  unsigned copies = 1;
  unsigned hold_behind = 0;
};

namespace {

std::vector<nfs_opnum4> operations_in(ConstBytes arguments) {
  std::vector<nfs_opnum4> ops;
  xdr::Decoder in(arguments);
  compound_call call;
  if (!in(call)) return ops;
  for (uint32_t i = 0; i < call.operations; ++i) {
    nfs_argop4 op;
    if (!in(op)) break;
    ops.push_back(op.opnum());
    if (std::holds_alternative<ILLEGAL4args>(op.op)) break;
  }
  return ops;
}

rpc::reply_header accepted_with(rpc::accept_stat stat) {
  rpc::reply_header header;
  header.accepted = stat;
  if (stat == rpc::PROG_MISMATCH) header.mismatch = {NFS_V4, NFS_V4};
  return header;
}

rpc::reply_header denied_with(rpc::auth_stat why) {
  rpc::reply_header header;
  header.stat = rpc::MSG_DENIED;
  header.denied = rpc::AUTH_ERROR;
  header.why = why;
  return header;
}

}  // namespace

Dispatcher::Dispatcher(nfs::Core& core, FaultPlan& faults, Environment environment)
    : core_(core), faults_(faults), environment_(std::move(environment)) {}

Dispatcher::~Dispatcher() = default;

bool Dispatcher::accepted(const links::LinkPtr& link) {
  FaultEvent event;
  event.kind = FaultEvent::Kind::kAccept;
  event.link = link->id();
  for (const FaultPlan::Fired& fired : faults_.match(event)) {
    if (const auto* cut = std::get_if<fault::Cut>(&fired.action)) {
      link->close(cut->abort);
      return false;
    }
    if (const auto* call = std::get_if<fault::Call>(&fired.action)) call->function();
    if (const auto* extra = std::get_if<fault::Extra>(&fired.action)) {
      for (const ByteVector& m : extra->before) extra->raw ? link->send_raw(m) : link->send(m);
    }
  }
  return true;
}

std::optional<rpcrdma::error> Dispatcher::header(const links::LinkPtr& link, const rpcrdma::header& header) {
  if (!faults_.armed()) return std::nullopt;
  std::optional<rpcrdma::error> answer;
  for (const FaultPlan::Fired& fired :
       faults_.match({FaultEvent::Kind::kHeader, link->id(), rpc::Xid{header.xid}, {}})) {
    if (const auto* cut = std::get_if<fault::Cut>(&fired.action)) link->close(cut->abort);
    if (const auto* call = std::get_if<fault::Call>(&fired.action)) call->function();
    if (const auto* refusal = std::get_if<fault::RefuseHeader>(&fired.action)) answer = refusal->error;
  }
  if (answer && header.vers == rpcrdma::kVersion1 && answer->code != rpcrdma::ERR_VERS)
    answer->code = rpcrdma::ERR_CHUNK;
  return answer;
}

void Dispatcher::closed(links::LinkId link) {
  MutexLock lock(core_.mutex);
  held_.erase(link);
  last_client_.erase(link);
  core_.clients.link_gone(link);
  core_.back.link_gone(link);
  core_.changed.notify_all();
}

void Dispatcher::received(const links::LinkPtr& link, ByteVector message) {
  const auto prefix = rpc::peek(message);
  if (prefix && prefix->type == rpc::REPLY) {
    MutexLock lock(core_.mutex);
    if (!core_.back.answered(link->id(), message))
      log::debug("filer: an answer to nothing on connection {}", link->id());
  } else {
    begin(link, std::move(message));
  }
  let_go_on();
}

void Dispatcher::begin(const links::LinkPtr& link, ByteVector message) {
  auto x = std::make_shared<Exchange>();
  x->link = link;
  x->message = std::move(message);
  if (!prepare(*x)) return;
  x->actions = faults_.match(event_of(*x, FaultEvent::Kind::kRequest));
  go_on(x);
}

// Decodes the RPC header. A message that cannot be decoded as a call ends the connection; a call that is not
// allowed is refused.
bool Dispatcher::prepare(Exchange& x) {
  xdr::Decoder in(x.message);
  if (!in(x.header)) {
    x.link->close(false);
    return false;
  }
  x.arguments = in.position();
  const bool known = x.header.rpcvers == rpc::kRpcVersion;
  const bool secure = known && x.header.cred.flavor == rpc::RPCSEC_GSS;
  if (!(secure ? verify(x) : believe(x, known))) return false;
  const bool compound =
      known && x.header.prog == NFS4_PROGRAM && x.header.vers == NFS_V4 && x.header.proc == NFSPROC4_COMPOUND;
  if (compound && faults_.armed()) x.ops = operations_in(ConstBytes(x.message).subspan(x.arguments));
  return true;
}

// Takes the caller's word for who he is, or refuses the call. `known`: the RPC version is 2, so there is a
// credential.
bool Dispatcher::believe(Exchange& x, bool known) {
  MutexLock lock(core_.mutex);
  x.boot = core_.boot;
  // If the AUTH_SYS credentials of the peer are not accepted (links/peer_check.h), only its NULL calls are
  // executed: they show the peer that the server is there. All other calls are refused (RFC 5531 section 9:
  // "AUTH_TOOWEAK ... rejected for security reasons").
  if (!x.link->believed() && known && x.header.proc != NFSPROC4_NULL) {
    answer(x, denied_with(rpc::AUTH_TOOWEAK));
    transmit(x);
    return false;
  }
  if (!known) return true;
  const auto who = security::principal_of(x.header.cred);
  if (!who) {
    answer(x, denied_with(rpc::AUTH_BADCRED));
    transmit(x);
    return false;
  }
  x.who = core_.switches.anonymous_root ? security::without_root(*who) : *who;
  return true;
}

// Verifies a call under RPCSEC_GSS and unwraps its arguments; answers calls that control contexts. Nothing of
// the connection counts: the caller proves who he is.
bool Dispatcher::verify(Exchange& x) {
  std::string address;
  {
    MutexLock lock(core_.mutex);
    x.boot = core_.boot;
    address = x.link->standing.address;
  }
  // "common implementation practice appears to be to return ... an auth_stat of AUTH_REJECTEDCRED" where
  // there is no RPCSEC_GSS (RFC 2203 section 5.2.3.2).
  auto verdict = security::Verdict::refuse(rpc::AUTH_REJECTEDCRED);
  if (contexts_ != nullptr) {
    if (std::exchange(contexts_boot_, x.boot) != x.boot) contexts_->forget();
    verdict = contexts_->judge(x.header, x.message, x.arguments, address, Clock::now());
  }
  MutexLock lock(core_.mutex);
  switch (verdict.kind) {
    case security::Verdict::Kind::kExecute:
      x.protection = std::move(verdict.call);
      x.arguments = verdict.arguments;
      x.who = x.protection->who();
      if (core_.switches.anonymous_root) x.who = security::without_root(x.who);
      return true;
    case security::Verdict::Kind::kAnswer: x.reply = std::move(verdict.reply); break;
    case security::Verdict::Kind::kRefuse: answer(x, denied_with(verdict.why)); break;
    case security::Verdict::Kind::kDrop: x.link->call_dropped(); return false;
  }
  transmit(x);
  return false;
}

FaultEvent Dispatcher::event_of(const Exchange& x, FaultEvent::Kind kind) const {
  return {kind, x.link->id(), x.header.xid, x.ops};
}

// Continues the exchange where it stopped: the remaining actions of its phase, then the next phase.
void Dispatcher::go_on(const ExchangePtr& x) {
  {
    MutexLock lock(core_.mutex);
    if (core_.boot != x->boot) return;
  }
  while (x->next_action < x->actions.size()) {
    const FaultPlan::Fired fired = x->actions[x->next_action++];
    if (apply(x, fired) != Verdict::kGoOn) return;
  }
  if (x->phase == FaultEvent::Kind::kRequest) {
    execute(x);
  } else {
    MutexLock lock(core_.mutex);
    transmit(*x);
  }
}

// Parks a COMPOUND until a delegation ends or its holder answers CB_GETATTR, for conflict_wait in all at
// most. The server's lock is held.
void Dispatcher::hold_back(const ExchangePtr& x) {
  held_back_.push_back(x);
  core_.changed.notify_all();
  if (std::exchange(x->timed, true)) return;
  environment_.after(core_.switches.conflict_wait, [this, x] {
    x->patient = false;
    if (std::erase(held_back_, x) > 0) go_on(x);
  });
}

void Dispatcher::let_go_on() {
  while (!held_back_.empty()) {
    {
      MutexLock lock(core_.mutex);
      const uint64_t moved = core_.states.delegations_moved();
      if (std::exchange(delegations_moved_, moved) == moved) return;
    }
    for (const ExchangePtr& x : std::exchange(held_back_, {})) go_on(x);
  }
}

bool Dispatcher::park(const ExchangePtr& x, FaultPlan::RuleId rule) {
  return faults_.park(rule, [this, x] { go_on(x); });
}

void Dispatcher::execute(const ExchangePtr& x) {
  const rpc::call_header& h = x->header;
  {
    MutexLock lock(core_.mutex);
    if (core_.boot != x->boot) return;  // a fault has restarted the server
    if (h.rpcvers != rpc::kRpcVersion) {
      rpc::reply_header mismatch;
      mismatch.stat = rpc::MSG_DENIED;
      mismatch.mismatch = {rpc::kRpcVersion, rpc::kRpcVersion};
      answer(*x, mismatch);
    } else if (h.prog != NFS4_PROGRAM) {
      answer(*x, accepted_with(rpc::PROG_UNAVAIL));
    } else if (h.vers != NFS_V4) {
      answer(*x, accepted_with(rpc::PROG_MISMATCH));
    } else if (h.proc == NFSPROC4_NULL) {
      answer(*x, accepted_with(rpc::SUCCESS));
    } else if (h.proc != NFSPROC4_COMPOUND) {
      answer(*x, accepted_with(rpc::PROC_UNAVAIL));
    } else {
      if (x->run == nullptr) {
        nfs::ReplyRoom room;
        if (x->protection) room = {x->protection->front(), x->protection->behind()};
        x->run = std::make_unique<nfs::CompoundRun>(core_, x->link, x->who, h.xid, std::move(x->message),
                                                    x->arguments, room);
        x->patient = core_.switches.conflict_wait.count() > 0 && held_back_.size() < kMostHeldBack;
        if (!x->run->start(std::move(x->orders), x->patient)) answer(*x, accepted_with(rpc::GARBAGE_ARGS));
      } else {
        x->run->resume(x->patient);
        if (x->run->reply().empty()) return;
      }
      if (x->run->stopped() && !x->run->held_back()) {
        if (park(x, x->stop_rule)) return;
        x->run->resume(x->patient);
      }
      if (x->run->held_back()) return hold_back(x);
      if (const clientid4 client = x->run->executed().client; client != 0)
        last_client_[x->link->id()] = client;
      if (x->reply.empty()) answer(*x, *x->run);
    }
  }
  begin_reply(x);
}

void Dispatcher::answer(Exchange& x, const rpc::reply_header& given) {
  x.reply_header = given;
  x.reply_header.xid = x.header.xid;
  x.reply.clear();
  x.items.clear();
  if (x.protection) return x.reply.resize(x.protection->front());
  x.reply.reserve(nfs::kReplyHeaderBytes);
  xdr::Encoder out(x.reply);
  if (!out(x.reply_header)) log::error("filer: a reply cannot be encoded: {}", out.failure());
}

// Copies the RPC header into the room that the run has left in front of its reply, so READ's data is not
// moved. Under RPCSEC_GSS begin_reply() does.
void Dispatcher::answer(Exchange& x, nfs::CompoundRun& run) {
  answer(x, accepted_with(rpc::SUCCESS));
  ByteVector reply = std::move(run.reply());
  if (!x.protection) std::copy_n(x.reply.begin(), nfs::kReplyHeaderBytes, reply.begin());
  x.reply = std::move(reply);
  x.items = run.items();
}

// Faults see a reply as it is sent: they play an attacker on the network.
void Dispatcher::begin_reply(const ExchangePtr& x) {
  if (x->protection) {
    // The client will not ask again on this connection, whatever it is: "A requester MUST NOT retry a request
    // unless the connection the request was sent over was lost" (RFC 8881 section 2.9.2).
    if (!x->protection->seal(x->reply_header, x->reply)) return x->link->close(false);
    if (x->protection->who().security != tree::Flavor::kKrb5) x->items.clear();  // READ's data is wrapped
  }
  x->phase = FaultEvent::Kind::kReply;
  x->actions = faults_.match(event_of(*x, FaultEvent::Kind::kReply));
  x->next_action = 0;
  go_on(x);
}

// The server's lock is held, because it orders replies and callbacks and clients may rely on that order.
void Dispatcher::transmit(Exchange& x) {
  std::vector<Held>& held = held_[x.link->id()];
  if (x.hold_behind > 0) {
    held.push_back({std::exchange(x.hold_behind, 0),
                    [link = x.link, reply = x.reply, items = x.items] { link->send(reply, items); }});
    return;
  }
  for (ByteVector& m : x.raw_before) x.link->send_raw(std::move(m));
  for (ByteVector& m : x.before) x.link->send(std::move(m));
  if (!x.reply.empty()) {
    for (unsigned i = 1; i < x.copies; ++i) x.link->send(x.reply, x.items);
    x.link->send(std::move(x.reply), std::move(x.items));
  }
  for (ByteVector& m : x.after) x.link->send(std::move(m));
  for (ByteVector& m : x.raw_after) x.link->send_raw(std::move(m));
  for (Held& h : held) {
    if (--h.left == 0) h.send();
  }
  std::erase_if(held, [](const Held& h) { return h.left == 0; });
  if (held.empty()) held_.erase(x.link->id());
}

// --- faults

Dispatcher::Verdict Dispatcher::wait(const ExchangePtr& x, const FaultPlan::Fired& fired) {
  if (const auto* delay = std::get_if<fault::Delay>(&fired.action)) {
    environment_.after(delay->by, [this, x] { go_on(x); });
    return Verdict::kParked;
  }
  return park(x, fired.rule) ? Verdict::kParked : Verdict::kGoOn;
}

Dispatcher::Verdict Dispatcher::apply(const ExchangePtr& x, const FaultPlan::Fired& fired) {
  const FaultAction& action = fired.action;
  if (std::holds_alternative<fault::Drop>(action)) return Verdict::kOver;
  if (std::holds_alternative<fault::Delay>(action) || std::holds_alternative<fault::Stall>(action))
    return wait(x, fired);
  if (const auto* cut = std::get_if<fault::Cut>(&action)) {
    x->link->close(cut->abort);
    return Verdict::kOver;
  }
  if (const auto* restart = std::get_if<fault::Restart>(&action)) {
    environment_.restart(restart->forget_reclaims);
    return Verdict::kOver;
  }
  if (std::holds_alternative<fault::ExpireLease>(action)) {
    expire_lease(x->link->id());
    return Verdict::kGoOn;
  }
  if (change_core(action)) return Verdict::kGoOn;
  if (const auto* call = std::get_if<fault::Call>(&action)) call->function();
  if (const auto* credits = std::get_if<fault::Credits>(&action)) x->link->grant(credits->granted);
  if (const auto* slots = std::get_if<fault::Slots>(&action)) environment_.target_slots(slots->target);
  return x->phase == FaultEvent::Kind::kRequest ? on_request(x, fired) : on_reply(x, fired);
}

// Carries out a fault that only changes the server. Returns false if the action is of another kind.
bool Dispatcher::change_core(const FaultAction& action) {
  MutexLock lock(core_.mutex);
  if (std::holds_alternative<fault::Recall>(action)) {
    core_.recall_delegations();
  } else if (std::holds_alternative<fault::Revoke>(action)) {
    core_.revoke_delegations();
  } else if (const auto* change = std::get_if<fault::TellChange>(&action)) {
    core_.switches.change_told = change->told;
    core_.apply_switches();
  } else {
    return false;
  }
  core_.changed.notify_all();
  return true;
}

Dispatcher::Verdict Dispatcher::on_request(const ExchangePtr& x, const FaultPlan::Fired& fired) {
  if (const auto* given = std::get_if<fault::Answer>(&fired.action))
    x->orders.answers[given->op] = given->status;
  if (std::holds_alternative<fault::StallInProgress>(fired.action)) {
    x->orders.stop_in_progress = true;
    x->stop_rule = fired.rule;
  }
  if (const auto* refusal = std::get_if<fault::RefuseRpc>(&fired.action)) {
    answer(*x, refusal->header);
    begin_reply(x);
    return Verdict::kOver;
  }
  return Verdict::kGoOn;
}

Dispatcher::Verdict Dispatcher::on_reply(const ExchangePtr& x, const FaultPlan::Fired& fired) {
  if (const auto* mangle = std::get_if<fault::Mangle>(&fired.action)) {
    mangle->edit(x->reply);
    x->items.clear();  // `edit` may have moved READ's data
  } else if (const auto* duplicate = std::get_if<fault::Duplicate>(&fired.action)) {
    x->copies += duplicate->copies;
  } else if (const auto* hold = std::get_if<fault::HoldBehind>(&fired.action)) {
    x->hold_behind = hold->replies;
  } else if (const auto* extra = std::get_if<fault::Extra>(&fired.action)) {
    auto& before = extra->raw ? x->raw_before : x->before;
    auto& after = extra->raw ? x->raw_after : x->after;
    before.insert(before.end(), extra->before.begin(), extra->before.end());
    after.insert(after.end(), extra->after.begin(), extra->after.end());
  }
  return Verdict::kGoOn;
}

void Dispatcher::expire_lease(links::LinkId link) {
  MutexLock lock(core_.mutex);
  const auto at = last_client_.find(link);
  state::Client* client = at == last_client_.end() ? nullptr : core_.clients.find(at->second);
  if (client == nullptr) return;
  core_.clients.set_renewed(*client, core_.clock.now() - core_.lease() - std::chrono::seconds(1));
  core_.tick();
}

}  // namespace nfsrdma::filer

// SPDX-License-Identifier: Apache-2.0
// Establishing and recovering: EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION, reclaim. Loop 0, except
// bind() of the other loops' connections. RFC 8881 sections 2.4, 2.10.10, 8.4.2, 18.34-18.37, 18.51.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "client/nfs4/session/back_channel.h"
#include "client/nfs4/session/session.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {
namespace {

using namespace std::chrono_literals;

// What we ask for; the server may lower each (section 18.36.3).
constexpr uint32_t kForeBytes = (1u << 20) + 4096;
constexpr uint32_t kForeCachedBytes = 2048;  // our cached replies are small; servers give more slots for it
constexpr uint32_t kForeOperations = 40;     // 16 files, each by PUTFH and CLOSE, behind SEQUENCE
constexpr uint32_t kForeSlots = 128;
// The least that we can work with: a READ of 4 KiB, and our longest COMPOUND.
constexpr uint32_t kLeastBytes = 8192;
constexpr uint32_t kLeastOperations = 8;

bool session_gone(const Error& e) {
  return e.layer == Layer::kNfs &&
         (e.recovery == Recovery::kNewSession || e.recovery == Recovery::kRecoverState);
}

// Logs a change of state. Repetitions (`news` is false) go to the debug log.
template <class... Args>
void tell(bool news, fmt::format_string<Args...> format, Args&&... args) {
  log::write(news ? log::Level::kInfo : log::Level::kDebug, format, fmt::make_format_args(args...));
}

}  // namespace

// Uses the lowest slots of a new session, which no other request uses yet.
class Session::Channel final : public RecoveryChannel {
 public:
  explicit Channel(Session& session)
      : session_(session),
        next_(std::min(session.granted_slots_, kMostRequests), 1),
        busy_(next_.size()),
        told_(session.granted_slots_),
        usable_(next_.size()) {}

  Task<Result<CompoundReply>> run(Request request) override {
    for (;;) {
      auto taking = take_slot();
      const uint32_t slot = co_await std::move(taking);
      if (broken_) {
        give_back(slot);
        co_return fail({.layer = Layer::kSession,
                        .recovery = Recovery::kReconnect,
                        .errnum = ENOTCONN,
                        .op = "recovery",
                        .cause = "a request of this recovery has no answer"});
      }
      bool retired = false;
      auto running = run_in(slot, request, retired);
      Result<CompoundReply> reply = co_await std::move(running);
      give_back(slot);
      if (!retired) co_return reply;
      co_await session_.pause(100ms);
    }
  }

  // The next sequence ID of each slot.
  const std::vector<uint32_t>& next_sequences() const { return next_; }
  // How many slots the server wants us to use.
  uint32_t target_slots() const { return told_; }

 private:
  Task<uint32_t> take_slot() {
    for (;;) {
      MutexLock lock(mutex_);
      const auto free = std::find(busy_.begin(), busy_.begin() + usable_, false);
      if (free != busy_.begin() + usable_) {
        *free = true;
        co_return static_cast<uint32_t>(free - busy_.begin());
      }
      co_await given_back_.wait(lock);
    }
  }

  void give_back(uint32_t slot) {
    MutexLock lock(mutex_);
    busy_[slot] = false;
    given_back_.notify_one();
  }

  SlotTicket ticket(uint32_t slot) const {
    SlotTicket t;
    t.session = session_.session_id_;
    t.slot = slot;
    t.sequence = next_[slot];
    // Section 18.46.3: "The sa_highest_slotid argument is the highest slot ID for which the client has a
    // request outstanding".
    for (uint32_t i = 0; i < busy_.size(); ++i) {
      if (busy_[i]) t.highest = i;
    }
    return t;
  }

  // Follows a lower target. A higher one can wait until recovery ends.
  void heed(const nfs4::SEQUENCE4resok& ok) {
    const uint32_t highest = std::min(ok.sr_target_highest_slotid, ok.sr_highest_slotid);
    if (highest < told_) told_ = highest + 1;
    usable_ = std::min<std::ptrdiff_t>(usable_, told_);
  }

  // `retired`: not executed, because the server has meanwhile retired the slot in its sa_highest_slotid.
  Task<Result<CompoundReply>> run_in(uint32_t slot, Request request, bool& retired) {
    for (Backoff delay(100ms, 2s);;) {
      CallSize size;
      const SlotTicket mine = ticket(slot);
      Result<CompoundReply> reply = co_await session_.attempt(0, request, mine, Precedence::kHandshake, size);
      if (!reply) {
        // The reply could not be decoded, but the server has executed the request.
        if (reply.error().layer == Layer::kXdr) {
          if (size.transmissions != 0) ++next_[slot];
        } else {
          broken_ = true;  // the slot's next sequence ID is not known
        }
        co_return reply;
      }
      if (!reply->sequence()) co_return fail(nfs4::nfs_error(reply->status(), nfs4::op_name(request.op)));
      const nfs4::nfsstat4 sequenced = reply->sequence()->status;
      if (sequenced == nfs4::NFS4_OK) {
        ++next_[slot];
        heed(reply->sequence()->resok4);
      } else if (sequenced == nfs4::NFS4ERR_BAD_HIGH_SLOT && mine.highest >= usable_) {
        retired = !session_.stopping_;
        co_return fail({.layer = Layer::kSession,
                        .recovery = Recovery::kInterrupted,
                        .errnum = EIO,
                        .status = sequenced,
                        .op = "SEQUENCE",
                        .cause = nfs4::name_of(sequenced)});
      } else if (sequenced != nfs4::NFS4ERR_DELAY) {
        // The fresh session is already unusable: recovery starts over.
        co_return fail({.layer = Layer::kSession,
                        .recovery = Recovery::kReconnect,
                        .errnum = EIO,
                        .status = sequenced,
                        .op = "SEQUENCE",
                        .cause = nfs4::name_of(sequenced)});
      }
      if (sequenced == nfs4::NFS4_OK && reply->status() != nfs4::NFS4ERR_DELAY) co_return reply;
      co_await session_.pause(delay.next());
      if (session_.stopping_)
        co_return fail({.layer = Layer::kSession,
                        .recovery = Recovery::kInterrupted,
                        .errnum = EIO,
                        .op = "recovery",
                        .cause = ""});
    }
  }

  static constexpr uint32_t kMostRequests = 16;

  Session& session_;
  std::vector<uint32_t> next_;
  Mutex mutex_;
  WaitQueue given_back_ NFSRDMA_GUARDED_BY(mutex_);
  // Recovery runs on loop 0 only.
  std::vector<bool> busy_;
  bool broken_ = false;    // a request may have been executed and has no answer
  uint32_t told_;          // the lowest number of slots that the server wanted
  std::ptrdiff_t usable_;  // slots below this one may be used; at least 1
};

Task<Result<>> Session::start() {
  NFSRDMA_CO_TRY(co_await connections_.start());
  loops_[0].spawn(renew_lease());
  co_return Result<>{};
}

Task<Result<>> Session::on_connected(unsigned index) {
  no_reclaim_before_.store(0, std::memory_order_release);  // a new connection may mean another restart
  if (index != 0) {
    if (!co_await readiness_.wait())
      co_return fail({.layer = Layer::kSession,
                      .recovery = Recovery::kInterrupted,
                      .errnum = EIO,
                      .op = "connect",
                      .cause = "shutting down"});
    const uint64_t generation = slots_.generation();  // the session may be replaced before the reply comes
    Result<> bound = co_await bind(index);
    if (bound || !session_gone(bound.error())) co_return bound;
    invalidate(generation, "BIND_CONN_TO_SESSION found no session");
    co_return bound;
  }
  co_await connections_.follow_address();
  auto guard = co_await recovery_mutex_.lock();
  // destroy_all() is done: do not establish a client ID again.
  if (stopping_ && !have_client_id_)
    co_return fail({.layer = Layer::kSession,
                    .recovery = Recovery::kInterrupted,
                    .errnum = EIO,
                    .op = "connect",
                    .cause = "shutting down"});
  if (slots_.is_open()) {
    Result<> bound = co_await bind(0);
    if (bound || !session_gone(bound.error())) co_return bound;
    tell(!sessions_end_at_once_, "server {}: the session is gone ({}); recovering", options_.host,
         describe(bound.error()));
    slots_.close(slots_.generation());
    readiness_.set(false);
    co_await pause(next_recovery());
  }
  co_return co_await recover();
}

void Session::invalidate(uint64_t generation, const char* why) {
  if (!slots_.close(generation)) return;
  readiness_.set(false);
  tell(!sessions_end_at_once_, "server {}: the session is unusable ({}); recovering", options_.host, why);
  loops_[0].spawn(recover_live());
}

Duration Session::next_recovery() {
  Duration wait{};
  {
    MutexLock lock(pace_mutex_);
    wait = pace_.begin(Clock::now());
  }
  recovered_lately_.store(true);
  if (wait != Duration::zero() && !sessions_end_at_once_.exchange(true)) {
    log::warn("server {}: sessions end as soon as they are made; trying again after pauses of up to {} s",
              options_.host, RecoveryPace::kLongest / 1s);
  }
  return wait;
}

void Session::note_session_works() {
  unsigned made = 0;
  {
    MutexLock lock(pace_mutex_);
    if (!pace_.worked(Clock::now())) return;
    recovered_lately_.store(false);
    made = pace_.take_count();
  }
  if (sessions_end_at_once_.exchange(false))
    log::info("server {}: the session lasts again; {} were lost before it", options_.host, made);
}

Task<> Session::recover_live() {
  const Gate::Pass pass = gate_.enter();
  co_await pause(next_recovery());
  auto guard = co_await recovery_mutex_.lock();
  if (slots_.is_open() || stopping_) co_return;
  Result<> recovered = co_await recover();
  if (recovered || stopping_) co_return;
  if (!sessions_end_at_once_)
    log::warn("server {}: recovery failed: {}; trying again", options_.host, describe(recovered.error()));
  connections_.at(0).reconnect("session recovery failed");  // the handshake of the next connection recovers
}

Task<Result<>> Session::recover() {
  const bool again = have_client_id_;
  const Duration unrenewed = lease_.unrenewed();
  const auto lease = lease_.period();
  if (again) {
    const Error gone{.layer = Layer::kSession,
                     .recovery = Recovery::kNewSession,
                     .errnum = EIO,
                     .op = "SEQUENCE",
                     .cause = "the session is gone"};
    co_await connections_.fail_pending(gone);
    recoveries_.fetch_add(1, std::memory_order_relaxed);
  }
  // Another iteration is needed only if the server lost our client ID in between, so a few are enough.
  Backoff between(100ms, 1s);
  for (int turn = 0;; ++turn) {
    if (turn > 1) co_await pause(between.next());
    if (!have_client_id_) NFSRDMA_CO_TRY(co_await exchange_id());
    if (have_session_) NFSRDMA_CO_TRY(co_await destroy_session(false));
    Result<> created = co_await create_session();
    if (created) break;
    const Error& e = created.error();
    const bool stale = e.is_status(nfs4::NFS4ERR_STALE_CLIENTID) || e.is_status(nfs4::NFS4ERR_EXPIRED) ||
                       e.is_status(nfs4::NFS4ERR_SEQ_MISORDERED);
    if (!stale || turn == 4) co_return created;
    have_client_id_ = false;
  }
  const uint64_t generation = generation_.fetch_add(1) + 1;
  Channel channel(*this);
  const uint64_t epoch_now = epoch();
  const bool restarted = reclaim_owed_ && epoch_now > 1;
  if (restarted) NFSRDMA_CO_TRY(co_await fetch_lease(channel));
  NFSRDMA_CO_TRY(co_await reclaim(channel));
  slots_.open(generation, session_id_, granted_slots_, channel.next_sequences(), channel.target_slots());
  readiness_.set(true);
  if (restarted) {
    // The server loses our state by a restart or when the lease expires. If the lease was renewed in time, it
    // was a restart.
    if (unrenewed < lease) {
      tell(!sessions_end_at_once_, "server {}: recovered after its restart", options_.host);
    } else {
      tell(!sessions_end_at_once_,
           "server {}: recovered; the lease of {} s had run out, it was not renewed for {} s", options_.host,
           lease.count(), std::chrono::duration_cast<std::chrono::seconds>(unrenewed).count());
    }
    loops_[0].spawn(restore_state());
  }
  co_return Result<>{};
}

// Section 8.4.2.1: after a restart the lease "may be different". It is fetched first, because the rest of
// recovery may take long.
Task<Result<>> Session::fetch_lease(RecoveryChannel& channel) {
  const nfs4::bitmap4 wanted = nfs4::bitmap4::of({nfs4::FATTR4_LEASE_TIME});
  auto build = [&](CompoundBuilder& b) { b.add(nfs4::PUTROOTFH4args{}).getattr(wanted); };
  const Request request{.op = nfs4::OP_GETATTR, .credential = machine_, .build = build};
  Result<CompoundReply> reply = co_await channel.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (!reply->expect<nfs4::PUTROOTFH4res>()) co_return Result<>{};  // keep the lease known so far
  auto res = reply->take<nfs4::GETATTR4res>();
  if (res && res->resok4.obj_attributes.has(nfs4::FATTR4_LEASE_TIME))
    set_lease(std::chrono::seconds(res->resok4.obj_attributes.fs->lease_time));
  co_return Result<>{};
}

Task<> Session::restore_state() {
  const Gate::Pass pass = gate_.enter();
  co_await keeper_->recovered();
}

Task<Result<CompoundReply>> Session::run_alone(unsigned transport, nfs4::nfs_opnum4 op, BuildRef build) {
  const char* name = nfs4::op_name(op);
  for (Backoff delay(250ms, 5s);;) {
    CompoundBuilder builder(*machine_, name, false);
    build(builder);
    rpc::Call call = builder.finish(nullptr, false);
    call.handshake = true;
    CallSize size;
    size.sent = call.head.size();
    const std::string operations = builder.take_trace();
    const TimePoint sent = Clock::now();
    rpc::Outcome outcome = co_await connections_.at(transport).call(std::move(call));
    if (!outcome.reply) co_return fail(std::move(outcome.reply.error()));
    size.transmissions = outcome.transmissions;
    size.received = outcome.reply->head.size();
    const Slice none;
    Result<CompoundReply> reply = CompoundReply::parse(std::move(*outcome.reply), none, name, false);
    count(op, size, sent, reply);
    if (!operations.empty())
      trace(name, operations, reply ? nfs4::name_of(reply->status()) : describe(reply.error()), sent);
    if (!reply || reply->status() != nfs4::NFS4ERR_DELAY || stopping_) co_return reply;
    co_await pause(delay.next());
  }
}

Task<Result<>> Session::exchange_id() {
  nfs4::EXCHANGE_ID4args args;
  args.eia_clientowner.co_verifier = boot_verifier_;
  args.eia_clientowner.co_ownerid = owner_id_;
  args.eia_flags = 0;
  args.eia_state_protect.how = nfs4::SP4_NONE;
  auto build = [&](CompoundBuilder& b) { b.add(args); };
  Result<CompoundReply> reply = co_await run_alone(0, nfs4::OP_EXCHANGE_ID, build);
  if (!reply) co_return fail(std::move(reply.error()));
  auto res = reply->take<nfs4::EXCHANGE_ID4res>();
  if (!res) co_return fail(std::move(res.error()));
  const auto& ok = res->resok4;
  if (ok.eir_state_protect.how != nfs4::SP4_NONE) {
    co_return fail({.layer = Layer::kSession,
                    .recovery = Recovery::kPermanent,
                    .errnum = EPROTO,
                    .op = "EXCHANGE_ID",
                    .cause = "the server chose another state protection than asked for"});
  }
  const bool same = epoch() != 0 && ok.eir_clientid == client_id();
  const bool confirmed = (ok.eir_flags & nfs4::EXCHGID4_FLAG_CONFIRMED_R) != 0;
  // Section 18.35.3: eir_sequenceid is for a client ID that CREATE_SESSION has not confirmed yet.
  if (!same || !confirmed) create_sequence_ = ok.eir_sequenceid;
  // A new client ID, or one that is no longer confirmed: the server has lost our state.
  if (!same || (!confirmed && client_id_confirmed_)) {
    client_id_.store(ok.eir_clientid, std::memory_order_release);
    epoch_.fetch_add(1, std::memory_order_acq_rel);
    owe_state();
    have_session_ = false;
    client_id_confirmed_ = false;
  }
  have_client_id_ = true;
  const bool same_scope = identity_.note(ok);
  // Section 8.4.2.1: "If the server scope is different, the client should not attempt to reclaim locks."
  if (epoch() > 1 && !same_scope) other_scope_ = true;
  co_return Result<>{};
}

Task<Result<>> Session::create_session() {
  nfs4::CREATE_SESSION4args args;
  args.csa_clientid = client_id();
  args.csa_sequence = create_sequence_;
  args.csa_flags = nfs4::CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
  args.csa_fore_chan_attrs = {.ca_headerpadsize = 0,
                              .ca_maxrequestsize = kForeBytes,
                              .ca_maxresponsesize = kForeBytes,
                              .ca_maxresponsesize_cached = kForeCachedBytes,
                              .ca_maxoperations = kForeOperations,
                              .ca_maxrequests = kForeSlots,
                              .ca_rdma_ird = std::nullopt};
  args.csa_back_chan_attrs = offered_back_channel();
  args.csa_cb_program = kCallbackProgram;
  nfs4::callback_sec_parms4 security;
  security.cb_secflavor = rpc::AUTH_SYS;
  security.cbsp_sys_cred.machinename = "nfsrdma-fuse";
  args.csa_sec_parms.push_back(security);
  auto build = [&](CompoundBuilder& b) { b.add(args); };
  Result<CompoundReply> reply = co_await run_alone(0, nfs4::OP_CREATE_SESSION, build);
  if (!reply) co_return fail(std::move(reply.error()));
  auto res = reply->take<nfs4::CREATE_SESSION4res>();
  // Section 18.36.4: the server's sequence ID advances with each reply that it caches, including errors. It
  // does not cache these three.
  const nfs4::nfsstat4 status = reply->status();
  if (status != nfs4::NFS4ERR_STALE_CLIENTID && status != nfs4::NFS4ERR_SEQ_MISORDERED &&
      status != nfs4::NFS4ERR_DELAY)
    create_sequence_ = create_sequence_ + 1;
  if (!res) co_return fail(std::move(res.error()));
  const auto& ok = res->resok4;
  const auto& fore = ok.csr_fore_chan_attrs;
  session_id_ = ok.csr_sessionid;
  have_session_ = true;
  client_id_confirmed_ = true;
  if (fore.ca_maxrequests == 0 || fore.ca_maxrequestsize < kLeastBytes ||
      fore.ca_maxresponsesize < kLeastBytes || fore.ca_maxoperations < kLeastOperations) {
    co_return fail(
        {.layer = Layer::kSession,
         .recovery = Recovery::kPermanent,
         .errnum = EPROTO,
         .op = "CREATE_SESSION",
         .cause = fmt::format("the server grants too little: {} slots, {} and {} bytes, {} operations",
                              fore.ca_maxrequests, fore.ca_maxrequestsize, fore.ca_maxresponsesize,
                              fore.ca_maxoperations)});
  }
  granted_slots_ = std::min(fore.ca_maxrequests, kForeSlots);
  max_request_.store(std::min(fore.ca_maxrequestsize, kForeBytes));
  max_response_.store(std::min(fore.ca_maxresponsesize, kForeBytes));
  max_operations_.store(fore.ca_maxoperations);
  back_channel_.store((ok.csr_flags & nfs4::CREATE_SESSION4_FLAG_CONN_BACK_CHAN) != 0);
  callbacks_->session_opened(session_id_, ok.csr_back_chan_attrs);
  sessions_created_.fetch_add(1, std::memory_order_relaxed);
  identity_.set_session(session_id_);
  co_return Result<>{};
}

Task<Result<>> Session::bind(unsigned index) {
  nfs4::BIND_CONN_TO_SESSION4args args;
  args.bctsa_sessid = identity_.session();
  args.bctsa_dir = nfs4::CDFC4_FORE_OR_BOTH;
  auto build = [&](CompoundBuilder& b) { b.add(args); };
  Result<CompoundReply> reply = co_await run_alone(index, nfs4::OP_BIND_CONN_TO_SESSION, build);
  if (!reply) co_return fail(std::move(reply.error()));
  auto res = reply->take<nfs4::BIND_CONN_TO_SESSION4res>();
  if (!res) {
    // A server without the operation binds by SEQUENCE (section 2.10.3.1: SP4_NONE).
    const Error& e = res.error();
    if (e.is_status(nfs4::NFS4ERR_NOTSUPP) || e.is_status(nfs4::NFS4ERR_OP_ILLEGAL)) co_return Result<>{};
    co_return fail(std::move(res.error()));
  }
  if (index == 0) back_channel_.store(res->resok4.bctsr_dir != nfs4::CDFS4_FORE);
  co_return Result<>{};
}

Task<Result<>> Session::reclaim(RecoveryChannel& channel) {
  if (!reclaim_owed_) co_return Result<>{};
  if (other_scope_) {
    keeper_->lose_all("the server is another one now");
  } else if (epoch() > 1) {
    NFSRDMA_CO_TRY(co_await keeper_->reclaim(channel, epoch()));
  }
  NFSRDMA_CO_TRY(co_await reclaim_complete(channel));
  reclaim_owed_ = other_scope_ = false;
  lease_.reclaimed();
  co_return Result<>{};
}

Task<Result<>> Session::reclaim_complete(RecoveryChannel& channel) {
  auto build = [](CompoundBuilder& b) { b.add(nfs4::RECLAIM_COMPLETE4args{.rca_one_fs = false}); };
  const Request request{
      .op = nfs4::OP_RECLAIM_COMPLETE, .credential = machine_, .cache_this = true, .build = build};
  Result<CompoundReply> reply = co_await channel.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  Result<> done = reply->expect<nfs4::RECLAIM_COMPLETE4res>();
  // An earlier recovery that was interrupted may have sent it already.
  if (!done && done.error().is_status(nfs4::NFS4ERR_COMPLETE_ALREADY)) co_return Result<>{};
  co_return done;
}

Task<Result<>> Session::destroy_session(bool patient) {
  nfs4::DESTROY_SESSION4args args{.dsa_sessionid = session_id_};
  auto build = [&](CompoundBuilder& b) { b.add(args); };
  for (bool bound = false;;) {
    Result<CompoundReply> reply = co_await run_alone(0, nfs4::OP_DESTROY_SESSION, build);
    if (!reply && reply.error().recovery == Recovery::kReconnect) {
      if (!patient) co_return fail(std::move(reply.error()));
      co_await Loop::current()->sleep(50ms);
      continue;
    }
    // Section 18.37.3: the connection must be bound to the session, and a new one is not bound yet.
    if (bound || !reply || reply->status() != nfs4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION) break;
    bound = true;
    (void)co_await bind(0);
  }
  have_session_ = false;  // whatever the answer is, it is not used any more
  co_return Result<>{};
}

}  // namespace nfsrdma::client::nfs4

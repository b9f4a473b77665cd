// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/registration.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include "client/nfs4/session/back_channel.h"
#include "client/nfs4/session/fore_channel.h"
#include "client/nfs4/session/recovery_pace.h"
#include "transport/runtime/log.h"

namespace nfsrdma::client::nfs4 {
namespace {

using namespace std::chrono_literals;

// Section 2.4: the verifier distinguishes this instance of the client from earlier ones.
nfs4::verifier4 verifier_of_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return nfs4::verifier4::of(static_cast<uint64_t>(now));
}

// The server refused the client ID in CREATE_SESSION.
bool refuses_client_id(const Error& e) {
  return e.is_status(nfs4::NFS4ERR_STALE_CLIENTID) || e.is_status(nfs4::NFS4ERR_EXPIRED) ||
         e.is_status(nfs4::NFS4ERR_SEQ_MISORDERED);
}

}  // namespace

Registration::Registration(RequestSender& sender, ServerIdentity& identity, Lease& lease,
                           const ClientOptions& options)
    : sender_(sender),
      identity_(identity),
      lease_(lease),
      options_(options),
      boot_verifier_(verifier_of_now()) {}

bool Registration::exists() const {
  const State now = state_.get();
  return now == State::kNew || now == State::kConfirmed || now == State::kSession;
}

void Registration::state_lost() {
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  if (owed_ == Owed::kNothing) owed_ = Owed::kReclaim;
  lease_.state_lost();
}

void Registration::reclaimed() {
  owed_ = Owed::kNothing;
  lease_.reclaimed();
}

Task<Result<nfs4::CREATE_SESSION4resok>> Registration::make_session(const StopFlag& stopping) {
  // Another iteration is needed only if the server lost our client ID in between, so a few are enough.
  constexpr int kMostIterations = 5;
  Backoff between(100ms, 1s);
  for (int iteration = 1;; ++iteration) {
    if (iteration > 2) co_await stopping.pause(between.next());
    if (!exists()) NFSRDMA_CO_TRY(co_await exchange_id());
    if (state() == State::kSession) NFSRDMA_CO_TRY(co_await destroy_session(false));
    Result<nfs4::CREATE_SESSION4resok> made = co_await create_session();
    if (made || !refuses_client_id(made.error())) co_return made;
    if (iteration == kMostIterations) co_return made;
    state_.enter(state() == State::kConfirmed ? State::kDoubted : State::kNone);
  }
}

Task<Result<>> Registration::exchange_id() {
  nfs4::EXCHANGE_ID4args args;
  args.eia_clientowner.co_verifier = boot_verifier_;
  args.eia_clientowner.co_ownerid = options_.client_name;
  args.eia_flags = 0;
  args.eia_state_protect.how = nfs4::SP4_NONE;
  auto build = [&](CompoundBuilder& b) { b.add(args); };
  Result<CompoundReply> reply = co_await sender_.run_alone(0, nfs4::OP_EXCHANGE_ID, build);
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
  const bool same = epoch() != 0 && ok.eir_clientid == id();
  const bool confirmed = (ok.eir_flags & nfs4::EXCHGID4_FLAG_CONFIRMED_R) != 0;
  // Section 18.35.3: eir_sequenceid is for a client ID that CREATE_SESSION has not confirmed yet.
  if (!same || !confirmed) create_sequence_ = ok.eir_sequenceid;
  // A new client ID, or one that is no longer confirmed: the server has lost our state.
  const bool was_confirmed = state() == State::kDoubted;
  if (!same || (!confirmed && was_confirmed)) {
    id_.store(ok.eir_clientid, std::memory_order_release);
    state_lost();
    state_.enter(State::kNew);
  } else {
    state_.enter(was_confirmed ? State::kConfirmed : State::kNew);
  }
  const bool same_scope = identity_.note(ok);
  // Section 8.4.2.1: "If the server scope is different, the client should not attempt to reclaim locks."
  if (epoch() > 1 && !same_scope && owed_ == Owed::kReclaim) owed_ = Owed::kLoss;
  co_return Result<>{};
}

Task<Result<nfs4::CREATE_SESSION4resok>> Registration::create_session() {
  nfs4::CREATE_SESSION4args args;
  args.csa_clientid = id();
  args.csa_sequence = create_sequence_;
  args.csa_flags = nfs4::CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
  args.csa_fore_chan_attrs = ForeChannel::offered();
  args.csa_back_chan_attrs = offered_back_channel();
  args.csa_cb_program = kCallbackProgram;
  nfs4::callback_sec_parms4 security;
  security.cb_secflavor = rpc::AUTH_SYS;
  security.cbsp_sys_cred.machinename = "nfsrdma-fuse";
  args.csa_sec_parms.push_back(security);
  auto build = [&](CompoundBuilder& b) { b.add(args); };
  Result<CompoundReply> reply = co_await sender_.run_alone(0, nfs4::OP_CREATE_SESSION, build);
  if (!reply) co_return fail(std::move(reply.error()));
  auto res = reply->take<nfs4::CREATE_SESSION4res>();
  // Section 18.36.4: the server's sequence ID advances with each reply that it caches, including errors. It
  // does not cache STALE_CLIENTID and SEQ_MISORDERED. After DELAY the same request is sent again (section
  // 15.1.1.3).
  const nfs4::nfsstat4 status = reply->status();
  if (status != nfs4::NFS4ERR_STALE_CLIENTID && status != nfs4::NFS4ERR_SEQ_MISORDERED &&
      status != nfs4::NFS4ERR_DELAY)
    create_sequence_ = create_sequence_ + 1;
  if (!res) co_return fail(std::move(res.error()));
  session_ = res->resok4.csr_sessionid;
  state_.enter(State::kSession);
  co_return res->resok4;
}

Task<Result<std::optional<bool>>> Registration::bind(unsigned index) {
  nfs4::BIND_CONN_TO_SESSION4args args;
  args.bctsa_sessid = identity_.session();
  args.bctsa_dir = nfs4::CDFC4_FORE_OR_BOTH;
  auto build = [&](CompoundBuilder& b) { b.add(args); };
  Result<CompoundReply> reply = co_await sender_.run_alone(index, nfs4::OP_BIND_CONN_TO_SESSION, build);
  if (!reply) co_return fail(std::move(reply.error()));
  auto res = reply->take<nfs4::BIND_CONN_TO_SESSION4res>();
  if (!res) {
    const Error& e = res.error();
    if (e.is_status(nfs4::NFS4ERR_NOTSUPP) || e.is_status(nfs4::NFS4ERR_OP_ILLEGAL))
      co_return std::optional<bool>{};
    co_return fail(std::move(res.error()));
  }
  co_return std::optional<bool>(res->resok4.bctsr_dir != nfs4::CDFS4_FORE);
}

Task<Result<>> Registration::destroy_session(bool patient) {
  nfs4::DESTROY_SESSION4args args{.dsa_sessionid = session_};
  auto build = [&](CompoundBuilder& b) { b.add(args); };
  for (bool bound = false;;) {
    Result<CompoundReply> reply = co_await sender_.run_alone(0, nfs4::OP_DESTROY_SESSION, build);
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
  state_.enter(State::kConfirmed);  // whatever the answer is, the session is not used any more
  co_return Result<>{};
}

Task<> Registration::destroy_all() {
  if (state() == State::kSession) co_await destroy_session(true);
  if (!exists()) co_return;
  nfs4::DESTROY_CLIENTID4args args{.dca_clientid = id()};
  auto build = [&](CompoundBuilder& b) { b.add(args); };
  Result<CompoundReply> reply = co_await sender_.run_alone(0, nfs4::OP_DESTROY_CLIENTID, build);
  while (!reply && reply.error().recovery == Recovery::kReconnect) {
    co_await Loop::current()->sleep(50ms);
    reply = co_await sender_.run_alone(0, nfs4::OP_DESTROY_CLIENTID, build);
  }
  if (reply) {
    Result<> destroyed = reply->expect<nfs4::DESTROY_CLIENTID4res>();
    if (!destroyed) log::debug("server {}: {}", options_.host, describe(destroyed.error()));
  }
  state_.enter(reply ? State::kDestroyed : State::kAbandoned);
}

}  // namespace nfsrdma::client::nfs4

// SPDX-License-Identifier: Apache-2.0
// Upkeep of a session, and its end: lease renewal, SEQ4_STATUS flags, readiness, shutdown. RFC 8881 sections
// 8.3, 18.37, 18.46.3, 18.50.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "client/nfs4/session/session.h"
#include "transport/runtime/deadline.h"
#include "transport/runtime/log.h"

namespace nfsrdma::client::nfs4 {
namespace {

using namespace std::chrono_literals;

// Attempts of confirm_lease(). After these, the flags are taken for permanent.
constexpr int kMostConfirmations = 30;

// Lengthens the pause while the same flags stay set although we have acted on them.
Duration longer(Duration pause, unsigned times) {
  return pause * (1 << std::min(times, 4u));
}

}  // namespace

void Session::set_lease(std::chrono::seconds lease) {
  lease_.set_period(lease);
  renew_timer_.cancel();
}

Task<> Session::renew_lease() {
  const Gate::Pass pass = gate_.enter();
  while (!stopping_) {
    const Duration period = std::max<Duration>(lease_.period() / 3, 500ms);
    co_await renew_timer_.wait_for(period);
    const TimePoint last{Duration(last_sequence_.load(std::memory_order_relaxed))};
    if (stopping_ || Clock::now() - last < period) continue;
    std::optional<SlotTicket> ticket = slots_.try_acquire_upkeep();
    if (!ticket) continue;
    if (ticket->uncertain) {
      co_await probe_slot(*ticket, Precedence::kRenewal);
      continue;
    }
    auto nothing = [](CompoundBuilder&) {};
    const Request request{.op = nfs4::OP_SEQUENCE, .credential = machine_, .build = nothing};
    CallSize size;
    Result<CompoundReply> reply = co_await attempt(0, request, *ticket, Precedence::kRenewal, size);
    if (!reply) {
      slots_.release(*ticket, size.transmissions == 0 ? SlotUse::kNotExecuted : SlotUse::kUncertain);
      continue;
    }
    if (judge(request, *reply, *ticket) == Verdict::kSameSlot) slots_.release(*ticket, SlotUse::kUncertain);
  }
}

void Session::owe_state() {
  reclaim_owed_ = true;
  lease_.state_lost();
}

Task<> Session::confirm_lease() {
  auto nothing = [](CompoundBuilder&) {};
  const TimePoint again{Duration(confirm_again_.load(std::memory_order_relaxed))};
  const int most = Clock::now() < again ? 1 : kMostConfirmations;
  for (int turn = 0; turn < most && !stopping_ && !lease_.holds(); ++turn) {
    if (turn != 0) co_await pause(100ms);
    const Request request{.op = nfs4::OP_SEQUENCE, .credential = machine_, .build = nothing};
    (void)co_await run(request);
  }
  const TimePoint later = Clock::now() + options_.flags_pause;
  if (!lease_.holds()) confirm_again_.store(later.time_since_epoch().count(), std::memory_order_relaxed);
}

// First, BIND_CONN_TO_SESSION binds the connection to the back channel. If that does not help (a server may
// create a back channel only with a session), a new session is created. If the back channel is down there,
// too, we hold no delegations, because the server could not recall them.
Task<> Session::mend_back_channel(uint64_t generation) {
  const unsigned before = back_channel_mendings_.fetch_add(1, std::memory_order_relaxed);
  if (before == 0) {
    Result<> bound = co_await bind(0);
    if (!bound) log::warn("server {}: no back channel: {}", options_.host, describe(bound.error()));
  } else if (before == 1) {
    co_await replace_session(generation);
  } else {
    if (before == 2)
      log::warn("server {}: no back channel, also in a new session: no delegations", options_.host);
    back_channel_.store(false);
    keeper_->cannot_be_recalled();
  }
}

Task<> Session::handle_status_flags(uint32_t flags, uint64_t generation) {
  using namespace nfs4;  // NOLINT: the flags
  const Gate::Pass pass = gate_.enter();
  const unsigned before = std::exchange(last_flags_, flags) == flags ? same_flags_.fetch_add(1) : 0;
  if (before == 0) {
    same_flags_.store(1);
    log::info("server {}: SEQUENCE status flags {:#x}", options_.host, flags);
  }
  if ((flags & SEQ4_STATUS_BACKCHANNEL_FAULT) != 0) {
    // Section 18.46.3: "The client MUST stop sending more requests on the session's fore channel, wait for
    // all outstanding requests to complete on the fore and back channel, and then destroy the session."
    co_await replace_session(generation);
  } else if ((flags & kNoBackChannel) != 0) {
    co_await mend_back_channel(generation);
  }
  const uint32_t revoked = flags & kRevokedFlags;
  if (revoked != 0) co_await keeper_->state_revoked(revoked == SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
  if ((flags & SEQ4_STATUS_LEASE_MOVED) != 0) {
    log::warn("server {}: it moved a file system elsewhere; mount that server instead", options_.host);
  }
  co_await pause(longer(options_.flags_pause, before));
  flags_in_hand_.store(false, std::memory_order_release);
}

void Session::reclaim_soon(uint64_t generation) {
  // A server may still set the flag right after RECLAIM_COMPLETE on the same connection. Ignore it for a
  // while.
  const int64_t now = Clock::now().time_since_epoch().count();
  if (now < no_reclaim_before_.load(std::memory_order_acquire) || !slots_.close(generation)) return;
  readiness_.set(false);
  lease_.state_lost();  // already while requests in flight are answered
  if (reclaims_in_a_row_.fetch_add(1) == 0)
    log::info("server {}: it restarted, and kept the session but no state; reclaiming", options_.host);
  loops_[0].spawn(reclaim_live());
}

Task<> Session::reclaim_live() {
  const Gate::Pass pass = gate_.enter();
  co_await outstanding_requests();
  epoch_.fetch_add(1);
  owe_state();
  co_await recover_live();
  const unsigned before = std::max(reclaims_in_a_row_.load(), 1u) - 1;
  const TimePoint pause = Clock::now() + longer(options_.flags_pause, before);
  if (!reclaim_owed_) no_reclaim_before_.store(pause.time_since_epoch().count(), std::memory_order_release);
}

Task<> Session::outstanding_requests() {
  // Stop waiting if the server stops responding or the connection is lost.
  while (!stopping_ && slots_.counts().in_use != 0 && connections_.responding()) co_await pause(10ms);
}

Task<> Session::replace_session(uint64_t generation) {
  if (!slots_.close(generation)) co_return;
  readiness_.set(false);
  log::write(same_flags_ > 1 ? log::Level::kDebug : log::Level::kInfo,
             "server {}: it lost the back channel; replacing the session",
             fmt::make_format_args(options_.host));
  co_await outstanding_requests();
  co_await recover_live();
}

Task<> Session::destroy_all() {
  const Gate::Pass pass = gate_.enter();
  auto guard = co_await recovery_mutex_.lock();
  // If the connection is lost now, wait for the next one; stop() limits the wait.
  if (have_session_) co_await destroy_session(true);
  if (!have_client_id_) co_return;
  nfs4::DESTROY_CLIENTID4args args{.dca_clientid = client_id()};
  auto build = [&](CompoundBuilder& b) { b.add(args); };
  Result<CompoundReply> reply = co_await run_alone(0, nfs4::OP_DESTROY_CLIENTID, build);
  while (!reply && reply.error().recovery == Recovery::kReconnect) {
    co_await Loop::current()->sleep(50ms);
    reply = co_await run_alone(0, nfs4::OP_DESTROY_CLIENTID, build);
  }
  if (reply) {
    Result<> destroyed = reply->expect<nfs4::DESTROY_CLIENTID4res>();
    if (!destroyed) log::debug("server {}: {}", options_.host, describe(destroyed.error()));
  }
  destroyed_ = reply.has_value();
  have_client_id_ = false;
}

Task<bool> Session::stop(Duration patience) {
  stopping_ = true;
  renew_timer_.cancel();
  slots_.shut_down();
  readiness_.wake();
  bool answered = true;
  if (have_client_id_) answered = co_await finish_within(loops_[0], destroy_all(), patience) && destroyed_;
  co_await connections_.close();
  co_await gate_.drained();
  co_return answered;
}

SessionStatistics Session::statistics() const {
  SessionStatistics s;
  identity_.fill(s);
  const SlotTable::Counts slots = slots_.counts();
  s.slots = slots.granted;
  s.slots_target = slots.target;
  s.slots_in_use = slots.in_use;
  s.max_request_bytes = max_request_bytes();
  s.max_response_bytes = max_response_bytes();
  s.max_operations = max_operations_.load();
  s.lease_seconds = static_cast<uint32_t>(lease_.period().count());
  s.back_channel = back_channel_.load();
  s.sessions_created = sessions_created_.load();
  s.client_ids_established = epoch();
  s.state_recoveries = recoveries_.load();
  return s;
}

}  // namespace nfsrdma::client::nfs4

// SPDX-License-Identifier: Apache-2.0
// Upkeep of a session, and its end: lease renewal, SEQ4_STATUS flags, shutdown. RFC 8881
// sections 8.3, 18.46.3.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "client/nfs4/session/session.h"
#include "transport/runtime/deadline.h"
#include "transport/runtime/log.h"

namespace nfsrdma::client::nfs4 {
namespace {

using namespace std::chrono_literals;

// How many SEQUENCEs confirm_lease() sends at most. Status flags that are still set then count as permanent.
constexpr int kMostConfirmations = 30;
// For RPCSEC_GSS_DESTROY of each context of loop 0.
constexpr Duration kEndOfSecurity = 1s;

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
  while (!stopping_.raised()) {
    const Duration period = std::max<Duration>(lease_.period() / 3, 500ms);
    co_await renew_timer_.wait_for(period);
    if (stopping_.raised() || Clock::now() - lease_.last_answer() < period) continue;
    std::optional<SlotTicket> ticket = slots_.try_acquire_upkeep();
    if (!ticket) continue;
    if (ticket->uncertain) {
      co_await probe_slot(*ticket, Precedence::kRenewal);
      continue;
    }
    auto nothing = [](CompoundBuilder&) {};
    const Request request{.op = nfs4::OP_SEQUENCE, .credential = machine_, .build = nothing};
    CallSize size;
    Result<CompoundReply> reply = co_await sender_.attempt(0, request, *ticket, Precedence::kRenewal, size);
    if (!reply) {
      slots_.release(*ticket, size.transmissions == 0 ? SlotUse::kNotExecuted : SlotUse::kUncertain);
      continue;
    }
    if (judge(request, *reply, *ticket) == Verdict::kSameSlot) slots_.release(*ticket, SlotUse::kUncertain);
  }
}

Task<> Session::confirm_lease() {
  auto nothing = [](CompoundBuilder&) {};
  const int most = lease_.lately_unconfirmed(Clock::now()) ? 1 : kMostConfirmations;
  for (int sent = 0; sent < most && !stopping_.raised() && !lease_.holds(); ++sent) {
    if (sent != 0) co_await stopping_.pause(100ms);
    const Request request{.op = nfs4::OP_SEQUENCE, .credential = machine_, .build = nothing};
    (void)co_await run(request);
  }
  if (!lease_.holds()) lease_.note_unconfirmed(Clock::now() + options_.flags_pause);
}

// First, BIND_CONN_TO_SESSION binds the connection to the back channel. If that does not help (a server may
// create a back channel only with a session), a new session is created. If the back channel is down there,
// too, we hold no delegations, because the server could not recall them.
Task<> Session::mend_back_channel(uint64_t generation) {
  const unsigned before = flags_.begin_back_channel_mending();
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
  const unsigned before = flags_.count(flags);
  if (before == 0) log::info("server {}: SEQUENCE status flags {:#x}", options_.host, flags);
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
  co_await stopping_.pause(longer(options_.flags_pause, before));
  flags_.end_handling();
}

void Session::reclaim_soon(uint64_t generation) {
  if (!flags_.heeds_reclaim(Clock::now()) || !close(generation)) return;
  lease_.state_lost();  // at once, before the requests in flight are answered
  if (flags_.begin_reclaim() == 0)
    log::info("server {}: it restarted, and kept the session but no state; reclaiming", options_.host);
  loops_[0].spawn(reclaim_live());
}

Task<> Session::reclaim_live() {
  const Gate::Pass pass = gate_.enter();
  co_await outstanding_requests();
  registration_.state_lost();
  co_await recover_live();
  const unsigned before = std::max(flags_.reclaims(), 1u) - 1;
  if (registration_.owed() == Owed::kNothing)
    flags_.ignore_reclaim_until(Clock::now() + longer(options_.flags_pause, before));
}

Task<> Session::outstanding_requests() {
  // Stop waiting if the server stops responding or the connection is lost.
  while (!stopping_.raised() && slots_.counts().in_use != 0 && connections_.responding())
    co_await stopping_.pause(10ms);
}

Task<> Session::replace_session(uint64_t generation) {
  if (!close(generation)) co_return;
  log::write(flags_.repeated() ? log::Level::kDebug : log::Level::kInfo,
             "server {}: it lost the back channel; replacing the session",
             fmt::make_format_args(options_.host));
  co_await outstanding_requests();
  co_await recover_live();
}

Task<> Session::destroy_all() {
  const Gate::Pass pass = gate_.enter();
  auto guard = co_await recovery_mutex_.lock();
  // If the connection is lost now, wait for the next one; stop() limits the wait.
  co_await registration_.destroy_all();
}

Task<bool> Session::stop(Duration patience) {
  stopping_.raise();
  renew_timer_.cancel();
  slots_.shut_down();
  readiness_.wake();
  bool answered = true;
  if (registration_.exists()) {
    answered = co_await finish_within(loops_[0], destroy_all(), patience) &&
               registration_.state() == Registration::State::kDestroyed;
  }
  // Only where the server answers: its contexts end by themselves.
  if (answered) (void)co_await finish_within(loops_[0], end_security(), kEndOfSecurity);
  co_await connections_.close();
  co_await gate_.drained();
  co_return answered;
}

Task<> Session::end_security() {
  const Gate::Pass pass = gate_.enter();
  auto ending = sender_.end_security();
  co_await std::move(ending);
}

SessionStatistics Session::statistics() const {
  SessionStatistics s;
  identity_.fill(s);
  const SlotTable::Counts slots = slots_.counts();
  s.slots = slots.granted;
  s.slots_target = slots.target;
  s.slots_in_use = slots.in_use;
  s.max_request_bytes = fore_channel_.request_bytes();
  s.max_response_bytes = fore_channel_.response_bytes();
  s.max_operations = fore_channel_.operations();
  s.lease_seconds = static_cast<uint32_t>(lease_.period().count());
  s.lease_holds = lease_.holds();
  s.back_channel = back_channel_.load();
  s.sessions_created = sessions_created_.load();
  s.client_ids_established = epoch();
  s.state_recoveries = recoveries_.load();
  if (sender_.secured()) {
    s.security = to_string(options_.flavor);
    s.contexts = sender_.contexts();
  }
  return s;
}

}  // namespace nfsrdma::client::nfs4

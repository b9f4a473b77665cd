// SPDX-License-Identifier: Apache-2.0
// What a session needs while it lives and when it ends: lease renewal, SEQ4_STATUS flags, readiness,
// shutdown. RFC 8881 sections 8.3, 18.37, 18.46.3, 18.50.
#include <algorithm>
#include <cerrno>

#include "client/nfs4/session.h"
#include "transport/runtime/deadline.h"
#include "transport/runtime/log.h"

namespace nfsrdma::client {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kRevoked =
    nfs4::SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED | nfs4::SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED |
    nfs4::SEQ4_STATUS_ADMIN_STATE_REVOKED | nfs4::SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
// The server could not recall what it has given: one lease later it may take it (section 10.4.5).
constexpr uint32_t kCannotRecall = nfs4::SEQ4_STATUS_CB_PATH_DOWN | nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION;
// What a server's lease_time is taken for at least and at most: none at all cannot be renewed, and times are
// reckoned with it.
constexpr std::chrono::seconds kShortestLease{1}, kLongestLease{24 * 3600};
// Of confirm_lease(): what a server says for longer is taken for what it says always.
constexpr int kMostConfirmations = 30;

// Flags that stay whatever is done are answered more and more slowly.
Duration longer(Duration pause, unsigned times) {
  return pause * (1 << std::min(times, 4u));
}

// Opaque data that is text for people; Linux' server counts the NUL behind its name in.
std::string without_nuls(std::string text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace

void Session::set_lease(std::chrono::seconds lease) {
  // A server may say "for ever", or nothing.
  lease = std::clamp<std::chrono::seconds>(lease, kShortestLease, kLongestLease);
  lease_seconds_.store(static_cast<uint32_t>(lease.count()));
  {
    std::lock_guard lock(lease_mutex_);
    lease_until_.store(0);  // as the renewal's timer, it was counted in the old one
  }
  renew_timer_.cancel();
}

Task<> Session::renew_lease() {
  const Gate::Pass pass = gate_.enter();
  while (!stopping_) {
    const Duration period = std::max<Duration>(std::chrono::seconds(lease_seconds_.load()) / 3, 500ms);
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

void Session::note_renewal(const nfs4::SEQUENCE4res& sequence, Duration sent) {
  if (sequence.status != nfs4::NFS4_OK) return;
  last_renewal_.store(sent.count(), std::memory_order_relaxed);
  const uint32_t flags = sequence.resok4.sr_status_flags;
  std::lock_guard lock(lease_mutex_);
  if ((flags & kRevoked) != 0) {
    // Nor do answers count that were overtaken by this one.
    lease_known_since_ = since_boot();
    lease_until_.store(0, std::memory_order_release);
  }
  if ((flags & (kRevoked | kCannotRecall)) != 0 || sent < lease_known_since_ || state_owed_) return;
  const Duration end = sent + std::chrono::seconds(lease_seconds_.load(std::memory_order_relaxed));
  const int64_t until = end.count();
  if (until > lease_until_.load(std::memory_order_relaxed))
    lease_until_.store(until, std::memory_order_release);
}

// Until everything that the server forgot is had back, or known to be lost, a lease that is renewed under
// another client ID says nothing of it (sections 8.3, 8.4.2).
void Session::owe_state() {
  reclaim_owed_ = true;
  believe_no_promise();
}

void Session::believe_no_promise() {
  std::lock_guard lock(lease_mutex_);
  state_owed_ = true;
  lease_known_since_ = since_boot();
  lease_until_.store(0, std::memory_order_release);
}

Task<> Session::confirm_lease() {
  auto nothing = [](CompoundBuilder&) {};
  const TimePoint again{Duration(confirm_again_.load(std::memory_order_relaxed))};
  const int most = Clock::now() < again ? 1 : kMostConfirmations;
  for (int turn = 0; turn < most && !stopping_ && !lease_holds(); ++turn) {
    if (turn != 0) co_await pause(100ms);
    const Request request{.op = nfs4::OP_SEQUENCE, .credential = machine_, .build = nothing};
    (void)co_await run(request);
  }
  const TimePoint later = Clock::now() + options_.flags_pause;
  if (!lease_holds()) confirm_again_.store(later.time_since_epoch().count(), std::memory_order_relaxed);
}

// BIND_CONN_TO_SESSION says that the connection has the back channel; where that does not help (a server may
// make one with a session only), a new session; and where it stays down in that, too, nothing that
// would need to be recalled is asked for.
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
  const uint32_t revoked = flags & kRevoked;
  if (revoked != 0) co_await keeper_->state_revoked(revoked == SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
  if ((flags & SEQ4_STATUS_LEASE_MOVED) != 0) {
    log::warn("server {}: it moved a file system elsewhere; mount that server instead", options_.host);
  }
  co_await pause(longer(options_.flags_pause, before));
  flags_in_hand_.store(false, std::memory_order_release);
}

void Session::reclaim_soon(uint64_t generation) {
  // A server that still says so right after RECLAIM_COMPLETE, on the same connection, is not believed each
  // time.
  const int64_t now = Clock::now().time_since_epoch().count();
  if (now < no_reclaim_before_.load(std::memory_order_acquire) || !slots_.close(generation)) return;
  set_ready(false);
  believe_no_promise();  // also not while what is under way is answered
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
  // A server that stops answering meanwhile, or a lost connection, ends the patience.
  while (!stopping_ && slots_.counts().in_use != 0 && responding()) co_await pause(10ms);
}

Task<> Session::replace_session(uint64_t generation) {
  if (!slots_.close(generation)) co_return;
  set_ready(false);
  log::write(same_flags_ > 1 ? log::Level::kDebug : log::Level::kInfo,
             "server {}: it lost the back channel; replacing the session",
             fmt::make_format_args(options_.host));
  co_await outstanding_requests();
  co_await recover_live();
}

void Session::set_ready(bool ready) {
  std::lock_guard lock(ready_mutex_);
  ready_ = ready;
  if (ready) ready_waiters_.notify_all();
}

Task<bool> Session::wait_ready() {
  for (;;) {
    std::unique_lock lock(ready_mutex_);
    if (stopping_) co_return false;
    if (ready_) co_return true;
    co_await ready_waiters_.wait(lock);
  }
}

Task<> Session::destroy_all() {
  const Gate::Pass pass = gate_.enter();
  auto guard = co_await recovery_mutex_.lock();
  // A connection that is lost just now comes back; stop() knows how long to wait for that.
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
  {
    std::lock_guard lock(ready_mutex_);
    ready_waiters_.notify_all();
  }
  bool answered = true;
  if (have_client_id_) answered = co_await finish_within(loops_[0], destroy_all(), patience) && destroyed_;
  for (unsigned i = 0; i < loops_.size(); ++i) {
    co_await loops_[i].resume_here();
    co_await transports_[i]->close();
  }
  co_await loops_[0].resume_here();
  co_await gate_.drained();
  co_return answered;
}

bool Session::responding() const {
  return std::all_of(transports_.begin(), transports_.end(),
                     [](const auto& t) { return t->status().responding; });
}

TimePoint Session::stalled_since() const {
  TimePoint oldest{};
  for (const auto& transport : transports_) {
    const rpc::TransportStatus s = transport->status();
    if (!s.responding && (oldest == TimePoint{} || s.stalled_since < oldest)) oldest = s.stalled_since;
  }
  return oldest;
}

std::vector<rpc::TransportStatus> Session::transport_status() const {
  std::vector<rpc::TransportStatus> all;
  for (const auto& transport : transports_) all.push_back(transport->status());
  return all;
}

SessionStatistics Session::statistics() const {
  SessionStatistics s;
  {
    std::lock_guard lock(info_mutex_);
    for (const std::byte b : session_copy_.data)
      s.session_id += fmt::format("{:02x}", std::to_integer<unsigned>(b));
    s.server_owner = without_nuls(server_owner_);
    s.server_scope = without_nuls(server_scope_);
    s.server_implementation = without_nuls(server_implementation_);
  }
  const SlotTable::Counts slots = slots_.counts();
  s.slots = slots.granted;
  s.slots_target = slots.target;
  s.slots_in_use = slots.in_use;
  s.max_request_bytes = max_request_bytes();
  s.max_response_bytes = max_response_bytes();
  s.max_operations = max_operations_.load();
  s.lease_seconds = lease_seconds_.load();
  s.back_channel = back_channel_.load();
  s.sessions_created = sessions_created_.load();
  s.client_ids_established = epoch();
  s.state_recoveries = recoveries_.load();
  return s;
}

}  // namespace nfsrdma::client

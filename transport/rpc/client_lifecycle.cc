// SPDX-License-Identifier: Apache-2.0
#include <asio/post.hpp>
#include <cerrno>
#include <random>
#include <utility>

#include "transport/rpc/client_transport.h"
#include "transport/runtime/check.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::rpc {

ClientTransport::ClientTransport(Loop& loop, std::unique_ptr<Dialer> dialer, ClientTransportOptions options,
                                 TransportHooks hooks)
    : loop_(loop),
      options_(std::move(options)),
      hooks_(std::move(hooks)),
      gate_(loop),
      dialer_(std::move(dialer)),
      calls_(std::random_device{}()),
      health_(options_.timeo, options_.retrans),
      backoff_(options_.backoff_first, options_.backoff_max),
      backoff_timer_(loop),
      watch_timer_(loop),
      protocol_(options_.protocol) {}

ClientTransport::~ClientTransport() {
  NFSRDMA_CHECK(gate_.inside() == 0 && "close() first");
}

Error ClientTransport::closed_error(const char* op) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kInterrupted,
          .errnum = EINTR,
          .op = op,
          .cause = "the transport is closed"};
}

void ClientTransport::note_error(const Error& error) {
  MutexLock lock(text_mutex_);
  last_error_ = describe(error);
}

Task<Result<>> ClientTransport::start() {
  NFSRDMA_CHECK(loop_.on_loop());
  if (closed()) co_return fail(closed_error("connect"));
  NFSRDMA_CHECK(state() == TransportState::kIdle);
  Result<> result = co_await attempt();
  if (!result && !closed()) state_.enter(TransportState::kIdle);
  co_return result;
}

// One attempt: connect, shake hands, send the waiting calls.
Task<Result<>> ClientTransport::attempt() {
  const Gate::Pass pass = gate_.enter();
  state_.enter(TransportState::kConnecting);
  ConnectionUse use{*this, calls_, counters_, gate_.enter()};
  Result<std::shared_ptr<Connection>> dialed = co_await dialer_->dial(std::move(use));
  if (!dialed) {
    if (closed()) co_return fail(closed_error("connect"));
    note_error(dialed.error());
    co_return fail(std::move(dialed).error());
  }
  const std::shared_ptr<Connection> connection = *std::move(dialed);
  connection_ = connection;
  Result<> result = closed() ? fail(closed_error("connect")) : Result<>{};
  if (result) result = co_await shake_hands(connection);
  if (!result) {
    connection->drop(result.error());
    if (connection_ == connection) {
      Completion<bool> gone;
      gone_ = &gone;
      co_await gone.wait();
    }
    co_return result;
  }
  ready();
  co_return Result<>{};
}

Task<Result<>> ClientTransport::shake_hands(std::shared_ptr<Connection> connection) {
  {
    MutexLock lock(text_mutex_);
    protocol_ = connection->protocol();
    tls_ = connection->tls();
    peer_ = connection->peer();
    local_ = connection->local();
  }
  counters_.connects.add();
  health_.connected(Clock::now());
  answered_ = false;
  state_.enter(TransportState::kHandshake);
  connection->begin();
  if (hooks_.on_connected) {
    Result<> handshake = co_await hooks_.on_connected(*this);
    if (!handshake) co_return handshake;
  }
  if (connection_ == connection && connection->open()) co_return Result<>{};
  // The connection was lost, and the hook did not notice.
  if (closed()) co_return fail(closed_error("connect"));
  co_return fail({.layer = Layer::kTransport,
                  .recovery = Recovery::kReconnect,
                  .errnum = ENOTCONN,
                  .op = "connect",
                  .cause = "the connection was lost during its handshake"});
}

void ClientTransport::ready() {
  state_.enter(TransportState::kReady);
  ready_since_ = Clock::now();
  for (PendingCall *p = calls_.oldest(), *next = nullptr; p != nullptr; p = next) {
    next = p->newer;  // a call that cannot be sealed leaves the table
    if (p->stage == PendingCall::Stage::kWaiting && !p->abandoned()) send(*p);
  }
  log::debug("server {}: connected, {} to {}", options_.host, connection_->local(), connection_->peer());
  end_abandoned_calls();
}

void ClientTransport::reconnect(const char* why) {
  NFSRDMA_CHECK(loop_.on_loop());
  if (const auto connection = connection_) {
    answered_ = false;  // the server's answer is the reason to reconnect: back off, do not connect again at
                        // once
    connection->drop({.layer = Layer::kTransport,
                      .recovery = Recovery::kReconnect,
                      .errnum = ECONNABORTED,
                      .op = "connection",
                      .cause = why});
  }
}

void ClientTransport::on_dropped(Connection& connection, Error why) {
  NFSRDMA_CHECK(connection_.get() == &connection);
  (void)connection;
  connection_.reset();
  calls_.connection_lost();
  note_error(why);
  if (!closed()) begin_again(std::move(why));  // else close() ends the calls
  if (Completion<bool>* gone = std::exchange(gone_, nullptr)) gone->set(true);
}

void ClientTransport::begin_again(Error why) {
  const bool was_ready = state() == TransportState::kReady;
  state_.enter(TransportState::kBackoff);
  if (was_ready) {
    if (const uint64_t n = losses_.hit()) {
      log::warn("server {}: {}; reconnecting ({} connections lost so far)", options_.host, describe(why), n);
    }
    loop_.spawn(recover(backoff_.lost(Clock::now() - ready_since_, answered_)));
  }
  why.op = "";  // end_calls() fills in each call's own
  why.recovery = Recovery::kReconnect;
  end_calls(why, [](const PendingCall& p) { return p.call->handshake; });
}

// Attempts to connect until one attempt succeeds. The timer defers even an attempt without delay to the event
// loop.
Task<> ClientTransport::recover(Duration delay) {
  const Gate::Pass pass = gate_.enter();
  while (!closed()) {
    state_.enter(TransportState::kBackoff);
    co_await backoff_timer_.wait_for(delay);
    if (closed()) break;
    Result<> result = co_await attempt();
    if (result) break;
    if (!closed()) log::debug("server {}: {}", options_.host, describe(result.error()));
    delay = backoff_.failed();
  }
}

// close() may be called in any state, and more than once.
Task<> ClientTransport::close() {
  NFSRDMA_CHECK(loop_.on_loop());
  state_.enter(TransportState::kClosed);
  dialer_->cancel();
  backoff_timer_.cancel();
  watch_timer_.cancel();
  const Error error = closed_error("");  // end_calls() fills in each call's own
  if (const auto connection = connection_) connection->drop(error);
  end_calls(error, [](const PendingCall&) { return true; });
  co_await gate_.drained();
  dialer_->closed();
}

// ---------------------------------------------------------------------------------------------------------
// The watch for a silent server. It sleeps until the earliest moment at which something could be late, not
// from call to call, and ends when no call is pending. So a call costs no timer.

void ClientTransport::start_watch() {
  if (std::exchange(watching_, true)) return;
  loop_.spawn(watch());
}

Task<> ClientTransport::watch() {
  const Gate::Pass pass = gate_.enter();
  Duration delay = health_.first_look();
  while (!closed()) {
    co_await watch_timer_.wait_for(delay);
    if (closed() || calls_.size() == 0) break;
    const TimePoint now = Clock::now();
    Health::Outstanding outstanding;
    outstanding.oldest_issued = calls_.oldest()->issued;
    for (PendingCall* p = calls_.oldest(); p != nullptr; p = p->newer) {
      if (p->stage == PendingCall::Stage::kWaiting) continue;
      if (!outstanding.oldest_queued) {
        outstanding.oldest_queued = p->queued;
        if (connection_ && connection_->has_moved(*p)) health_.bytes(now);
      }
      if (p->stage != PendingCall::Stage::kSent) continue;
      outstanding.oldest_sent = p->xid;
      break;
    }
    const Health::Verdict verdict = health_.check(now, outstanding);
    if (verdict.stalled_now) {
      stalled_since_.store(verdict.quiet_since.time_since_epoch().count(), std::memory_order_relaxed);
      responding_.store(false, std::memory_order_relaxed);
    }
    if (verdict.say_soon) log::warn("server {} not responding for 15 s, still trying", options_.host);
    if (verdict.say_now) log::warn("server {} not responding, still trying", options_.host);
    delay = std::max<Duration>(*verdict.next_check - now, std::chrono::milliseconds(1));
    if (const auto connection = connection_; connection && verdict.give_up) {
      connection->drop({.layer = Layer::kTransport,
                        .recovery = Recovery::kReconnect,
                        .errnum = ETIMEDOUT,
                        .op = "connection",
                        .cause = verdict.give_up});
    }
  }
  watching_ = false;
}

}  // namespace nfsrdma::rpc

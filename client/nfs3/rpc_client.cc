// SPDX-License-Identifier: Apache-2.0
#include "client/nfs3/rpc_client.h"

#include <cerrno>
#include <random>

#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs3 {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstPause = 100ms, kLongestPause = 10s;
constexpr Duration kIdle = std::chrono::hours(24);

Error interrupted(const char* op) {
  Error e = system_error(EIO, op, "the mount is ending");
  e.recovery = Recovery::kInterrupted;
  return e;
}

Error nobody_waits(const char* op) {
  Error e = system_error(EINTR, op, "nobody waits for it any more");
  e.recovery = Recovery::kInterrupted;
  return e;
}

}  // namespace

struct RpcClient::Pending {
  const char* op = "";
  RawCall call;
  uint32_t serial = 0;
  unsigned transmissions = 0;
  bool on_connection = false;
  TimePoint issued{}, queued{};
  Completion<Result<>> done;
};

RpcClient::RpcClient(Loop& loop, const client::ClientOptions& options, Hooks hooks)
    : loop_(loop),
      options_(options),
      hooks_(std::move(hooks)),
      health_(options.timeo, options.retrans),
      backoff_(kFirstPause, kLongestPause),
      pause_(loop),
      check_(loop),
      next_xid_(std::random_device{}()) {
  status_.protocol = "tcp";
}

RpcClient::~RpcClient() = default;

Task<Result<>> RpcClient::start() {
  Result<> done = co_await connect();
  if (!done) co_return done;
  started_ = true;
  watching_ = true;
  loop_.spawn(watch());
  co_return done;
}

Task<Result<>> RpcClient::connect() {
  {
    MutexLock lock(status_mutex_);
    status_.state = rpc::TransportState::kConnecting;
  }
  Result<net::Endpoint> server = co_await hooks_.find_server(loop_);
  if (!server) co_return fail(std::move(server.error()));
  RawConnection::Hooks hooks;
  hooks.on_end = [this](RawCall& call, RawEnd end, std::string text) { ended(call, end, std::move(text)); };
  hooks.on_lost = [this](std::string why) { lost(why); };
  auto connection = std::make_shared<RawConnection>(loop_, std::move(hooks));
  Result<> connected = co_await connection->connect(*server, kConnectLimit);
  if (!connected) {
    if (connected.error().cause.empty()) connected.error().cause = net::to_string(*server);
    co_return connected;
  }
  if (closing()) {
    connection->close("closing");
    co_return fail(interrupted("connect"));
  }
  connection_ = std::move(connection);
  ready_since_ = Clock::now();
  answered_ = false;
  health_.connected(ready_since_);
  MutexLock lock(status_mutex_);
  status_.state = rpc::TransportState::kReady;
  status_.peer = net::to_string(*server);
  status_.local = connection_->local();
  ++status_.connects;
  co_return Result<>{};
}

Task<RpcClient::Outcome> RpcClient::call(const char* op, RawCall call) {
  Outcome outcome;
  if (closing()) {
    outcome.result = fail(interrupted(op));
    co_return outcome;
  }
  if (call.is_abandoned()) {
    outcome.result = fail(nobody_waits(op));
    co_return outcome;
  }
  Pending p;
  p.op = op;
  p.call = std::move(call);
  p.call.xid = next_xid_++;
  p.serial = next_serial_++;
  p.issued = Clock::now();
  pending_.emplace(p.serial, &p);
  {
    MutexLock lock(status_mutex_);
    ++status_.calls;
    status_.pending = pending_.size();
  }
  if (connection_) send(p);
  if (std::exchange(idle_, false)) check_.cancel();
  outcome.result = co_await p.done.wait();
  outcome.transmissions = p.transmissions;
  outcome.response = Clock::now() - p.issued;
  co_return outcome;
}

void RpcClient::send(Pending& p) {
  p.queued = Clock::now();
  p.on_connection = true;
  if (++p.transmissions > 1) {
    MutexLock lock(status_mutex_);
    ++status_.retransmissions;
  }
  sent_.emplace(&p.call, &p);
  connection_->send(p.call);
}

void RpcClient::ended(RawCall& call, RawEnd end, std::string text) {
  const auto found = sent_.find(&call);
  if (found == sent_.end()) return;
  Pending& p = *found->second;
  sent_.erase(found);
  p.on_connection = false;
  if (end == RawEnd::kLost) return;  // reconnect() sends it again
  const TimePoint now = Clock::now();
  answered_ = true;
  health_.bytes(now);
  health_.answered(p.queued);
  if (health_.reply(now)) log::warn("server {} OK", options_.host);
  responding_.store(true, std::memory_order_relaxed);
  {
    MutexLock lock(status_mutex_);
    ++status_.replies;
    if (end == RawEnd::kRefused) ++status_.bad_messages;
  }
  if (end == RawEnd::kAnswered) return finish(p, {});
  Error error = system_error(EIO, p.op, std::move(text));
  error.layer = Layer::kRpc;
  finish(p, fail(std::move(error)));
}

void RpcClient::finish(Pending& p, Result<> result) {
  pending_.erase(p.serial);
  {
    MutexLock lock(status_mutex_);
    status_.pending = pending_.size();
  }
  p.done.set(std::move(result));
}

void RpcClient::end_abandoned() {
  for (auto next = pending_.begin(); next != pending_.end();) {
    Pending& p = *next++->second;
    if (!p.on_connection && p.call.is_abandoned()) finish(p, fail(nobody_waits(p.op)));
  }
}

void RpcClient::lost(const std::string& why) {
  connection_.reset();
  {
    MutexLock lock(status_mutex_);
    status_.state = rpc::TransportState::kBackoff;
    status_.last_error = why;
  }
  if (closing() || !started_ || reconnecting_) return;
  if (const uint64_t n = losses_.hit())
    log::warn("server {}: {}; reconnecting ({} connections lost so far)", options_.host, why, n);
  reconnecting_ = true;
  loop_.spawn(reconnect(backoff_.lost(Clock::now() - ready_since_, answered_)));
}

Task<> RpcClient::reconnect(Duration wait) {
  while (!closing()) {
    if (wait > Duration::zero()) co_await pause_.wait_for(wait);
    if (closing()) break;
    Result<> connected = co_await connect();
    if (!connected) {
      log::debug("server {}: {}", options_.host, describe(connected.error()));
      MutexLock lock(status_mutex_);
      status_.state = rpc::TransportState::kBackoff;
      status_.last_error = describe(connected.error());
      wait = backoff_.failed();
      continue;
    }
    hooks_.on_reconnected();
    end_abandoned();
    // send() does not change pending_: replies arrive later, from the loop.
    for (const auto& [serial, p] : pending_) {
      if (!connection_) break;
      if (!p->on_connection) send(*p);
    }
    if (connection_) break;
    wait = backoff_.failed();
  }
  MutexLock lock(stop_mutex_);
  reconnecting_ = false;
  stopped_.notify_all();
}

Task<> RpcClient::watch() {
  while (!closing()) {
    const TimePoint now = Clock::now();
    rpc::Health::Outstanding o;
    for (const auto& [serial, p] : pending_) {
      if (!o.oldest_issued) o.oldest_issued = p->issued;
      if (p->on_connection && (!o.oldest_queued || p->queued < *o.oldest_queued)) o.oldest_queued = p->queued;
    }
    const rpc::Health::Verdict verdict = health_.check(now, o);
    if (verdict.stalled_now) {
      responding_.store(false, std::memory_order_relaxed);
      MutexLock lock(status_mutex_);
      status_.stalled_since = verdict.quiet_since;
    }
    if (verdict.say_soon) log::warn("server {} not responding for 15 s, still trying", options_.host);
    if (verdict.say_now) log::warn("server {} not responding, still trying", options_.host);
    if (verdict.give_up != nullptr && connection_) {
      const auto connection = connection_;
      connection->close(verdict.give_up);
      lost(verdict.give_up);
    }
    idle_ = !verdict.next_check;
    const TimePoint next = verdict.next_check.value_or(now + kIdle);
    co_await check_.wait_until(std::max(next, now + 10ms));
  }
  MutexLock lock(stop_mutex_);
  watching_ = false;
  stopped_.notify_all();
}

Task<> RpcClient::close() {
  co_await loop_.resume_here();
  closing_ = true;
  pause_.cancel();
  check_.cancel();
  if (const auto connection = std::exchange(connection_, nullptr)) connection->close("closing");
  while (!pending_.empty()) {
    Pending& p = *pending_.begin()->second;
    const char* op = p.op;
    finish(p, fail(interrupted(op)));
  }
  for (;;) {
    MutexLock lock(stop_mutex_);
    if (!reconnecting_ && !watching_) break;
    co_await stopped_.wait(lock);
  }
  MutexLock lock(status_mutex_);
  status_.state = rpc::TransportState::kClosed;
}

TimePoint RpcClient::stalled_since() const {
  if (responding()) return {};
  MutexLock lock(status_mutex_);
  return status_.stalled_since;
}

rpc::TransportStatus RpcClient::status() const {
  MutexLock lock(status_mutex_);
  rpc::TransportStatus s = status_;
  s.responding = responding();
  if (s.responding) s.stalled_since = {};
  return s;
}

}  // namespace nfsrdma::client::nfs3

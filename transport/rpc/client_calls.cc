// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <utility>

#include "transport/rpc/call_message.h"
#include "transport/rpc/client_transport.h"
#include "transport/runtime/check.h"
#include "transport/runtime/mutex.h"
#include "xdr/rpc.h"

namespace nfsrdma::rpc {
namespace {

Error lost_error(const char* op) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kReconnect,
          .errnum = ENOTCONN,
          .op = op,
          .cause = "the connection was lost"};
}

Error bad_reply(const char* op, const char* cause) {
  return {.layer = Layer::kRpc, .recovery = Recovery::kPermanent, .errnum = EIO, .op = op, .cause = cause};
}

// Converts a complete reply message to a Reply, or to an error.
Result<Reply> open_reply(ReceivedReply& m, const char* op) {
  if (m.defect != nullptr) return fail(bad_reply(op, m.defect));
  xdr::Decoder x(m.head);
  reply_header header;
  if (!x(header)) return fail(bad_reply(op, x.failure()));
  NFSRDMA_TRY(check(header, op));
  Reply reply;
  reply.body = x.position();
  reply.head = std::move(m.head);
  reply.placed = m.placed;
  reply.bulk_length = m.bulk_length;
  reply.piped = m.piped;
  reply.pipe = std::move(m.pipe);
  return reply;
}

}  // namespace

Task<Outcome> ClientTransport::call(Call& call) {
  NFSRDMA_CHECK(loop_.on_loop());
  NFSRDMA_CHECK(call.head.size() >= kPrefixBytes);
  if (closed()) co_return Outcome{fail(closed_error(call.op)), 0};
  if (call.handshake && !(connection_ && connection_->open()))
    co_return Outcome{fail(lost_error(call.op)), 0};

  if (tapped()) call.sink.pipes = nullptr;  // the tap could not see data in a pipe
  PendingCall pending(call);
  calls_.add(pending, Clock::now());
  pending_.store(calls_.size(), std::memory_order_relaxed);
  counters_.calls.add();
  send_if_possible(pending);
  start_watch();
  co_return co_await pending.done.wait();
}

// Before the handshake is complete, only its own calls may be sent; ready() sends the others.
void ClientTransport::send_if_possible(PendingCall& p) {
  if (!connection_ || !connection_->open()) return;
  if (p.call->handshake || state() == TransportState::kReady) send(p);
}

void ClientTransport::send(PendingCall& p) {
  if (p.call->security != nullptr && !seal(p)) return;
  if (tapped()) tap_call(p);
  connection_->send(p);
}

// Removes `p`, which has its answer, from the pending calls, and notes that the server responds.
void ClientTransport::answered(PendingCall& p) {
  calls_.remove(p);
  pending_.store(calls_.size(), std::memory_order_relaxed);
  counters_.replies.add();
  answered_ = answered_ || !p.call->handshake;
  health_.answered(p.queued);
  if (health_.reply(Clock::now())) log::warn("server {} OK", options_.host);
  responding_.store(true, std::memory_order_relaxed);
}

void ClientTransport::on_reply(Connection& connection, ReceivedReply received) {
  PendingCall* p = calls_.find(received.xid);
  if (p == nullptr) return;
  if (tapped()) tap_reply(connection, *p, received);
  if (p->call->security != nullptr && !verify(connection, *p, received)) return;
  answered(*p);
  Result<Reply> reply = open_reply(received, p->call->op);
  if (!reply && reply.error().status == 0) {
    counters_.bad_messages.add();
    if (const uint64_t n = bad_messages_.hit()) {
      log::warn("server {}: unusable reply, xid {:#010x}: {} ({} bad messages so far)", options_.host,
                received.xid, describe(reply.error()), n);
    }
  }
  const unsigned transmissions = p->transmissions;
  p->done.set(Outcome{std::move(reply), transmissions});  // resumes the caller: nothing may follow
}

void ClientTransport::on_refused(Connection&, PendingCall& p, Error why) {
  answered(p);
  why.op = p.call->op;
  const unsigned transmissions = p.transmissions;
  p.done.set(Outcome{fail(std::move(why)), transmissions});  // resumes the caller: nothing may follow
}

void ClientTransport::on_bad_message(Connection&, const BadMessage& bad) {
  counters_.bad_messages.add();
  if (bad.stray) health_.stray_reply(Clock::now());
  const uint64_t n = bad_messages_.hit();
  if (n == 0) return;
  const char* then = bad.fatal ? "connection dropped" : "ignored";
  if (bad.xid) {
    log::warn("server {}: {}, xid {:#010x}; {} ({} bad messages so far)", options_.host, bad.what, *bad.xid,
              then, n);
  } else {
    log::warn("server {}: {}; {} ({} bad messages so far)", options_.host, bad.what, then, n);
  }
}

// ---------------------------------------------------------------------------------------------------------
// The back channel.

void ClientTransport::on_call(Connection& connection, uint32_t xid, ByteVector message) {
  if (tapped()) tap(false, connection, message);
  // A server that calls but does not read our replies must not fill our memory: waiting replies count, too.
  if (connection.callbacks_in_progress + connection.replies_queued() >= kMaxCallbacks) {
    constexpr const char* kFlood = "more calls from the server than may be outstanding";
    on_bad_message(connection, {kFlood, true, false, xid});
    return connection.drop({.layer = Layer::kTransport,
                            .recovery = Recovery::kReconnect,
                            .errnum = EPROTO,
                            .op = "connection",
                            .cause = kFlood});
  }
  if (!hooks_.on_call) return connection.send(reply_prog_unavail(xid));
  loop_.spawn(answer(connection.shared_from_this(), std::move(message)));
}

Task<> ClientTransport::answer(std::shared_ptr<Connection> connection, ByteVector message) {
  const Gate::Pass pass = gate_.enter();
  ++connection->callbacks_in_progress;
  ByteVector reply = co_await hooks_.on_call(*this, std::move(message));
  --connection->callbacks_in_progress;
  // RFC 8881 section 2.9.2: a reply goes out on the connection that brought the request, or not at all.
  if (!connection->open() || reply.empty()) co_return;
  if (tapped()) tap(true, *connection, reply);
  connection->send(std::move(reply));
}

// ---------------------------------------------------------------------------------------------------------

void ClientTransport::fail_pending(const Error& error) {
  NFSRDMA_CHECK(loop_.on_loop());
  end_calls(error, [](const PendingCall& p) { return !p.call->handshake; });
}

void ClientTransport::end_abandoned_calls() {
  const Error why{.layer = Layer::kTransport,
                  .recovery = Recovery::kInterrupted,
                  .errnum = EINTR,
                  .cause = "nobody waits for it any more"};
  end_calls(why, [](const PendingCall& p) { return p.abandoned(); });
}

// Removes all calls from the table first, then resumes their callers: calls that these make are not affected.
void ClientTransport::end_calls(const Error& error, const std::function<bool(const PendingCall&)>& which) {
  PendingCall* ended = nullptr;  // linked by `newer`, oldest first
  PendingCall** tail = &ended;
  for (PendingCall* p = calls_.oldest(); p != nullptr;) {
    PendingCall* next = p->newer;
    if (which(*p)) {
      if (connection_) connection_->forget(*p);
      calls_.remove(*p);
      *tail = p;
      tail = &p->newer;
    }
    p = next;
  }
  pending_.store(calls_.size(), std::memory_order_relaxed);
  while (ended != nullptr) {
    PendingCall* p = ended;
    ended = p->newer;
    Error mine = error;
    if (*mine.op == '\0') mine.op = p->call->op;
    p->done.set(Outcome{fail(std::move(mine)), p->transmissions});
  }
}

TransportStatus ClientTransport::status() const {
  TransportStatus s;
  s.state = state();
  s.calls = counters_.calls.get();
  s.replies = counters_.replies.get();
  s.retransmissions = counters_.retransmissions.get();
  s.connects = counters_.connects.get();
  s.bytes_sent = counters_.bytes_sent.get();
  s.bytes_received = counters_.bytes_received.get();
  s.bytes_placed = counters_.bytes_placed.get();
  s.bytes_spliced = counters_.bytes_spliced.get();
  s.bytes_copied = counters_.bytes_copied.get();
  s.bad_messages = counters_.bad_messages.get();
  s.pending = pending_.load(std::memory_order_relaxed);
  s.responding = responding_.load(std::memory_order_relaxed);
  s.stalled_since = TimePoint(TimePoint::duration(stalled_since_.load(std::memory_order_relaxed)));
  dialer_->describe(s);
  MutexLock lock(text_mutex_);
  s.protocol = protocol_;
  s.tls = tls_;
  s.peer = peer_;
  s.local = local_;
  s.last_error = last_error_;
  return s;
}

}  // namespace nfsrdma::rpc

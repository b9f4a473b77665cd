// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <utility>

namespace nfsrdma::tcp {
namespace {

// Pieces per sendmsg; IOV_MAX is 1024.
constexpr size_t kMaxPieces = 256;
// Calls given up whose reply may still come: several times what the slots of a session allow.
constexpr size_t kMostAbandoned = 1024;
// While more data can be received, new calls of callers that got replies are collected until this many bytes
// were received: a sendmsg costs far more than a recvmsg (4 us against 0.5 us on loopback, 2026-11-20).
constexpr size_t kFlushBytes = 256u << 10;
// After this many received bytes the loop first does other work.
constexpr size_t kReceiveTurnBytes = 4u << 20;
// For READ data that arrives fast: if this much came last and this much is missing, wake up for many bytes
// (at most kMaxLowWater), not for each segment.
constexpr size_t kStreamBytes = 64u << 10;
constexpr size_t kMaxLowWater = 256u << 10;

Error lost(int errnum, std::string cause) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kReconnect,
          .errnum = errnum,
          .op = "connection",
          .cause = std::move(cause)};
}

}  // namespace

TcpConnection::TcpConnection(Loop& loop, net::Connected connected, std::unique_ptr<tls::Stream> tls,
                             rpc::ConnectionUse use, Limits limits)
    : loop_(loop),
      owner_(use.owner),
      calls_(use.calls),
      counters_(use.counters),
      pass_(std::move(use.pass)),
      peer_(std::move(connected.peer)),
      local_(std::move(connected.local)),
      descriptor_(loop.context(), connected.socket.release()),
      tls_(std::move(tls)),
      due_(use.calls, limits.reader.direct_min_bytes),
      reader_(due_, limits.reader),
      queue_(limits.send_fragment_bytes) {}

std::string TcpConnection::tls() const {
  return tls_ ? tls_->description() + ", server " + tls_->peer() : std::string();
}

void TcpConnection::begin() {
  wait_readable();
}

void TcpConnection::drop(Error why) {
  if (!std::exchange(open_, false)) return;
  const auto keep_alive = shared_from_this();
  if (tls_) tls_->close();
  asio::error_code ignored;
  descriptor_.close(ignored);
  owner_.on_dropped(*this, std::move(why));
}

// ---------------------------------------------------------------------------------------------------------
// Receiving.

// A part of a TLS record may have left the socket already, so nothing is known of what is certain to come.
void TcpConnection::set_low_water() {
  if (tls_) return;
  const size_t left = reader_.window().direct.size();
  const bool stream = last_received_ >= kStreamBytes && left >= kStreamBytes;
  // Half of what came last: when the link gets slow, each wait asks for less.
  low_water_.set(descriptor_.native_handle(),
                 stream ? std::min({left, kMaxLowWater, last_received_ / 2}) : 1);
}

void TcpConnection::wait_readable() {
  set_low_water();
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = self()](const asio::error_code& ec) {
                           if (!ec) self->on_readable();
                         });
}

void TcpConnection::on_readable() {
  const Loop::Turn turn(loop_);
  const uint64_t begin = counters_.bytes_received.get();
  uint64_t flushed = begin;
  while (open_) {
    const Received received = receive();
    if (received == Received::kClosed) return;
    if (received != Received::kNothing) hand_out();
    const uint64_t now = counters_.bytes_received.get();
    if (received == Received::kMore && now - flushed < kFlushBytes) continue;
    flush();
    flushed = now;
    if (!open_) return;
    if (received != Received::kMore) return wait_readable();
    if (now - begin >= kReceiveTurnBytes) {
      asio::post(loop_.context(), [self = self()] { self->on_readable(); });
      return;
    }
  }
}

TcpConnection::Received TcpConnection::receive() {
  const RecordReader::Window window = reader_.window();
  if (window.pipe != nullptr && !tls_) {
    if (const auto received = receive_into_pipe(window)) return *received;
  }
  return receive_into_memory(window);
}

std::optional<TcpConnection::Received> TcpConnection::receive_into_pipe(const RecordReader::Window& window) {
  using Step = net::PipeFiller::Step;
  switch (filler_.fill(*window.pipe, descriptor_.native_handle(), window.direct.size())) {
    case Step::kSome:
      reader_.commit_piped(filler_.bytes());
      received(filler_.bytes());
      return filler_.bytes() < window.direct.size() ? Received::kDrained : Received::kMore;
    case Step::kNothing: return Received::kNothing;
    case Step::kFull: reader_.pipe_full(); return std::nullopt;
    case Step::kNotNow: return std::nullopt;
    case Step::kNever: reader_.leave_pipe(); return std::nullopt;
    case Step::kLost: break;
  }
  drop(lost(filler_.error(), {}));
  return Received::kClosed;
}

TcpConnection::Received TcpConnection::receive_into_memory(const RecordReader::Window& window) {
  const ssize_t n = tls_ ? tls_->receive(window.direct, window.staging)
                         : net::receive_into(descriptor_.native_handle(), window.direct, window.staging);
  if (n < 0) {
    if (errno == EAGAIN) return Received::kNothing;
    drop(lost(errno, tls_ ? tls_->failure() : std::string()));
    return Received::kClosed;
  }
  if (n == 0) {
    drop(lost(ECONNRESET, "the server closed the connection"));
    return Received::kClosed;
  }
  const auto bytes = static_cast<size_t>(n);
  reader_.commit(bytes);
  received(bytes);
  // Less than asked for: the socket was empty then, and wait_readable() reports data that came since. Of TLS
  // that says nothing.
  return bytes < window.size() && !tls_ ? Received::kDrained : Received::kMore;
}

void TcpConnection::received(size_t bytes) {
  last_received_ = bytes;
  counters_.bytes_received.add(bytes);
  owner_.on_bytes_received();
}

// Passes every complete message to the owner.
void TcpConnection::hand_out() {
  while (open_) {
    const RecordReader::Step step = reader_.next();
    counters_.bytes_placed.add(reader_.take_placed());
    counters_.bytes_spliced.add(reader_.take_spliced());
    counters_.bytes_copied.add(reader_.take_copied());
    switch (step) {
      case RecordReader::Step::kNeedBytes: return;
      case RecordReader::Step::kReply: owner_.on_reply(*this, std::move(reader_.message())); break;
      case RecordReader::Step::kCall: {
        const uint32_t xid = reader_.message().xid;
        owner_.on_call(*this, xid, std::move(reader_.message().head));
        break;
      }
      case RecordReader::Step::kStray: {
        const uint32_t xid = reader_.message().xid;
        owner_.on_bad_message(*this, {"reply to a call that was never made", false, true, xid});
        break;
      }
      case RecordReader::Step::kViolation: {
        std::optional<uint32_t> xid;
        if (reader_.xid_known()) xid = reader_.message().xid;
        owner_.on_bad_message(*this, {reader_.violation(), true, false, xid});
        return drop(lost(EPROTO, reader_.violation()));
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------------
// Sending.

void TcpConnection::send(PendingCall& call) {
  calls_.queued(call, Clock::now());
  queue_.push(call);
  queue_flush();
}

void TcpConnection::send(ByteVector reply) {
  queue_.push(std::move(reply));
  queue_flush();
}

void TcpConnection::forget(PendingCall& call) {
  reader_.abandon(call.xid);
  due_.forget(call);
  bool may_be_answered = call.stage == PendingCall::Stage::kSent;
  if (call.stage == PendingCall::Stage::kQueued) may_be_answered = queue_.forget(call);
  if (may_be_answered) due_.abandon(call.xid);
  if (due_.abandoned() <= kMostAbandoned) return;
  // Do not drop here: the caller may have to forget() more calls first.
  loop_.post(
      [self = self()] { self->drop(lost(ETIMEDOUT, "too many calls that were given up have no answer")); });
}

void TcpConnection::queue_flush() {
  if (std::exchange(flush_queued_, true)) return;
  loop_.at_end_of_turn<&TcpConnection::flush_queued>(self());
}

void TcpConnection::flush_queued() {
  flush_queued_ = false;
  flush();
}

ssize_t TcpConnection::send_some() {
  const std::span<iovec> pieces = queue_.front(kMaxPieces);
  if (tls_) return tls_->send(pieces);
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  return ::sendmsg(descriptor_.native_handle(), &message, MSG_NOSIGNAL);
}

void TcpConnection::flush() {
  while (open_ && !waits_writable_ && !queue_.empty()) {
    const ssize_t n = send_some();
    if (n >= 0) {
      counters_.bytes_sent.add(static_cast<uint64_t>(n));
      sent_ += static_cast<uint64_t>(n);
      queue_.advance(static_cast<size_t>(n), *this);
    } else if (errno == EAGAIN) {
      wait_writable();
    } else if (errno != EINTR) {
      return drop(lost(errno, tls_ ? tls_->failure() : std::string()));
    }
  }
  if (!open_ || waits_writable_ || !tls_ || tls_->flush()) return;
  if (errno != EAGAIN) return drop(lost(errno, tls_->failure()));
  wait_writable();
}

void TcpConnection::wait_writable() {
  waits_writable_ = true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_write,
                         [self = self()](const asio::error_code& ec) {
                           self->waits_writable_ = false;
                           if (!ec) self->flush();
                         });
}

void TcpConnection::first_byte_sent(PendingCall& call) {
  if (++call.transmissions > 1) counters_.retransmissions.add();
}

void TcpConnection::last_byte_sent(PendingCall& call) {
  due_.sent(call);
  call.end = sent_;
}

// The socket becomes readable only at low_water_, so bytes may lie there that were not reported yet.
bool TcpConnection::has_moved(const PendingCall& oldest) {
  int unacknowledged = 0, unread = 0;
  if (!open_ || ioctl(descriptor_.native_handle(), SIOCOUTQ, &unacknowledged) != 0 ||
      ioctl(descriptor_.native_handle(), FIONREAD, &unread) != 0)
    return false;
  const uint64_t taken = sent_ - std::min(sent_, static_cast<uint64_t>(unacknowledged));
  const bool leaving = oldest.stage == PendingCall::Stage::kQueued || oldest.end > taken;
  const bool moved = (leaving && taken > taken_) || unread > unread_;
  taken_ = taken;
  unread_ = unread;
  return moved;
}

}  // namespace nfsrdma::tcp

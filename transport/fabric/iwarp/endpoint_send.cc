// SPDX-License-Identifier: Apache-2.0
// EndpointCore: sending.
#include <sys/socket.h>

#include <cerrno>

#include "transport/fabric/iwarp/endpoint_core.h"
#include "transport/runtime/check.h"

namespace nfsrdma::fabric::iwarp {
namespace {

constexpr unsigned kMaxNudges = 5;

}  // namespace

// "MPA Responder mode implementations MUST receive and validate at least one FPDU before sending any FPDUs"
// (RFC 5044 section 7.1.2 rule 4). In kEnding only a Terminate can begin, after an FPDU was received.
bool EndpointCore::may_send() const {
  return active_ || reader_.frames() > 0 || state_ == State::kEnding;
}

void EndpointCore::send(std::span<const ConstBytes> parts, uint32_t invalidate, bool solicited) {
  if (!usable()) return;
  queue_.send(parts, invalidate, solicited);
  ++counters_.sends;
  if (invalidate != 0) ++counters_.sends_with_invalidate;
  queue_flush();
}

void EndpointCore::write(const rpcrdma::segment& target, ConstBytes source, Owner owner,
                         std::optional<Cookie> cookie) {
  NFSRDMA_CHECK(source.size() <= target.length);
  if (!usable()) return;
  queue_.write(target, source, std::move(owner), cookie);
  queue_flush();
}

void EndpointCore::read(MutableBytes target, const rpcrdma::segment& source, Owner owner, Cookie cookie) {
  NFSRDMA_CHECK(target.size() <= source.length);
  if (!usable()) return;
  if (agreed_.ord == 0) {
    return disconnect({.layer = Layer::kTransport,
                       .recovery = Recovery::kReconnect,
                       .errnum = EPROTO,
                       .op = "RDMA Read",
                       .cause = "the peer answers no RDMA Reads"});
  }
  reads_.push(target, source, std::move(owner), cookie);
  request_reads();
}

void EndpointCore::request_reads() {
  while (const auto request = reads_.next()) {
    queue_.read_request(*request);
    queue_flush();
  }
}

// All operations of one turn of the loop are sent together.
void EndpointCore::queue_flush() {
  if (std::exchange(flush_queued_, true)) return;
  loop_.at_end_of_turn<&EndpointCore::flush_queued>(shared_from_this());
}

void EndpointCore::flush_queued() {
  flush_queued_ = false;
  flush();
}

void EndpointCore::flush() {
  if (state_ == State::kClosed) return;
  transmit();
  if (state_ == State::kUp) hand_out_done();
  if (!receiving_ && !waits_writable_ && std::exchange(paused_, false)) wait_readable();
  if (state_ == State::kEnding && queue_.empty() && !std::exchange(shut_, true))
    ::shutdown(descriptor_.native_handle(), SHUT_WR);
}

void EndpointCore::transmit() {
  while (state_ != State::kClosed && !waits_writable_ && may_send() && !queue_.empty()) {
    const std::span<iovec> pieces = queue_.front();
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t n = ::sendmsg(descriptor_.native_handle(), &message, MSG_NOSIGNAL);
    if (n >= 0) {
      queue_.advance(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      wait_writable();
    } else if (errno != EINTR) {
      const Error why{
          .layer = Layer::kTransport, .recovery = Recovery::kReconnect, .errnum = errno, .op = "connection"};
      if (state_ == State::kEnding) return close();
      // Data already received, above all a Terminate, explains the end better than a broken pipe: read it
      // first.
      size_t bytes = 0;
      while (state_ == State::kUp && !receiving_ && receive(bytes) == Received::kMore) {
      }
      return end(why, std::nullopt, Ending::kLost);
    }
  }
}

void EndpointCore::hand_out_done() {
  SendQueue::Done done = queue_.take_done();
  counters_.bytes_written += done.bytes_written;
  counters_.bytes_fetched += done.bytes_fetched;
  for (const Cookie cookie : done.cookies) {
    if (state_ == State::kUp) events_->on_completed(cookie);
  }
}

void EndpointCore::wait_writable() {
  waits_writable_ = true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_write,
                         [self = shared_from_this()](const asio::error_code& ec) {
                           self->waits_writable_ = false;
                           if (!ec) self->flush();
                         });
}

void EndpointCore::arm_nudge() {
  if (options_.nudge_after.count() <= 0 || nudges_ >= kMaxNudges) return;
  timer_.expires_after(options_.nudge_after * (1u << nudges_));
  timer_.async_wait([self = shared_from_this()](const asio::error_code& ec) {
    if (ec || self->state_ != State::kUp || self->reader_.frames() > 0) return;
    ++self->nudges_;
    self->queue_.nudge();
    self->flush();
    self->arm_nudge();
  });
}

}  // namespace nfsrdma::fabric::iwarp

// SPDX-License-Identifier: Apache-2.0
// EndpointCore: receiving.
#include <sys/socket.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <cerrno>

#include "transport/fabric/iwarp/endpoint_core.h"

namespace nfsrdma::fabric::iwarp {
namespace {

// After this many received bytes the loop first does its other work.
constexpr size_t kTurnBytes = 4u << 20;
// While more data can be received, data to send is collected until this many bytes were received.
constexpr size_t kFlushBytes = 256u << 10;
// If the rest of a frame is at least this long, wait for all of it, not segment by segment.
constexpr size_t kMinLowWater = 8u << 10;

// While more than this many bytes wait for a peer that requests data and does not receive it, we do not read
// from that peer. The credits of RPC-over-RDMA allow far less.
constexpr size_t kMaxUnsentBytes = 4u << 20;

Error lost(int errnum, std::string cause) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kReconnect,
          .errnum = errnum,
          .op = "connection",
          .cause = std::move(cause)};
}

// The Terminate code for a tag's fault, for an RDMA Write and for an RDMA Read. RFC 5041 has no code for a
// missing access right: the STag counts as invalid.
TermCode write_fault(StagTable::Fault fault) {
  switch (fault) {
    case StagTable::Fault::kWrap: return term::kWrap;
    case StagTable::Fault::kBounds: return term::kBounds;
    default: return term::kInvalidStag;
  }
}
TermCode read_fault(StagTable::Fault fault) {
  switch (fault) {
    case StagTable::Fault::kWrap: return term::kReadWrap;
    case StagTable::Fault::kBounds: return term::kReadBounds;
    case StagTable::Fault::kAccess: return term::kReadAccess;
    default: return term::kReadInvalidStag;
  }
}

}  // namespace

Placement::Place EndpointCore::place(const Segment& s, size_t bytes) {
  if (s.opcode == Opcode::kReadResponse) return reads_.place(s, bytes);
  if (bytes == 0) return {};  // "For non-zero-length Tagged DDP Segments": siw's empty segments have tag 0
  const StagTable::Found found = tags_.find(s.stag, s.offset, bytes, TagUse::kRemoteWrite);
  if (found.fault != StagTable::Fault::kNone) return {nullptr, write_fault(found.fault), nullptr};
  return {found.at, std::nullopt, found.piped};
}

void EndpointCore::wait_readable() {
  const size_t certain = state_ == State::kUp ? reader_.payload_left() : 0;
  low_water_.set(descriptor_.native_handle(), certain >= kMinLowWater ? certain : 1);
  waits_readable_ = true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const asio::error_code& ec) {
                           self->waits_readable_ = false;
                           if (!ec) self->on_readable();
                         });
}

// A side that may not send before it has received keeps reading: otherwise neither side would ever start.
bool EndpointCore::clogged() const {
  return may_send() && queue_.owned_bytes() > kMaxUnsentBytes;
}

void EndpointCore::on_readable() {
  const Loop::Turn event(loop_);
  receiving_ = true;
  size_t turn = 0;
  size_t flushed = 0;
  Received received = Received::kMore;
  while (state_ == State::kUp && received == Received::kMore && turn < kTurnBytes && !clogged()) {
    received = receive(turn);
    if (turn - flushed < kFlushBytes) continue;
    flush();
    flushed = turn;
  }
  flush();
  receiving_ = false;
  if (state_ == State::kClosed) return;
  if (state_ == State::kEnding) return drain();
  if (clogged()) {
    paused_ = true;
    return;
  }
  if (received != Received::kMore) return wait_readable();
  waits_readable_ = true;
  asio::post(loop_.context(), [self = shared_from_this()] {
    self->waits_readable_ = false;
    if (self->state_ != State::kClosed) self->on_readable();
  });
}

EndpointCore::Received EndpointCore::receive(size_t& total) {
  const StreamReader::Window window = reader_.window();
  if (window.pipe != nullptr) {
    if (const auto received = receive_into_pipe(window, total)) return *received;
  }
  const ssize_t n = net::receive_into(descriptor_.native_handle(), window.direct, window.staging);
  if (n < 0 && errno == EAGAIN) return Received::kDrained;
  if (n <= 0) {
    const char* cut = reader_.inside_frame() ? "the peer closed the connection in the middle of a frame"
                                             : "the peer closed the connection";
    const int errnum = n == 0 ? ECONNRESET : errno;
    end(lost(errnum, n == 0 ? cut : ""), std::nullopt, Ending::kLost);
    return Received::kEnded;
  }
  const auto bytes = static_cast<size_t>(n);
  reader_.commit(bytes);
  total += bytes;
  hand_out();
  return bytes < window.size() ? Received::kDrained : Received::kMore;
}

std::optional<EndpointCore::Received> EndpointCore::receive_into_pipe(const StreamReader::Window& window,
                                                                      size_t& total) {
  using Step = net::PipeFiller::Step;
  switch (filler_.fill(*window.pipe, descriptor_.native_handle(), window.direct.size())) {
    case Step::kSome:
      reader_.commit_piped(filler_.bytes());
      total += filler_.bytes();
      hand_out();
      return filler_.bytes() < window.direct.size() ? Received::kDrained : Received::kMore;
    case Step::kNothing: return Received::kDrained;
    case Step::kFull: reader_.leave_pipe(true); return std::nullopt;
    case Step::kNotNow: return std::nullopt;
    case Step::kNever: reader_.leave_pipe(false); return std::nullopt;
    case Step::kLost: break;
  }
  end(lost(filler_.error(), {}), std::nullopt, Ending::kLost);
  return Received::kEnded;
}

// Discards the peer's data, so that the system finds nothing unread when the socket is closed.
void EndpointCore::drain() {
  std::byte scratch[16u << 10];
  for (int i = 0; i < 64; ++i) {
    const ssize_t n = ::recv(descriptor_.native_handle(), scratch, sizeof(scratch), 0);
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n < 0 && errno == EAGAIN) break;
    return close();
  }
  wait_readable();
}

// Delivers everything that is complete.
void EndpointCore::hand_out() {
  const bool silent = reader_.frames() == 0;
  while (state_ == State::kUp) {
    const StreamReader::Step step = reader_.next();
    if (silent && reader_.frames() > 0 && !queue_.empty()) queue_flush();  // may_send() is true from now on
    switch (step) {
      case StreamReader::Step::kNeedBytes: return;
      case StreamReader::Step::kSend: on_send(); break;
      case StreamReader::Step::kReadRequest: on_read_request(); break;
      case StreamReader::Step::kPlaced: on_placed(); break;
      case StreamReader::Step::kTerminate: on_terminate(); break;
      case StreamReader::Step::kViolation: violated(reader_.violation()); break;
    }
  }
}

void EndpointCore::on_send() {
  fabric::Received received{reader_.message(), 0};
  const uint32_t stag = invalidates(reader_.segment().opcode) ? reader_.segment().invalidate : 0;
  // A tag that we revoked while this Send was on its way is already closed: no violation.
  const bool revoked = tags_.take_revoked(stag);
  if (invalidates(reader_.segment().opcode) && !revoked) {
    const auto use = tags_.use_of(stag);
    if (!use) return violated(reader_.terminate_for(term::kReadInvalidStag));
    if (*use == TagUse::kReadSink) return violated(reader_.terminate_for(term::kCannotInvalidate));
    // The peer requested a Read of this memory and invalidates it before the response has been sent.
    if (queue_.sends_from(stag)) return violated(reader_.terminate_for(term::kCannotInvalidate));
    tags_.remove(stag);
    received.invalidated = stag;
    ++counters_.remotely_invalidated;
  }
  ++counters_.receives;
  events_->on_receive(received);
}

void EndpointCore::on_read_request() {
  const ReadRequest& r = reader_.read_request();
  // More than IRD requests: queue 1 has no buffer for them (RFC 5040 section 5.2.1, RFC 5041 section 7.1 rule
  // 2).
  if (queue_.read_responses() >= agreed_.ird) return violated(reader_.terminate_for(term::kNoBuffer));
  // The checks below are "For non-zero length RDMA Read Request Messages".
  if (r.bytes == 0) return queue_.read_response(r, {});
  if (r.sink_offset + r.bytes < r.sink_offset) return violated(reader_.terminate_for(term::kReadWrap));
  const auto found = tags_.find(r.source_stag, r.source_offset, r.bytes, TagUse::kRemoteRead);
  if (found.fault != StagTable::Fault::kNone) return violated(reader_.terminate_for(read_fault(found.fault)));
  queue_.read_response(r, {found.at, r.bytes});
}

void EndpointCore::on_placed() {
  const size_t bytes = reader_.placed_bytes();
  if (reader_.segment().opcode == Opcode::kWrite) {
    counters_.bytes_placed += bytes;
    return;
  }
  counters_.bytes_read += bytes;
  const auto complete = reads_.placed(bytes, reader_.segment().last);
  if (!complete) return;
  request_reads();
  events_->on_completed(*complete);
}

// "the RDMAP Stream is torn down": the message is never answered, whatever it says.
void EndpointCore::on_terminate() {
  const auto t = decode_terminate(reader_.message());
  std::string why = t ? to_string(t->code) : "for a reason that cannot be read";
  end({.layer = Layer::kTransport,
       .recovery = Recovery::kReconnect,
       .errnum = ECONNABORTED,
       .op = "RDMA",
       .cause = "the peer ended the connection: " + why},
      std::nullopt, Ending::kOrderly);
}

}  // namespace nfsrdma::fabric::iwarp

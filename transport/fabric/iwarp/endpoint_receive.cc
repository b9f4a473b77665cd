// SPDX-License-Identifier: Apache-2.0
// EndpointCore: what comes from the peer.
#include <sys/socket.h>

#include <asio/post.hpp>
#include <cerrno>

#include "transport/fabric/iwarp/endpoint_core.h"

namespace nfsrdma::fabric::iwarp {
namespace {

// After so many bytes the loop's other work gets its turn.
constexpr size_t kTurnBytes = 4u << 20;
// While more is there to be received, what is to be sent waits for company, up to so many bytes.
constexpr size_t kFlushBytes = 256u << 10;
// The rest of a frame, from so much on, is waited for as a whole, not segment by segment.
constexpr size_t kMinLowWater = 8u << 10;

// A peer that asks and does not take the answers is not listened to while more than this waits for it. Far
// more than the credits of RPC-over-RDMA let two peers that keep to them have under way.
constexpr size_t kMaxUnsentBytes = 4u << 20;

Error lost(int errnum, std::string cause) {
  return {Layer::kTransport, Recovery::kReconnect, errnum, 0, "connection", std::move(cause)};
}

// What a fault of a tag is called when an RDMA Write has it, and when an RDMA Read has it. RFC 5041 has no
// code for a missing access right; an STag that is not for this is invalid for it.
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
  if (bytes == 0) return {};  // "For non-zero-length Tagged DDP Segments": siw sends tag 0 with an empty one
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

// Who may not send before it has received goes on listening, or neither side would ever begin.
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
  const ssize_t n = tcp::receive_into(descriptor_.native_handle(), window.direct, window.staging);
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
  using Step = tcp::PipeFiller::Step;
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

// Nobody wants it any more; the system must not find it unread when the socket is closed.
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

// Gives away all that is complete.
void EndpointCore::hand_out() {
  const bool silent = reader_.frames() == 0;
  while (state_ == State::kUp) {
    const StreamReader::Step step = reader_.next();
    if (silent && reader_.frames() > 0 && !queue_.empty()) queue_flush();  // may_send() holds from now on
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
  // What was revoked while this was under way is as it wants it.
  const bool revoked = tags_.take_revoked(stag);
  if (invalidates(reader_.segment().opcode) && !revoked) {
    const auto use = tags_.use_of(stag);
    if (!use) return violated(reader_.terminate_for(term::kReadInvalidStag));
    if (*use == TagUse::kReadSink) return violated(reader_.terminate_for(term::kCannotInvalidate));
    // It has asked for a Read of this memory, and takes it back before the answer has left.
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
  // Beyond IRD there is no buffer on queue 1 (RFC 5040 section 5.2.1, RFC 5041 section 7.1 rule 2).
  if (queue_.read_responses() >= agreed_.ird) return violated(reader_.terminate_for(term::kNoBuffer));
  if (r.bytes == 0) return queue_.read_response(r, {});  // "For non-zero length RDMA Read Request Messages"
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

// "the RDMAP Stream is torn down": whatever it says, nothing is answered.
void EndpointCore::on_terminate() {
  const auto t = decode_terminate(reader_.message());
  std::string why = t ? to_string(t->code) : "for a reason that cannot be read";
  end({Layer::kTransport, Recovery::kReconnect, ECONNABORTED, 0, "RDMA",
       "the peer ended the connection: " + why},
      std::nullopt, Ending::kOrderly);
}

}  // namespace nfsrdma::fabric::iwarp

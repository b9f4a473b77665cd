// SPDX-License-Identifier: Apache-2.0
#include "filer/links/tcp_link.h"

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/socket_base.hpp>
#include <cerrno>
#include <utility>

#include "transport/net/connector.h"
#include "transport/runtime/log.h"
#include "transport/tls/starttls.h"
#include "xdr/rpc.h"

namespace nfsrdma::filer::links {

namespace {

constexpr size_t kReadBytes = 256u << 10;
// TCP keep-alive: a silent peer is probed after a minute, and the connection ends after two more probes
// without an answer.
constexpr std::chrono::seconds kPatience{60};
constexpr unsigned kRetries = 2;

// The message with record marks, in fragments of at most `fragment` bytes.
ByteVector framed(const ByteVector& message, size_t fragment) {
  ByteVector out;
  out.reserve(message.size() + rpc::kRecordMarkBytes * (message.size() / fragment + 1));
  size_t at = 0;
  do {
    const size_t n = std::min(fragment, message.size() - at);
    const auto mark = rpc::encode_record_mark({at + n == message.size(), static_cast<uint32_t>(n)});
    out.insert(out.end(), mark.begin(), mark.end());
    out.insert(out.end(), message.begin() + static_cast<ptrdiff_t>(at),
               message.begin() + static_cast<ptrdiff_t>(at + n));
    at += n;
  } while (at < message.size());
  return out;
}

}  // namespace

std::array<asio::const_buffer, 2> TcpLink::Outgoing::parts() const {
  const size_t marks = std::min(sent, mark_bytes);
  return {asio::buffer(mark.data(), mark_bytes) + marks, asio::buffer(bytes) + (sent - marks)};
}

TcpLink::TcpLink(Loop& loop, asio::ip::tcp::socket socket, LinkId id, LinkEvents events,
                 size_t max_record_bytes, size_t fragment_bytes, std::chrono::milliseconds patience,
                 std::shared_ptr<TlsDoor> tls)
    : loop_(loop),
      socket_(std::move(socket)),
      id_(id),
      events_(std::move(events)),
      reader_(max_record_bytes),
      fragment_bytes_(fragment_bytes),
      patience_(patience),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kReadBytes)),
      door_(std::move(tls)),
      taking_since_(Clock::now()),
      record_since_(taking_since_) {}

void TcpLink::start() {
  // Detects a peer that vanished silently, which would otherwise keep one of max_links for ever.
  const Result<> configured =
      net::configure(socket_.native_handle(), net::dead_peer_times(kPatience, kRetries));
  asio::error_code ec;
  socket_.non_blocking(true, ec);
  if (!configured || ec) return end_ol();
  read_ol();
}

// Runs `fn` on the loop at the end of its turn. Other threads must not touch the socket. What a callback of
// this link sends is written only after the callback has returned.
void TcpLink::on_loop(std::function<void()> fn) {
  loop_.at_end_of_turn([self = shared_from_this(), fn = std::move(fn)] { fn(); });
}

void TcpLink::read_ol() {
  if (ended_ || paused_ || reading_ || before_tls() || !held_.empty() || has_enough()) return;
  reading_ = true;
  if (tls_) return read_tls_ol();
  socket_.async_read_some(asio::buffer(buffer_.get(), kReadBytes),
                          [self = shared_from_this()](const asio::error_code& ec, size_t n) {
                            const Loop::Turn event(self->loop_);
                            self->reading_ = false;
                            if (self->ended_) return;  // ended while these bytes waited in the event queue
                            if (ec) return self->end_ol();
                            self->held_ = ConstBytes(self->buffer_.get(), n);
                            if (!self->paused_) self->received_ol();
                          });
}

void TcpLink::read_tls_ol() {
  const auto receive = [self = shared_from_this()](const asio::error_code& ec) {
    const Loop::Turn event(self->loop_);
    self->reading_ = false;
    if (self->ended_) return;
    const ssize_t n = ec ? 0 : self->tls_->receive({}, MutableBytes(self->buffer_.get(), kReadBytes));
    self->tls_may_have_more_ = n > 0;
    if (n < 0 && errno == EAGAIN) return self->read_ol();
    if (n <= 0) return self->end_ol();
    self->held_ = ConstBytes(self->buffer_.get(), static_cast<size_t>(n));
    if (!self->paused_) self->received_ol();
  };
  if (tls_may_have_more_) return loop_.post([receive] { receive({}); });
  socket_.async_wait(asio::socket_base::wait_read, receive);
}

// RFC 9289 section 4.1. The probe and its answer are the only messages in the clear; what does not belong to
// RPC-with-TLS is answered by the server as without a TlsDoor.
bool TcpLink::answer_without_tls_ol(ConstBytes message) {
  rpc::call_header call;
  xdr::Decoder x(message);
  if (!x(call) || call.rpcvers != rpc::kRpcVersion) return false;
  if (tls::is_probe(call)) {
    // Section 5.1.1: "If spurious traffic appears on a TCP connection between the initial cleartext AUTH_TLS
    // probe and the TLS session handshake, receivers MUST discard that data without response and then SHOULD
    // drop the connection."
    if (!held_.empty()) {
      end_ol();
      return true;
    }
    send(tls::offer(call.xid));
    on_loop([this] { begin_tls_ol(); });
    tls_state_ = TlsState::kPromised;
    return true;
  }
  if (!door_->required() || call.proc == 0) return false;
  ByteVector refused;
  xdr::Encoder out(refused);
  (void)out(rpc::reply_header{
      .xid = call.xid, .stat = rpc::MSG_DENIED, .denied = rpc::AUTH_ERROR, .why = rpc::AUTH_TOOWEAK});
  send(std::move(refused));
  return true;
}

// The answer to the probe has been written, unless the client does not take even that.
void TcpLink::begin_tls_ol() {
  if (ended_) return;
  if (!queue_.empty()) return end_ol();
  Result<std::unique_ptr<tls::Stream>> stream =
      tls::Stream::accept(door_->context(), socket_.native_handle());
  if (!stream) return end_ol();
  tls_ = *std::move(stream);
  tls_state_ = TlsState::kHandshake;
  shake_hands_ol();
}

void TcpLink::shake_hands_ol() {
  if (ended_) return;
  const Result<tls::Stream::Step> step = tls_->handshake();
  if (!step) {
    log::info("filer: connection {} from {}: {}", id_, standing.address, describe(step.error()));
    return end_ol();
  }
  if (*step == tls::Stream::Step::kDone) {
    log::debug("filer: connection {}: {}, client {}", id_, tls_->description(), tls_->peer());
    tls_state_ = TlsState::kSecured;
    tls_may_have_more_ = true;
    write_ol();
    return read_ol();
  }
  socket_.async_wait(
      *step == tls::Stream::Step::kWantsRead ? asio::socket_base::wait_read : asio::socket_base::wait_write,
      [self = shared_from_this()](const asio::error_code&) {
        const Loop::Turn event(self->loop_);
        self->shake_hands_ol();
      });
}

void TcpLink::received_ol() {
  while (!has_enough() && !before_tls()) {
    auto message = reader_.take(held_);
    if (!message) break;
    ++records_;
    if (door_ && !tls_ && answer_without_tls_ol(*message)) {
      if (ended_) return;
      continue;
    }
    events_.on_message(shared_from_this(), std::move(*message));
    if (ended_) return;
  }
  if (reader_.broken()) {
    log::debug("filer: connection {} sent a broken record", id_);
    return end_ol();
  }
  tell_held_ol();
  if (!ended_) read_ol();
}

// Continues with bytes received while the send queue was full.
void TcpLink::go_on_ol() {
  if (!ended_ && !paused_ && !reading_ && !has_enough()) received_ol();
}

void TcpLink::send(ByteVector message, BulkPlaces) {
  if (fragment_bytes_ != 0 && fragment_bytes_ < message.size())
    return send_raw(framed(message, fragment_bytes_));
  // One fragment: the mark is sent in front of the message without a copy.
  auto shared = std::make_shared<Outgoing>();
  shared->mark = rpc::encode_record_mark({true, static_cast<uint32_t>(message.size())});
  shared->mark_bytes = shared->mark.size();
  shared->bytes = std::move(message);
  queue(shared);
}

void TcpLink::send_raw(ByteVector bytes) {
  queue(std::make_shared<Outgoing>(Outgoing{{}, 0, std::move(bytes), 0}));
}

void TcpLink::queue(std::shared_ptr<Outgoing> record) {
  promised_bytes_ += record->size();
  on_loop([this, record] {
    promised_bytes_ -= record->size();
    queue_ol(std::move(*record));
    go_on_ol();
  });
}

void TcpLink::queue_ol(Outgoing record) {
  if (ended_ || closing_) return;
  queued_bytes_ += record.size();
  if (queued_bytes_ > kMaxQueuedBytes) return end_ol();
  queue_.push_back(std::move(record));
  write_ol();
  tell_held_ol();
}

size_t TcpLink::write_some_ol(const Outgoing& record, asio::error_code& ec) {
  const std::array<asio::const_buffer, 2> parts = record.parts();
  if (!tls_) return socket_.write_some(parts, ec);
  std::array<iovec, 2> pieces{};
  for (size_t i = 0; i < parts.size(); ++i) pieces[i] = {const_cast<void*>(parts[i].data()), parts[i].size()};
  const ssize_t n = tls_->send(pieces);
  if (n >= 0) return static_cast<size_t>(n);
  ec = errno == EAGAIN ? asio::error_code(asio::error::would_block)
                       : asio::error_code(errno, asio::system_category());
  return 0;
}

// Writes to the socket directly and waits for an event only when it is full.
void TcpLink::write_ol() {
  if (tls_state_ == TlsState::kHandshake) return;
  while (!writing_ && !ended_ && (!queue_.empty() || (tls_ && !tls_->flush()))) {
    if (queue_.empty()) {
      if (errno != EAGAIN) return end_ol();
      wait_writable_ol();
      break;
    }
    Outgoing& next = queue_.front();
    asio::error_code ec;
    const size_t n = write_some_ol(next, ec);
    if (ec && ec != asio::error::would_block) return end_ol();
    next.sent += n;
    sent_bytes_ += n;
    if (next.sent == next.size()) {
      queued_bytes_ -= next.size();
      queue_.pop_front();
      continue;
    }
    if (ec || !tls_) wait_writable_ol();  // TLS takes no more than a record at a time
  }
  if (closing_ && queue_.empty() && !writing_) end_ol();
}

void TcpLink::wait_writable_ol() {
  writing_ = true;
  socket_.async_wait(asio::socket_base::wait_write, [self = shared_from_this()](const asio::error_code&) {
    const Loop::Turn event(self->loop_);
    self->writing_ = false;
    self->write_ol();
    self->go_on_ol();
  });
}

void TcpLink::close(bool abort) {
  on_loop([this, abort] {
    if (ended_) return;
    asio::error_code ignored;
    if (abort) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    if (abort || tls_state_ == TlsState::kHandshake) return end_ol();
    closing_ = true;
    write_ol();
  });
}

size_t TcpLink::held_bytes() const {
  return ended_ ? 0 : queued_bytes_ + promised_bytes_ + reader_.held_bytes();
}

// Reports in steps of 64 KiB, because the server sums all links up at each report.
void TcpLink::tell_held_ol() {
  constexpr size_t kStep = 64u << 10;
  const size_t held = held_bytes();
  if (ended_ || !events_.on_held || (held < told_held_ + kStep && held + kStep > told_held_)) return;
  told_held_ = held;
  events_.on_held(shared_from_this());
}

void TcpLink::look(TimePoint now) {
  if (ended_) return;
  if (queue_.empty() || sent_bytes_ != seen_sent_) taking_since_ = now;
  if ((!reader_.inside_record() && !before_tls()) || records_ != seen_records_ || paused_ || has_enough())
    record_since_ = now;
  seen_sent_ = sent_bytes_;
  seen_records_ = records_;
  const bool taking = now - taking_since_ <= patience_;
  if (taking && now - record_since_ <= patience_) return;
  log::debug("filer: connection {}: {}", id_,
             taking ? "a record is not finished" : "the client does not take its answers");
  close(true);
}

void TcpLink::pause_reading(bool pause) {
  on_loop([this, pause] {
    paused_ = pause;
    if (!pause && !ended_) received_ol();
  });
}

void TcpLink::end_ol() {
  if (ended_) return;
  ended_ = true;
  if (tls_) tls_->close();
  asio::error_code ignored;
  socket_.close(ignored);
  events_.on_closed(shared_from_this());
  // Only handlers of operations in progress may still hold this object; nothing calls the events any more.
  events_ = {};
}

}  // namespace nfsrdma::filer::links

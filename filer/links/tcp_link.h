// SPDX-License-Identifier: Apache-2.0
// TcpLink: one accepted TCP connection.
//
// It reads on its loop and calls `on_message` there for each RPC message; `on_closed` comes last, exactly
// once. Sends may come from any thread and keep their order. While more than kEnoughQueuedBytes wait to be
// sent, it reads no more from the peer and delivers no more calls. Callbacks and calls that waited may still
// add to the queue, up to kMaxQueuedBytes; beyond that the connection ends. It also ends if the peer receives
// nothing of the queue, or leaves a record unfinished, for `patience`. Sent records may be split into small
// fragments, so that tests see clients reassemble them.
//
// With a TlsDoor the link answers a client's AUTH_TLS probe itself, and then carries everything within TLS.
#pragma once

#include <array>
#include <asio/ip/tcp.hpp>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "filer/links/link.h"
#include "filer/links/record_reader.h"
#include "filer/links/tls_door.h"
#include "transport/runtime/loop.h"
#include "transport/tls/stream.h"
#include "xdr/record_mark.h"

namespace nfsrdma::filer::links {

class TcpLink : public Link, public std::enable_shared_from_this<TcpLink> {
 public:
  static constexpr size_t kEnoughQueuedBytes = 4u << 20;
  static constexpr size_t kMaxQueuedBytes = 96u << 20;

  // `tls`: null if the server has none.
  TcpLink(Loop& loop, asio::ip::tcp::socket socket, LinkId id, LinkEvents events, size_t max_record_bytes,
          size_t fragment_bytes, std::chrono::milliseconds patience, std::shared_ptr<TlsDoor> tls);

  // Loop thread.
  void start();

  LinkId id() const override { return id_; }
  using Link::send;
  void send(ByteVector message, BulkPlaces items) override;
  void send_raw(ByteVector bytes) override;
  void close(bool abort) override;
  size_t held_bytes() const override;
  void look(TimePoint now) override;
  void pause_reading(bool pause) override;

 private:
  // A record to send. `mark` is used for the first `mark_bytes` bytes; 0 if `bytes` has its own marks.
  struct Outgoing {
    std::array<std::byte, rpc::kRecordMarkBytes> mark;
    size_t mark_bytes;
    ByteVector bytes;
    size_t sent = 0;
    std::array<asio::const_buffer, 2> parts() const;  // what is not sent yet
    size_t size() const { return mark_bytes + bytes.size(); }
  };

  void read_ol();
  void read_tls_ol();
  void received_ol();
  // A message that came without TLS, where the server has it. True: it was answered here.
  bool answer_without_tls_ol(ConstBytes message);
  void begin_tls_ol();
  void shake_hands_ol();
  size_t write_some_ol(const Outgoing& record, asio::error_code& ec);
  void go_on_ol();
  void queue(std::shared_ptr<Outgoing> record);
  void queue_ol(Outgoing record);
  void write_ol();
  void wait_writable_ol();
  void end_ol();
  void tell_held_ol();
  void on_loop(std::function<void()> fn);
  bool before_tls() const { return tls_state_ == TlsState::kPromised || tls_state_ == TlsState::kHandshake; }
  bool has_enough() const { return queued_bytes_ + promised_bytes_ > kEnoughQueuedBytes; }

  Loop& loop_;
  asio::ip::tcp::socket socket_;
  const LinkId id_;
  LinkEvents events_;
  RecordReader reader_;
  const size_t fragment_bytes_;
  const std::chrono::milliseconds patience_;
  // The size is kReadBytes. Untouched pages take no memory, so an idle connection costs none.
  const std::unique_ptr<std::byte[]> buffer_;
  std::deque<Outgoing> queue_;
  size_t queued_bytes_ = 0;
  std::atomic<size_t> promised_bytes_{0};  // passed to send() but not yet queued on the loop
  bool writing_ = false;
  bool closing_ = false;  // close when the queue is empty
  bool ended_ = false;
  bool paused_ = false;
  ConstBytes held_;  // received bytes in buffer_ that are not parsed yet
  bool reading_ = false;
  const std::shared_ptr<TlsDoor> door_;
  std::unique_ptr<tls::Stream> tls_;  // set: nothing is sent or received without it
  // kPromised: the offer is being sent, and nothing is read behind the probe. kHandshake: the handshake alone
  // uses the socket; replies to calls before the probe wait.
  enum class TlsState : uint8_t { kNone, kPromised, kHandshake, kSecured };
  TlsState tls_state_ = TlsState::kNone;
  bool tls_may_have_more_ = false;  // received bytes that the socket does not report any more
  size_t told_held_ = 0;
  uint64_t sent_bytes_ = 0;
  uint64_t records_ = 0;
  // The two counters at the last look(), and the last times when they had changed or nothing was expected.
  uint64_t seen_sent_ = 0;
  uint64_t seen_records_ = 0;
  TimePoint taking_since_;
  TimePoint record_since_;
};

}  // namespace nfsrdma::filer::links

// SPDX-License-Identifier: Apache-2.0
// TcpLink: one accepted TCP connection.
//
// Reads on its loop and hands every RPC message to `on_message` there; `on_closed` comes last, exactly once.
// Sends from any thread, gathered and in order. While more than kEnoughQueuedBytes wait for the peer to read,
// nothing more of his is read or handed on; what comes of itself (callbacks, calls that waited) costs memory
// up to kMaxQueuedBytes, then the connection. A peer that takes nothing of what waits for it, or leaves a
// record unfinished, for `patience` loses the connection. Fragments of sent records may be made small, so
// that clients see records in many pieces.
#pragma once

#include <array>
#include <asio/ip/tcp.hpp>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "filer/net/link.h"
#include "filer/net/record_reader.h"
#include "transport/runtime/loop.h"
#include "xdr/record_mark.h"

namespace nfsrdma::filer {

class TcpLink : public Link, public std::enable_shared_from_this<TcpLink> {
 public:
  static constexpr size_t kEnoughQueuedBytes = 4u << 20;
  static constexpr size_t kMaxQueuedBytes = 96u << 20;

  TcpLink(Loop& loop, asio::ip::tcp::socket socket, LinkId id, LinkEvents events, size_t max_record_bytes,
          size_t fragment_bytes, std::chrono::milliseconds patience);

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
  void read_ol();
  void received_ol();
  // A record: its mark, where `bytes` does not hold marks already, and what it is of.
  struct Outgoing {
    std::array<std::byte, rpc::kRecordMarkBytes> mark;
    size_t mark_bytes;
    ByteVector bytes;
    size_t sent = 0;
    std::array<asio::const_buffer, 2> parts() const;  // what is left
    size_t size() const { return mark_bytes + bytes.size(); }
  };
  void go_on_ol();
  void queue(std::shared_ptr<Outgoing> record);
  void queue_ol(Outgoing record);
  void write_ol();
  void end_ol();
  void tell_held_ol();
  void on_loop(std::function<void()> fn);
  bool has_enough() const { return queued_bytes_ + promised_bytes_ > kEnoughQueuedBytes; }

  Loop& loop_;
  asio::ip::tcp::socket socket_;
  const LinkId id_;
  LinkEvents events_;
  RecordReader reader_;
  const size_t fragment_bytes_;
  const std::chrono::milliseconds patience_;
  // Of kReadBytes, whose pages come with what is received: an idle connection takes none.
  const std::unique_ptr<std::byte[]> buffer_;
  std::deque<Outgoing> queue_;
  size_t queued_bytes_ = 0;
  std::atomic<size_t> promised_bytes_{0};  // sent, and not queued yet
  bool writing_ = false;
  bool closing_ = false;  // after the queue is empty
  bool ended_ = false;
  bool paused_ = false;
  ConstBytes held_;  // of buffer_: has come, and has not been looked at
  bool reading_ = false;
  size_t told_held_ = 0;
  uint64_t sent_bytes_ = 0;
  uint64_t records_ = 0;
  // As look() saw them last, and when they were others, or nothing was to be expected.
  uint64_t seen_sent_ = 0;
  uint64_t seen_records_ = 0;
  TimePoint taking_since_;
  TimePoint record_since_;
};

}  // namespace nfsrdma::filer

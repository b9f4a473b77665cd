// SPDX-License-Identifier: Apache-2.0
// Responder: the server's end of one RPC-over-RDMA connection, for versions 1 and 2, over any fabric.
//
//   calls     responder_receive.cc   decodes the header, fetches Read chunks, passes on the whole call
//   replies   responder_send.cc      data items into Write chunks, the rest inline or into the Reply chunk
//
// The first message decides the version of the connection: a reply has the version of its call
// (draft-cel-nfsv4-rpcrdma-version-two-09 section 7.3). The Responder also sends calls in the reverse
// direction, inline, within the client's credits (RFC 8167).
//
// A length that the peer only announces costs no memory. Memory for a call is taken as its RDMA Reads are
// posted: at most kFirstWindow bytes before the first of them is answered (kSessionWindow after
// full_credits()), and more only as bytes arrive. All calls being fetched take at most max_fetch_bytes
// together, but one call is always fetched. A peer loses the connection if it leaves an RDMA Read unanswered
// for read_deadline, if it sends more calls than it has credits, or if it does not take the replies to that
// many calls. Before full_credits() it has first_credits. Owner: a link of the filer. One loop.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "transport/fabric/fabric.h"
#include "transport/rdma/credits.h"
#include "transport/rpc/rpc_transport.h"
#include "xdr/rpcrdma/header.h"

namespace nfsrdma::rdma {

struct ResponderOptions {
  bool version1 = true;
  bool version2 = true;
  uint32_t credits = 64;       // granted with every reply
  uint32_t first_credits = 0;  // limit until full_credits(); 0: the same as later
  size_t inline_bytes = 4096;
  size_t receive_bytes = 8192;
  size_t max_call_bytes = (1u << 20) + (64u << 10);  // a reply is not longer either
  size_t max_fetch_bytes = 16u << 20;                // for all calls being fetched, together
  std::chrono::milliseconds read_deadline{30'000};   // for the reply to the next RDMA Read
  uint32_t max_segments = 64;                        // in one chunk
  uint32_t max_read_chunks = 8;                      // including the Position-Zero Read chunk
  uint32_t max_write_chunks = 8;
  uint32_t callback_credits = 8;        // requested from the client
  bool use_every_reply_chunk = false;   // also for replies that fit inline, as Linux' server does
  bool configuration_protocol = false;  // answer the program of RFC 5666 section 6
  bool invalidate = true;               // use Send With Invalidate if the client allows it
};

// For fault injection: called with a call's header before the call is processed; returns an error to refuse
// it.
using Refusal = std::function<std::optional<rpcrdma::error>(const rpcrdma::header&)>;

class ResponderEvents {
 public:
  // A call, or a reply to one of our calls; from the XID on.
  virtual void on_message(ByteVector message) = 0;
  // held_bytes() has grown.
  virtual void on_held() {}
  // The last event, once.
  virtual void on_closed(const Error& why) = 0;

 protected:
  ~ResponderEvents() = default;
};

struct ResponderCounters {
  uint64_t calls = 0;
  uint64_t inline_calls = 0;
  uint64_t read_chunks = 0;
  uint64_t long_calls = 0;
  uint64_t write_chunks = 0;
  uint64_t reply_chunks = 0;
  uint64_t inline_replies = 0;
  uint64_t errors_sent = 0;
  uint64_t invalidated = 0;
};

class Responder final : private fabric::EndpointEvents {
 public:
  static constexpr size_t kFirstWindow = 64u << 10;
  // After full_credits(): a WRITE of the usual size then takes one RDMA Read, and so one round trip.
  static constexpr size_t kSessionWindow = 1u << 20;
  static constexpr size_t kMostWindow = 4u << 20;

  Responder(std::unique_ptr<fabric::Endpoint> endpoint, ResponderOptions options, ResponderEvents& events);

  void start();
  // Sends a reply to a received call, or a call in the reverse direction. `items`: the positions of a reply's
  // data items that may be placed directly (RFC 8267 section 6.1), ascending.
  void send(ByteVector message, std::span<const rpc::BulkPlace> items = {});
  void close(Error why);

  // Takes effect with the next reply.
  void grant(uint32_t credits) { granted_ = credits; }
  // The peer has become a known client: from now on it has all credits.
  void full_credits();
  // Memory held for this peer: calls being fetched, and replies that it has not received yet.
  size_t held_bytes() const { return fetched_bytes_ + endpoint_->unsent_bytes(); }
  // Ends the connection if the peer has not answered an RDMA Read in time. To be called periodically.
  void look(TimePoint now);
  void set_refusal(Refusal refusal) { refusal_ = std::move(refusal); }
  uint32_t version() const { return version_; }
  const ResponderCounters& counters() const { return counters_; }
  fabric::Endpoint& endpoint() { return *endpoint_; }

 private:
  using Message = std::shared_ptr<const ByteVector>;
  using segment = rpcrdma::segment;
  // The chunks that a call offers for its reply.
  struct Offer {
    rpcrdma::write_list writes;
    std::vector<rpcrdma::segment> reply;
    bool has_reply = false;
    uint32_t inv_handle = 0;
  };
  // A range of the peer's memory that has not been read yet, and its target.
  struct Piece {
    ByteVector* into = nullptr;
    size_t offset = 0;
    segment source;
  };
  // A call whose Read chunks are being fetched.
  struct Fetch {
    uint32_t xid = 0;
    size_t total = 0;     // length of the message
    size_t reserved = 0;  // for `message` and `base` together; 0: waits for its turn
    size_t held = 0;      // of that, the part for which RDMA Reads were posted
    ByteVector message;
    ByteVector base;  // if there are chunks at other positions: the Position-Zero Read chunk, or the inline
                      // part
    std::vector<std::pair<size_t, size_t>> items;  // [position, padded end) of the other chunks
    std::deque<Piece> pieces;
    size_t left = 0;  // outstanding RDMA Reads
    bool scatter = false;
  };

  void on_receive(fabric::Received received) override;
  void on_completed(fabric::Cookie cookie) override;
  void on_invalidated(fabric::Cookie) override {}
  void on_disconnected(const Error& why) override;

  bool speak(rpcrdma::Defect defect);
  size_t most_calls() const { return size_t{std::max(most_granted_, uint32_t{1})} + 1; }
  uint32_t granted() const { return std::min(granted_, most_granted_); }
  void on_properties();
  void on_call(ConstBytes body);
  bool answer_configuration(ConstBytes body);
  std::optional<rpcrdma::error> check_chunks(bool has_body) const;
  uint32_t handle_to_invalidate() const;
  void fetch(ConstBytes body);
  void fill(Fetch& f, ConstBytes from);
  void pump_reads();
  bool begin(Fetch& f);
  bool ask_for_next(uint64_t id, const std::shared_ptr<Fetch>& f);
  void on_fetched(uint64_t id);
  void refuse(const rpcrdma::error& error);
  void send_error(uint32_t xid, uint32_t vers, const rpcrdma::error& error);
  void broken(const char* what);

  void pump_calls();
  void send_reply(ByteVector message, std::span<const rpc::BulkPlace> items);
  std::optional<rpcrdma::error> place_items(Offer& offer, const Message& message,
                                            std::span<const rpc::BulkPlace> items, Message& rest);
  void write_chunk(std::span<rpcrdma::segment> chunk, ConstBytes data, const fabric::Owner& owner);
  void begin_header(uint32_t xid, bool response);
  void post(ConstBytes body, uint32_t invalidate);

  const ResponderOptions options_;
  ResponderEvents& events_;
  const std::unique_ptr<fabric::Endpoint> endpoint_;
  ResponderCounters counters_;
  Refusal refusal_;

  uint32_t version_ = 0;  // 0: no message received yet
  uint32_t granted_;
  uint32_t most_granted_;
  size_t inline_send_ = 1024;
  bool client_invalidates_ = false;  // the R flag of version 1's private data
  bool properties_seen_ = false;
  bool closed_ = false;

  std::unordered_map<uint32_t, Offer> offers_;          // of calls without a reply yet
  std::map<uint64_t, std::shared_ptr<Fetch>> fetches_;  // in the order of their calls
  uint64_t next_fetch_ = 1;
  size_t reserved_bytes_ = 0;   // by fetches that have begun
  size_t fetched_bytes_ = 0;    // of that, the part with memory: received, or RDMA Reads posted
  std::deque<uint32_t> asked_;  // lengths of the outstanding RDMA Reads, in order
  size_t asked_bytes_ = 0;
  size_t window_ = kFirstWindow;  // maximum of bytes in outstanding RDMA Reads
  TimePoint progress_;            // when the last RDMA Read was answered, or the first was posted
  Credits call_credits_;
  std::deque<ByteVector> calls_;  // reverse direction, waiting for a credit

  rpcrdma::header in_;
  rpcrdma::header out_;
  ByteVector out_bytes_;
};

}  // namespace nfsrdma::rdma

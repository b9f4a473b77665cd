// SPDX-License-Identifier: Apache-2.0
// Responder: the server's end of one RPC-over-RDMA connection, of version 1 and version 2, over any fabric.
//
//   calls     responder_receive.cc   header, Read chunks fetched to where they belong, all of it handed over
//   replies   responder_send.cc      data items into Write chunks, the rest inline or into the Reply chunk
//
// The version of the first message is the connection's: replies are of the version of their calls
// (draft-cel-nfsv4-rpcrdma-version-two-09 section 7.3). Also sends calls in the reverse direction, inline,
// within the client's credits (RFC 8167).
//
// What a peer announces costs no memory: a call's memory is taken as its RDMA Reads are asked for, at most
// kFirstWindow bytes before the first of them is answered (kSessionWindow from full_credits() on), and more
// only as bytes have arrived. Calls being fetched take no more than max_fetch_bytes together (one call is
// always fetched); a peer that leaves an RDMA Read unanswered for read_deadline loses the connection, as does
// one that sends more calls than it has credits, or does not take as many answers. Until full_credits(), that
// is first_credits. Owner: a link of the filer. One loop.
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
  uint32_t first_credits = 0;  // until full_credits(): no more than so many; 0: as many as later
  size_t inline_bytes = 4096;
  size_t receive_bytes = 8192;
  size_t max_call_bytes = (1u << 20) + (64u << 10);  // and no reply is longer
  size_t max_fetch_bytes = 16u << 20;                // of the calls that are being fetched, together
  std::chrono::milliseconds read_deadline{30'000};   // for the next RDMA Read to be answered
  uint32_t max_segments = 64;                        // of one chunk
  uint32_t max_read_chunks = 8;                      // the Position-Zero Read chunk included
  uint32_t max_write_chunks = 8;
  uint32_t callback_credits = 8;        // asked for
  bool use_every_reply_chunk = false;   // also for what fits inline, as Linux' server does
  bool configuration_protocol = false;  // answer RFC 5666 section 6's program
  bool invalidate = true;               // Send With Invalidate where the client allows it
};

// What may be done to a call before it is looked at: nothing, or this error. For faults.
using Refusal = std::function<std::optional<rpcrdma::error>(const rpcrdma::header&)>;

class ResponderEvents {
 public:
  // A call, or a reply to one of ours; from the XID on.
  virtual void on_message(ByteVector message) = 0;
  // held_bytes() has become more.
  virtual void on_held() {}
  // Last, once.
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
  // From full_credits() on: a WRITE of the usual size takes one RDMA Read, and so one round trip.
  static constexpr size_t kSessionWindow = 1u << 20;
  static constexpr size_t kMostWindow = 4u << 20;

  Responder(std::unique_ptr<fabric::Endpoint> endpoint, ResponderOptions options, ResponderEvents& events);

  void start();
  // A reply to a call that came, or a call in the reverse direction. `items`: where data items are in a reply
  // that may be placed directly (RFC 8267 section 6.1), ascending.
  void send(ByteVector message, std::span<const rpc::BulkPlace> items = {});
  void close(Error why);

  // From the next reply on.
  void grant(uint32_t credits) { granted_ = credits; }
  // The peer is somebody's client: from now on it has all credits.
  void full_credits();
  // Memory that this peer has us hold: calls being fetched, and answers that it has not taken.
  size_t held_bytes() const { return fetched_bytes_ + endpoint_->unsent_bytes(); }
  // Ends the connection of a peer that has not answered an RDMA Read in time. To be called now and then.
  void look(TimePoint now);
  void set_refusal(Refusal refusal) { refusal_ = std::move(refusal); }
  uint32_t version() const { return version_; }
  const ResponderCounters& counters() const { return counters_; }
  fabric::Endpoint& endpoint() { return *endpoint_; }

 private:
  using Message = std::shared_ptr<const ByteVector>;
  using segment = rpcrdma::segment;
  // What a call offers for its reply.
  struct Offer {
    rpcrdma::write_list writes;
    std::vector<rpcrdma::segment> reply;
    bool has_reply = false;
    uint32_t inv_handle = 0;
  };
  // Bytes of the peer's that have not been asked for yet, and where they go.
  struct Piece {
    ByteVector* into = nullptr;
    size_t offset = 0;
    segment source;
  };
  // A call whose Read chunks are being fetched.
  struct Fetch {
    uint32_t xid = 0;
    size_t total = 0;     // bytes of the message
    size_t reserved = 0;  // of `message` and `base` together; 0: waits for its turn
    size_t held = 0;      // of that, what has been asked for
    ByteVector message;
    ByteVector base;  // beside chunks of other positions: the Position-Zero Read chunk, or what came inline
    std::vector<std::pair<size_t, size_t>> items;  // [position, padded end) of the other chunks
    std::deque<Piece> pieces;
    size_t left = 0;  // RDMA Reads that are outstanding
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

  uint32_t version_ = 0;  // 0: nothing has come yet
  uint32_t granted_;
  uint32_t most_granted_;
  size_t inline_send_ = 1024;
  bool client_invalidates_ = false;  // R of version 1's private data
  bool properties_seen_ = false;
  bool closed_ = false;

  std::unordered_map<uint32_t, Offer> offers_;          // of calls that have not been answered
  std::map<uint64_t, std::shared_ptr<Fetch>> fetches_;  // in the order of the calls
  uint64_t next_fetch_ = 1;
  size_t reserved_bytes_ = 0;   // by fetches that have begun
  size_t fetched_bytes_ = 0;    // of it, what there is memory for: has come, or has been asked for
  std::deque<uint32_t> asked_;  // lengths of the RDMA Reads that are outstanding, in their order
  size_t asked_bytes_ = 0;
  size_t window_ = kFirstWindow;  // so many bytes may be asked for before they have come
  TimePoint progress_;            // when the last RDMA Read was answered, or the first one asked for
  Credits call_credits_;
  std::deque<ByteVector> calls_;  // reverse direction, waiting for a credit

  rpcrdma::header in_;
  rpcrdma::header out_;
  ByteVector out_bytes_;
};

}  // namespace nfsrdma::rdma

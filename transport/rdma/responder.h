// Responder: the server's end of one RPC-over-RDMA connection, of version 1 and version 2, over any fabric.
//
//   calls     responder_receive.cc   header, Read chunks fetched to where they belong, all of it handed over
//   replies   responder_send.cc      data items into Write chunks, the rest inline or into the Reply chunk
//
// The version of the first message is the connection's: replies are of the version of their calls
// (draft-cel-nfsv4-rpcrdma-version-two-09 section 7.3). Also sends calls in the reverse direction, inline,
// within the client's credits (RFC 8167).
//
// A peer costs no more memory than the credits it was granted times the longest call, and as much again for
// answers that it does not take; one that sends more calls than that loses the connection. Owner: a link of
// the filer. One loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
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
  uint32_t credits = 64;  // granted with every reply
  size_t inline_bytes = 4096;
  size_t receive_bytes = 8192;
  size_t max_call_bytes = (1u << 20) + (64u << 10);  // and no reply is longer
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
  Responder(std::unique_ptr<fabric::Endpoint> endpoint, ResponderOptions options, ResponderEvents& events);

  void start();
  // A reply to a call that came, or a call in the reverse direction. `items`: where data items are in a reply
  // that may be placed directly (RFC 8267 section 6.1), ascending.
  void send(ByteVector message, std::span<const rpc::BulkPlace> items = {});
  void close(Error why);

  // From the next reply on.
  void grant(uint32_t credits) { granted_ = credits; }
  void set_refusal(Refusal refusal) { refusal_ = std::move(refusal); }
  uint32_t version() const { return version_; }
  const ResponderCounters& counters() const { return counters_; }
  fabric::Endpoint& endpoint() { return *endpoint_; }

 private:
  using Message = std::shared_ptr<const ByteVector>;
  // What a call offers for its reply.
  struct Offer {
    rpcrdma::write_list writes;
    std::vector<rpcrdma::segment> reply;
    bool has_reply = false;
    uint32_t inv_handle = 0;
  };
  // A call whose Read chunks are being fetched.
  struct Fetch {
    uint32_t xid = 0;
    ByteVector message;
    ByteVector base;  // the Position-Zero Read chunk, when there are other chunks
    std::vector<std::pair<size_t, size_t>> items;  // [position, padded end) of the other chunks
    size_t left = 0;
    bool scatter = false;
  };

  void on_receive(fabric::Received received) override;
  void on_completed(fabric::Cookie cookie) override;
  void on_invalidated(fabric::Cookie) override {}
  void on_disconnected(const Error& why) override;

  bool speak(rpcrdma::Defect defect);
  size_t most_calls() const { return size_t{std::max(options_.credits, uint32_t{1})} + 1; }
  void on_properties();
  void on_call(ConstBytes body);
  bool answer_configuration(ConstBytes body);
  std::optional<rpcrdma::error> check_chunks(bool has_body) const;
  uint32_t handle_to_invalidate() const;
  void fetch(ConstBytes body);
  void fill(Fetch& f, ConstBytes from);
  void read_into(MutableBytes target, std::span<const rpcrdma::segment* const> segments, uint64_t id,
                 const std::shared_ptr<Fetch>& f);
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
  size_t inline_send_ = 1024;
  bool client_invalidates_ = false;  // R of version 1's private data
  bool properties_seen_ = false;
  bool closed_ = false;

  std::unordered_map<uint32_t, Offer> offers_;  // of calls that have not been answered
  std::unordered_map<uint64_t, std::shared_ptr<Fetch>> fetches_;
  uint64_t next_fetch_ = 1;
  Credits call_credits_;
  std::deque<ByteVector> calls_;  // reverse direction, waiting for a credit

  rpcrdma::header in_;
  rpcrdma::header out_;
  ByteVector out_bytes_;
};

}  // namespace nfsrdma::rdma

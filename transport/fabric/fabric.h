// SPDX-License-Identifier: Apache-2.0
// Fabric: what RPC-over-RDMA needs of an RDMA network, whatever makes it one.
//
// Two stand behind it: verbs (rdma-core: InfiniBand, RoCE, iWARP adapters) and iwarp (software RDMA: MPA, DDP
// and RDMAP in user space over a TCP socket). transport/rdma knows only this file; both pass the same tests.
//
// An Endpoint is one reliable connection (RFC 8166 section 2.2.2: "reliable connected"): Sends arrive in the
// order they were posted, each in one Receive of the peer; an RDMA Write is in the peer's memory before a
// Send posted after it arrives; an RDMA Read is complete when its initiator says so. It lives on one loop;
// all calls and all events are there. Nothing here blocks.
//
// Memory of this side is reachable for the peer only while it is exposed, only in the range and only for the
// access that was exposed, and never after invalidate() is done or on_disconnected() was called. A peer that
// tries anything else loses the connection and nothing more happens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/memory/buffer.h"
#include "transport/memory/piped_place.h"
#include "transport/runtime/loop.h"
#include "transport/tcp/tcp_transport.h"
#include "xdr/rpcrdma/segment.h"
#include "xdr/support/bytes.h"
#include "xdr/support/result.h"

namespace nfsrdma::fabric {

// What the peer may do to exposed memory; one of the two, never both.
enum class Access : uint8_t {
  kRemoteRead,   // Read chunks: the peer fetches
  kRemoteWrite,  // Write chunks, Reply chunks: the peer places
};

// What a completion belongs to; the caller's, handed back as it was given.
using Cookie = uint64_t;

// A received Send. The bytes are valid until on_receive() returns; then the buffer is posted again.
struct Received {
  ConstBytes message;
  uint32_t invalidated = 0;  // the handle the peer invalidated with its Send; 0: none
};

// Called on the endpoint's loop. An event may call anything of the endpoint, also disconnect()
// (on_disconnected then comes later, from the loop), but must not destroy it.
class EndpointEvents {
 public:
  virtual void on_receive(Received received) = 0;
  // A Write or Read with this cookie is complete: its local memory is free, a Read's data is there. Never
  // called for what the end of the connection cut off.
  virtual void on_completed(Cookie cookie) = 0;
  // invalidate() of these handles is done.
  virtual void on_invalidated(Cookie cookie) = 0;
  // The last event, once: no memory of this side is reachable or in use any more. `why` has kReconnect.
  virtual void on_disconnected(const Error& why) = 0;

 protected:
  ~EndpointEvents() = default;
};

struct EndpointLimits {
  size_t max_message_bytes = 0;  // of a Send, to be posted by us (what the peer takes is RPC-over-RDMA's)
  size_t max_segment_bytes = 0;  // of one exposed segment
  size_t max_read_bytes = 0;     // of one RDMA Read
  unsigned max_segments = 0;     // that one expose() may need for its memory
  unsigned incoming_reads = 0;   // RDMA Reads of the peer that may be outstanding at once (IRD)
  // True if every handle that expose() gives may be invalidated by the peer (RFC 8797 section 4.1).
  bool remote_invalidation = false;
  // How exposed memory is fenced, for status: "fenced", "fenced by memory windows"...; static.
  const char* exposure = "fenced";
};

// Counters of one endpoint; loop thread.
struct EndpointCounters {
  uint64_t sends = 0;
  uint64_t receives = 0;
  uint64_t sends_with_invalidate = 0;
  uint64_t remotely_invalidated = 0;
  uint64_t locally_invalidated = 0;
  uint64_t exposed = 0;        // segments
  uint64_t bytes_written = 0;  // by our RDMA Writes
  uint64_t bytes_read = 0;     // by our RDMA Reads
  uint64_t bytes_placed = 0;   // in our exposed memory, by the peer; 0 where the hardware does not say
  uint64_t bytes_fetched = 0;  // from our exposed memory, by the peer; likewise
};

// Keeps local memory alive until an operation is complete or the connection has ended.
using Owner = std::shared_ptr<const void>;

class Endpoint {
 public:
  // Ends the connection if it still stands; no event comes any more.
  virtual ~Endpoint() = default;

  // Begins to receive. Once, before anything else; `events` outlives the endpoint.
  virtual void start(EndpointEvents& events) = 0;

  // Posts one Send: the parts, gathered. They are copied (or have left) when it returns: a message is at most
  // an inline threshold long, and less than the work of registering it. `invalidate` != 0: Send With
  // Invalidate of the peer's handle. `solicited` asks for the peer's attention. After the connection has
  // ended, nothing happens.
  virtual void send(std::span<const ConstBytes> parts, uint32_t invalidate = 0, bool solicited = false) = 0;

  // Opens `memory` to the peer and returns its segments, in order, each at most max_segment_bytes long; what
  // is sent afterwards may name them. Errors: kTransport; ENOMEM, ENOBUFS when no registration or window is
  // to be had now. `memory` must stay where it is until invalidated or disconnected.
  // `piped`, with `memory` as its data.slice: what is placed need not reach the memory. Fabrics that place by
  // hardware have no use for it.
  virtual Result<std::vector<rpcrdma::segment>> expose(MutableBytes memory, Access access,
                                                       PipedPlace* piped) = 0;
  Result<std::vector<rpcrdma::segment>> expose(MutableBytes memory, Access access) {
    return expose(memory, access, nullptr);
  }

  // Closes memory of which the peer has said that it is done with it, or has not heard. True: done; false:
  // on_invalidated(cookie) says when. `remotely` is a handle of these that the peer has already invalidated,
  // or 0. Handles that are not exposed are ignored.
  virtual bool invalidate(std::span<const rpcrdma::segment> segments, uint32_t remotely, Cookie cookie) = 0;
  // Closes memory that the peer may be using at this moment. True: done; false: the connection has been ended
  // for it, and on_disconnected() says when.
  virtual bool revoke(std::span<const rpcrdma::segment> segments) = 0;

  // RDMA Write of `source` to the beginning of `target`, no longer than it. Without `wants_completion` no
  // event comes and `owner` alone keeps the memory.
  virtual void write(const rpcrdma::segment& target, ConstBytes source, Owner owner, Cookie cookie,
                     bool wants_completion) = 0;
  // RDMA Read of `target.size()` bytes from the beginning of `source`; on_completed(cookie) follows.
  virtual void read(MutableBytes target, const rpcrdma::segment& source, Owner owner, Cookie cookie) = 0;

  // Ends the connection; on_disconnected(why) follows, later. What was posted before may be lost.
  virtual void disconnect(Error why) = 0;

  // Of what send() and write() were given: bytes that wait here, because the peer takes no more, or an RDMA
  // device's send queue is full. Nothing here bounds them: who posts has to.
  virtual size_t unsent_bytes() const = 0;

  virtual const EndpointLimits& limits() const = 0;
  virtual EndpointCounters counters() const = 0;
  // CM or MPA private data of the peer, as it came; may be padded (RFC 8797 is searched in it).
  virtual ConstBytes peer_private_data() const = 0;
  virtual const std::string& peer() const = 0;  // "10.0.0.1:20049"
  virtual const std::string& local() const = 0;
  // What carries it, for logs and status: "software RDMA", "rxe0 port 1, MTU 4096".
  virtual const std::string& carrier() const = 0;
};

// What an endpoint says of itself while connecting, at most 56 bytes; null: nothing. Asked for when it is
// known whether this side has its part in remote invalidation: who connects, by
// EndpointLimits::remote_invalidation; who accepts, by being able to Send With Invalidate.
using PrivateData = std::function<ByteVector(bool remote_invalidation)>;

// What an endpoint is made with, on either side.
struct EndpointOptions {
  size_t receive_bytes = 8192;  // of each Receive that is posted: the longest message the peer may Send
  unsigned receives = 64;       // how many are posted at any time
  PrivateData private_data;

  ByteVector say(bool remote_invalidation) const {
    return private_data ? private_data(remote_invalidation) : ByteVector();
  }
};

struct ConnectOptions {
  std::string host;
  uint16_t port = 20049;
  // As in tcp::TcpOptions: RDMA is reached by IP addresses, too (rdma_cm, MPA).
  std::shared_ptr<tcp::ServerAddress> address;
  bool follows = false;
  tcp::Family family = tcp::Family::kAny;
  bool reserved_port = false;
  std::chrono::milliseconds timeout{10'000};  // one address; and again for RDMA's beginning
  EndpointOptions endpoint;
};

// An endpoint that has been asked for and is not accepted yet.
class Incoming {
 public:
  virtual ~Incoming() = default;  // refuses what was neither accepted nor refused
  virtual ConstBytes private_data() const = 0;
  virtual const std::string& peer() const = 0;
  virtual Task<Result<std::unique_ptr<Endpoint>>> accept(EndpointOptions options) = 0;
  virtual void refuse() = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;  // stops; endpoints live on
  virtual uint16_t port() const = 0;
};

// One fabric on one loop.
class Fabric {
 public:
  virtual ~Fabric() = default;

  // For logs and status: "software RDMA", "RDMA device".
  virtual std::string name() const = 0;

  // Errors: kTransport. kPermanent: the host does not exist; kReconnect: not reachable, refused, no RDMA
  // there (EPROTO: something answered that is not of this fabric; ENODEV: no device of this machine leads
  // there); kInterrupted after cancel(). One at a time.
  virtual Task<Result<std::unique_ptr<Endpoint>>> connect(ConnectOptions options) = 0;

  // The connect() under way ends soon.
  virtual void cancel() = 0;

  // `on_incoming` is called on the loop for each peer that asks.
  virtual Result<std::unique_ptr<Listener>> listen(
      std::string address, uint16_t port, std::function<void(std::unique_ptr<Incoming>)> on_incoming) = 0;
};

}  // namespace nfsrdma::fabric

// SPDX-License-Identifier: Apache-2.0
// Fabric: the interface to an RDMA network, as RPC-over-RDMA needs it.
//
// There are two implementations: verbs (rdma-core: InfiniBand, RoCE, iWARP adapters) and iwarp (software
// RDMA: MPA, DDP and RDMAP in user space over a TCP socket). transport/rdma knows only this file. Both
// implementations pass the same tests.
//
// An Endpoint is one reliable connection (RFC 8166 section 2.2.2: "reliable connected"). Sends arrive in the
// order in which they were posted, each in one Receive of the peer. An RDMA Write is in the peer's memory
// before a Send posted after it arrives. An RDMA Read is complete when its initiator gets the completion. An
// Endpoint lives on one loop; all calls and events are on that loop. Nothing here blocks.
//
// The peer can reach memory of this side only while it is exposed, only in the exposed range and only for the
// exposed access, and never after invalidate() has completed or on_disconnected() was called. A peer that
// tries anything else loses the connection and changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/memory/buffer.h"
#include "transport/memory/piped_place.h"
#include "transport/net/family.h"
#include "transport/runtime/loop.h"
#include "xdr/rpcrdma/segment.h"
#include "xdr/support/bytes.h"
#include "xdr/support/result.h"

namespace nfsrdma::net {
class ServerAddress;
}

namespace nfsrdma::fabric {

// What the peer may do with exposed memory: one of the two, never both.
enum class Access : uint8_t {
  kRemoteRead,   // Read chunks: the peer fetches
  kRemoteWrite,  // Write chunks, Reply chunks: the peer places
};

// Identifies an operation in its completion. The caller chooses the value; the endpoint returns it unchanged.
using Cookie = uint64_t;

// A received Send. The bytes are valid until on_receive() returns; then the buffer is posted again.
struct Received {
  ConstBytes message;
  uint32_t invalidated = 0;  // the handle the peer invalidated with its Send; 0: none
};

// Called on the endpoint's loop. An event handler may call any function of the endpoint, including
// disconnect() (on_disconnected() then comes later, from the loop), but must not destroy it.
class EndpointEvents {
 public:
  virtual void on_receive(Received received) = 0;
  // A Write or Read with this cookie is complete: its local memory is free; a Read's data is there. Not
  // called for operations that the end of the connection cut off.
  virtual void on_completed(Cookie cookie) = 0;
  // invalidate() with this cookie is complete.
  virtual void on_invalidated(Cookie cookie) = 0;
  // The last event, once: no memory of this side is reachable or in use any more. `why` has kReconnect.
  virtual void on_disconnected(const Error& why) = 0;

 protected:
  ~EndpointEvents() = default;
};

struct EndpointLimits {
  size_t max_message_bytes = 0;  // of a Send that we post (RPC-over-RDMA knows the peer's limit)
  size_t max_segment_bytes = 0;  // of one exposed segment
  size_t max_read_bytes = 0;     // of one RDMA Read
  unsigned max_segments = 0;     // maximum number of segments of one expose()
  unsigned incoming_reads = 0;   // maximum of the peer's outstanding RDMA Reads (IRD)
  // True if the peer may invalidate every handle that expose() returns (RFC 8797 section 4.1).
  bool remote_invalidation = false;
  // How exposed memory is protected, for the status. "fenced": the peer can reach it only while it is
  // exposed. What follows names the means, e.g. "fenced by memory windows". Static storage.
  const char* exposure = "fenced";
};

// Counters of one endpoint. Loop thread only.
struct EndpointCounters {
  uint64_t sends = 0;
  uint64_t receives = 0;
  uint64_t sends_with_invalidate = 0;
  uint64_t remotely_invalidated = 0;
  uint64_t locally_invalidated = 0;
  uint64_t exposed = 0;        // segments
  uint64_t bytes_written = 0;  // by our RDMA Writes
  uint64_t bytes_read = 0;     // by our RDMA Reads
  uint64_t bytes_placed = 0;   // in our exposed memory, by the peer; 0 if the hardware does not report it
  uint64_t bytes_fetched = 0;  // from our exposed memory, by the peer; likewise
};

// Keeps local memory alive until an operation is complete or the connection has ended.
using Owner = std::shared_ptr<const void>;

class Endpoint {
 public:
  // Ends the connection if it is still up; no event comes any more.
  virtual ~Endpoint() = default;

  // Starts to receive. To be called once, before anything else. `events` outlives the endpoint.
  virtual void start(EndpointEvents& events) = 0;

  // Posts one Send of the gathered parts. They are copied, or sent, before it returns: a message is at most
  // an inline threshold long, and copying it is cheaper than registering it. `invalidate` != 0: Send With
  // Invalidate of the peer's handle. `solicited`: Send with Solicited Event. Does nothing after the
  // connection has ended.
  virtual void send(std::span<const ConstBytes> parts, uint32_t invalidate = 0, bool solicited = false) = 0;

  // Opens `memory` to the peer and returns its segments, in order, each at most max_segment_bytes long; later
  // Sends may name them. Errors: kTransport; ENOMEM or ENOBUFS when no registration or window is available
  // now. `memory` must stay at its address until it is invalidated or the endpoint is disconnected. With
  // `piped`, whose data.slice is `memory`, the fabric may leave the peer's data in a pipe. Fabrics with
  // hardware placement ignore it.
  virtual Result<std::vector<rpcrdma::segment>> expose(MutableBytes memory, Access access,
                                                       PipedPlace* piped) = 0;
  Result<std::vector<rpcrdma::segment>> expose(MutableBytes memory, Access access) {
    return expose(memory, access, nullptr);
  }

  // Closes memory that the peer has finished with, or whose handles it was never sent. Returns true if that
  // is done; false if on_invalidated(cookie) follows. `remotely` is the handle among these that the peer has
  // already invalidated, or 0. Handles that are not exposed are ignored.
  virtual bool invalidate(std::span<const rpcrdma::segment> segments, uint32_t remotely, Cookie cookie) = 0;
  // Closes memory that the peer may be using at this moment. Returns true if that is done; false if it had to
  // end the connection, and on_disconnected() follows.
  virtual bool revoke(std::span<const rpcrdma::segment> segments) = 0;

  // RDMA Write of `source` to the beginning of `target`, which is at least as long. Without
  // `wants_completion` no event follows, and only `owner` keeps the memory alive.
  virtual void write(const rpcrdma::segment& target, ConstBytes source, Owner owner, Cookie cookie,
                     bool wants_completion) = 0;
  // RDMA Read of `target.size()` bytes from the beginning of `source`; on_completed(cookie) follows.
  virtual void read(MutableBytes target, const rpcrdma::segment& source, Owner owner, Cookie cookie) = 0;

  // Ends the connection; on_disconnected(why) follows later. Operations posted before may be lost.
  virtual void disconnect(Error why) = 0;

  // Bytes given to send() and write() that still wait here, because the peer accepts no more or an RDMA
  // device's send queue is full. There is no limit here: the code that posts must limit them.
  virtual size_t unsent_bytes() const = 0;

  virtual const EndpointLimits& limits() const = 0;
  virtual EndpointCounters counters() const = 0;
  // The peer's CM or MPA private data as received; it may be padded (the message of RFC 8797 is searched for
  // in it).
  virtual ConstBytes peer_private_data() const = 0;
  virtual const std::string& peer() const = 0;  // "10.0.0.1:20049"
  virtual const std::string& local() const = 0;
  // The carrier, for logs and status: "software RDMA", "rxe0 port 1, MTU 4096".
  virtual const std::string& carrier() const = 0;
};

// Makes our private data for the connection, at most 56 bytes; null: none. The argument says whether this
// side supports its part of remote invalidation: for a connecting side EndpointLimits::remote_invalidation,
// for an accepting side the ability to Send With Invalidate.
using PrivateData = std::function<ByteVector(bool remote_invalidation)>;

// Options of an endpoint, on both sides.
struct EndpointOptions {
  size_t receive_bytes = 8192;  // size of each posted Receive: the longest message the peer may Send
  unsigned receives = 64;       // number of Receives that are posted at any time
  PrivateData private_data;

  ByteVector say(bool remote_invalidation) const {
    return private_data ? private_data(remote_invalidation) : ByteVector();
  }
};

struct ConnectOptions {
  std::string host;
  uint16_t port = 20049;
  // As in net::ConnectorOptions: RDMA is reached by IP addresses, too (rdma_cm, MPA).
  std::shared_ptr<net::ServerAddress> address;
  bool follows = false;
  net::Family family = net::Family::kAny;
  bool reserved_port = false;
  std::chrono::milliseconds timeout{10'000};  // for each address; and again for RDMA's own handshake
  EndpointOptions endpoint;
};

// A peer that has asked for a connection and has not been accepted yet.
class Incoming {
 public:
  virtual ~Incoming() = default;  // refuses the peer unless it was accepted or refused
  virtual ConstBytes private_data() const = 0;
  virtual const std::string& peer() const = 0;
  virtual Task<Result<std::unique_ptr<Endpoint>>> accept(EndpointOptions options) = 0;
  virtual void refuse() = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;  // stops listening; endpoints live on
  virtual uint16_t port() const = 0;
};

// One fabric on one loop.
class Fabric {
 public:
  virtual ~Fabric() = default;

  // For logs and status: "software RDMA", "RDMA device".
  virtual std::string name() const = 0;

  // Errors: kTransport. kPermanent: the host does not exist. kReconnect: not reachable, refused, or no RDMA
  // there (EPROTO: the peer answered, but not in this fabric's protocol; ENODEV: no device of this machine
  // leads there). kInterrupted after cancel(). One call at a time.
  virtual Task<Result<std::unique_ptr<Endpoint>>> connect(ConnectOptions options) = 0;

  // The current connect() ends soon.
  virtual void cancel() = 0;

  // `on_incoming` is called on the loop for each peer that asks for a connection.
  virtual Result<std::unique_ptr<Listener>> listen(
      std::string address, uint16_t port, std::function<void(std::unique_ptr<Incoming>)> on_incoming) = 0;
};

}  // namespace nfsrdma::fabric

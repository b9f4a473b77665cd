// SPDX-License-Identifier: Apache-2.0
// Link: the server's end of one connection, whatever carries it.
//
// TCP (net/tcp_link.h) or RPC-over-RDMA (net/rdma_link.h). A link is shared between the
// listener and whoever answers on it; it outlives its connection and is silent then. All functions may be
// called from any thread, and return at once: what is sent leaves in the order of the calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filer/tree/principal.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/loop.h"
#include "xdr/rpcrdma/header.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::filer {

using LinkId = uint64_t;  // 1, 2, 3... in the order of arrival; never reused

// Where in a reply READ's data is, for links that place it directly; `offset` from the XID on.
using BulkPlaces = std::vector<rpc::BulkPlace>;

class Link {
 public:
  // What the server knows of the peer, and goes by where there are too many (net/crowd.h). Guarded by the
  // server's lock.
  struct Standing {
    std::string address{};     // without a port; empty: not known
    bool has_session = false;  // has used a session, ...
    Principal owner{};         // ...which is this one's
    TimePoint accepted{};
    TimePoint heard{};  // the last call
  };
  Standing standing;

  virtual ~Link() = default;

  virtual LinkId id() const = 0;
  // Whether what its calls say of their user is believed (net/peer_check.h): known before the first call.
  bool believed() const { return believed_; }
  void set_believed(bool believed) { believed_ = believed; }
  // One RPC message, from XID to the end; framing is the link's.
  virtual void send(ByteVector message, BulkPlaces items) = 0;
  void send(ByteVector message) { send(std::move(message), {}); }
  // Bytes as they are, framing included: for faults.
  virtual void send_raw(ByteVector bytes) = 0;
  // Ends the connection after what has been sent before; `abort` ends it at once, with a reset.
  virtual void close(bool abort) = 0;
  // Credits granted with every reply from the next one on; nothing where there are none.
  virtual void grant(uint32_t credits) { (void)credits; }
  // The peer uses a session: it is somebody's client.
  virtual void recognised() {}
  // Bytes that the peer makes us hold: of calls that have not come whole, of replies that it has not taken.
  // The loop's thread only, as look() is.
  virtual size_t held_bytes() const { return 0; }
  // Ends the connection if the peer has owed the next byte, or has not taken what was sent, for too long.
  virtual void look(TimePoint now) { (void)now; }
  // Stops or goes on taking what the client sends: back pressure towards it.
  virtual void pause_reading(bool pause) = 0;

 private:
  bool believed_ = true;
};

using LinkPtr = std::shared_ptr<Link>;

// A session of `owner`'s is used over the link. Under the server's lock.
inline void recognise(Link& link, const Principal& owner) {
  if (std::exchange(link.standing.has_session, true)) return;
  link.standing.owner = owner;
  link.recognised();
}

// What a link tells, on its loop.
struct LinkEvents {
  std::function<void(const LinkPtr&)> on_held;  // held_bytes() has changed by much
  // RPC-over-RDMA: a call's header has come. An error is its answer, and that is all of the call.
  std::function<std::optional<rpcrdma::error>(const LinkPtr&, const rpcrdma::header&)> on_header;
  std::function<void(const LinkPtr&, ByteVector)> on_message;
  std::function<void(const LinkPtr&)> on_closed;  // last, exactly once
};

}  // namespace nfsrdma::filer

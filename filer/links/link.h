// SPDX-License-Identifier: Apache-2.0
// Link: the server's end of one connection, over TCP (links/tcp_link.h) or RPC-over-RDMA (links/rdma_link.h).
//
// The listener and calls that are still executed share a link. It may outlive its connection; sends then do
// nothing. All functions may be called from any thread unless noted, and return at once. Messages are sent in
// the order of the calls.
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

namespace nfsrdma::filer::links {

using LinkId = uint64_t;  // 1, 2, 3... in the order of accept; never reused

// Where READ's data and READLINK's text are in a reply, for links that place them directly; `offset` counts
// from the XID.
using BulkPlaces = std::vector<rpc::BulkPlace>;

class Link {
 public:
  // What the server knows of the peer, to select connections to close (links/crowd.h). Guarded by the
  // server's lock.
  struct Standing {
    std::string address{};     // without a port; empty: not known
    bool has_session = false;  // whether a session was used on the connection, ...
    tree::Principal owner{};   // ...and the principal of that session
    TimePoint accepted{};
    TimePoint heard{};  // time of the last call
  };
  Standing standing;

  virtual ~Link() = default;

  virtual LinkId id() const = 0;
  // Whether AUTH_SYS credentials of its calls are accepted (links/peer_check.h). Set before the first call.
  bool believed() const { return believed_; }
  void set_believed(bool believed) { believed_ = believed; }
  // Sends one RPC message, from the XID to its end. The link adds the framing.
  virtual void send(ByteVector message, BulkPlaces items) = 0;
  void send(ByteVector message) { send(std::move(message), {}); }
  // Sends bytes without framing, for faults.
  virtual void send_raw(ByteVector bytes) = 0;
  // Closes the connection after everything queued is sent. With `abort` it closes at once, with a reset.
  virtual void close(bool abort) = 0;
  // Called when one of its calls gets no reply. Over RDMA the connection ends: that call would keep a credit
  // and the memory that it offers. "the replier ... MAY disconnect the connection" (RFC 8881 section 2.9.2).
  virtual void call_dropped() {}
  // Sets the credits granted in each reply from the next one on. Does nothing over TCP.
  virtual void grant(uint32_t credits) { (void)credits; }
  // Called when the peer first uses a session. An RDMA link then grants all its credits.
  virtual void recognised() {}
  // Bytes that the peer makes the server hold: incomplete calls, and replies not yet sent. Loop thread only.
  virtual size_t held_bytes() const { return 0; }
  // Closes the connection if the peer has left a record unfinished, or received nothing of its replies, for
  // too long. Loop thread only.
  virtual void look(TimePoint now) { (void)now; }
  // Stops or resumes reading from the connection, so that the client sees back pressure.
  virtual void pause_reading(bool pause) = 0;

 private:
  bool believed_ = true;
};

using LinkPtr = std::shared_ptr<Link>;

// Records that a session of `owner` is used over the link. The server's lock is held.
inline void recognise(Link& link, const tree::Principal& owner) {
  if (std::exchange(link.standing.has_session, true)) return;
  link.standing.owner = owner;
  link.recognised();
}

// Events of a link. They are called on its loop.
struct LinkEvents {
  std::function<void(const LinkPtr&)> on_held;  // held_bytes() has changed (TCP: by 64 KiB or more)
  // RPC-over-RDMA: a call's header was received. If an error is returned, the link sends it and drops the
  // call.
  std::function<std::optional<rpcrdma::error>(const LinkPtr&, const rpcrdma::header&)> on_header;
  std::function<void(const LinkPtr&, ByteVector)> on_message;
  std::function<void(const LinkPtr&)> on_closed;  // the last event, exactly once
};

}  // namespace nfsrdma::filer::links

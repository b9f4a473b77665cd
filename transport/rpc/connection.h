// SPDX-License-Identifier: Apache-2.0
// Connection: one connection to the server, as ClientTransport uses it, for every kind of transport.
//
// It sends messages in order and passes received messages to its owner, which interprets them. Each transport
// has its own class of connection, and a Dialer that makes it (transport/tcp, transport/rdma).
//
// Delivering a message may resume any coroutine, which may call anything here, including drop(). The
// connection stays alive (its handlers share it) and does nothing more after drop(). The owner outlives it:
// the Pass given to the Dialer holds the owner's gate until the last handler has ended. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/rpc/counters.h"
#include "transport/rpc/pending_calls.h"
#include "transport/rpc/received_reply.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/gate.h"

namespace nfsrdma::rpc {

class Connection;

class ConnectionOwner {
 public:
  // A reply to a call that is pending and was sent.
  virtual void on_reply(Connection& connection, ReceivedReply reply) = 0;
  // The transport refuses one call permanently; no reply will come.
  virtual void on_refused(Connection& connection, PendingCall& call, Error why) = 0;
  virtual void on_call(Connection& connection, uint32_t xid, ByteVector message) = 0;
  // A message that should not have come; `what` describes it. `fatal`: nothing after it can be understood;
  // drop() follows. `stray`: a reply that nobody waits for. `xid`: if it is known.
  struct BadMessage {
    const char* what = "";
    bool fatal = false;
    bool stray = false;
    std::optional<uint32_t> xid;
  };
  virtual void on_bad_message(Connection& connection, const BadMessage& bad) = 0;
  virtual void on_bytes_received() = 0;
  // Called once, as drop()'s last action or later: the connection no longer uses memory of any call.
  virtual void on_dropped(Connection& connection, Error why) = 0;

 protected:
  ~ConnectionOwner() = default;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;

  // Starts to receive.
  virtual void begin() = 0;

  // Sends the call when its turn comes. The connection maintains PendingCall::stage.
  virtual void send(PendingCall& call) = 0;
  // A reply to a call of the server.
  virtual void send(ByteVector reply) = 0;
  // Distinguishes a slow server from a silent one. `oldest` is the oldest call that the connection was given
  // and that has no reply. True if `oldest` is still being sent and more of its bytes have reached the server
  // since the last has_moved(), or if more has been received than on_bytes_received() has reported.
  virtual bool has_moved(const PendingCall& oldest) = 0;
  // Replies that have not been sent completely.
  virtual size_t replies_queued() const = 0;
  // `call` is about to end without a reply. The connection uses nothing of it afterwards, except memory that
  // `keep` and the sink's buffer keep alive.
  virtual void forget(PendingCall& call) = 0;

  // Ends the connection and tells the owner. Does nothing after the first time.
  virtual void drop(Error why) = 0;
  virtual bool open() const = 0;

  virtual const std::string& peer() const = 0;
  virtual const std::string& local() const = 0;
  virtual std::string protocol() const = 0;  // for status: "tcp", "rdma"
  // For status: version and cipher of TLS, and whose certificate the server has shown; empty: no TLS.
  virtual std::string tls() const { return {}; }

  size_t callbacks_in_progress = 0;  // back channel calls that the owner is answering; counted by the owner
};

// What a connection needs from its owner.
struct ConnectionUse {
  ConnectionOwner& owner;
  PendingCalls& calls;
  Counters& counters;
  Gate::Pass pass;
};

// Makes connections to one server, one at a time. Owner: a ClientTransport.
class Dialer {
 public:
  virtual ~Dialer() = default;
  // Errors: Layer::kTransport. kInterrupted after cancel(); kPermanent: do not try again.
  virtual Task<Result<std::shared_ptr<Connection>>> dial(ConnectionUse use) = 0;
  // The current dial(), and every later one, ends soon with kInterrupted.
  virtual void cancel() = 0;
  // After cancel(), when no coroutine of the transport is left: releases what the loop watches.
  virtual void closed() {}
  // Adds the status of this kind of connection. Any thread.
  virtual void describe(TransportStatus&) const {}
  // RpcTransport::credits(). Any thread.
  virtual uint32_t credits() const { return RpcTransport::kNoCredits; }
};

}  // namespace nfsrdma::rpc

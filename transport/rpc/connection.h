// SPDX-License-Identifier: Apache-2.0
// Connection: one connection to the server, whatever carries it, as ClientTransport uses it.
//
// It sends what it is given, in order, and hands over what comes; what that means is its owner's. A transport
// adds its own kind of connection and a Dialer that makes it (transport/tcp, transport/rdma).
//
// Handing out a message may resume any coroutine, which may call anything here, also drop(); the connection
// stays alive (its handlers share it) and does nothing more once dropped. The owner outlives it: the Pass
// given to the Dialer keeps the owner's gate until the last handler is gone. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/rpc/counters.h"
#include "transport/rpc/pending_calls.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/gate.h"

namespace nfsrdma::rpc {

class Connection;

// A reply as it came.
struct ReceivedReply {
  uint32_t xid = 0;
  ByteVector head;  // from the XID on, without the bulk item if it was placed
  bool placed = false;
  size_t bulk_length = 0;
  ByteRange piped;  // of the bulk item: in `pipe`
  PipeRef pipe;
  const char* defect = nullptr;  // set: the reply cannot be used; head is not complete
};

class ConnectionOwner {
 public:
  // Of a call that is pending and was sent.
  virtual void on_reply(Connection& connection, ReceivedReply reply) = 0;
  // The transport refuses one call for good; its reply will not come.
  virtual void on_refused(Connection& connection, PendingCall& call, Error why) = 0;
  virtual void on_call(Connection& connection, uint32_t xid, ByteVector message) = 0;
  // What should not have come: `what` says so. `fatal`: nothing after it can be understood; drop() follows.
  // The XID if it is known. `stray`: a reply nobody waits for.
  struct BadMessage {
    const char* what = "";
    bool fatal = false;
    bool stray = false;
    std::optional<uint32_t> xid;
  };
  virtual void on_bad_message(Connection& connection, const BadMessage& bad) = 0;
  virtual void on_bytes_received() = 0;
  // Once, as drop()'s last action or later: no memory of any call is in use by the connection any more.
  virtual void on_dropped(Connection& connection, Error why) = 0;

 protected:
  ~ConnectionOwner() = default;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;

  // Begins to receive.
  virtual void begin() = 0;

  // Sends the call when its turn comes; the connection keeps PendingCall::stage.
  virtual void send(PendingCall& call) = 0;
  // A reply to a call of the server.
  virtual void send(ByteVector reply) = 0;
  // `oldest`, which it was given first of what waits for replies, is on its way there, and more of it has
  // arrived since this was asked last; or more has come than on_bytes_received() has told of. Slow is not
  // silent.
  virtual bool has_moved(const PendingCall& oldest) = 0;
  // Replies that have not left.
  virtual size_t replies_queued() const = 0;
  // `call` is about to end without a reply: nothing of it is used afterwards but what `keep` and the sink's
  // buffer keep alive.
  virtual void forget(PendingCall& call) = 0;

  // Ends the connection and tells the owner. Does nothing when done before.
  virtual void drop(Error why) = 0;
  virtual bool open() const = 0;

  virtual const std::string& peer() const = 0;
  virtual const std::string& local() const = 0;
  virtual std::string protocol() const = 0;  // for status: "tcp", "rdma"

  size_t callbacks_in_progress = 0;  // the owner's count of back channel calls it is answering
};

// What a connection is made for.
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
  // Errors: Layer::kTransport; kInterrupted after cancel(); kPermanent: trying again is of no use.
  virtual Task<Result<std::shared_ptr<Connection>>> dial(ConnectionUse use) = 0;
  // The dial() under way, and every later one, ends soon with kInterrupted.
  virtual void cancel() = 0;
  // Adds what only this kind of connection has to say. Any thread.
  virtual void describe(TransportStatus&) const {}
  // RpcTransport::credits(). Any thread.
  virtual uint32_t credits() const { return RpcTransport::kNoCredits; }
};

}  // namespace nfsrdma::rpc

// SPDX-License-Identifier: Apache-2.0
// RpcTransport: moves RPC messages between this client and one server over one connection at a time.
//
// What every transport has in common, and all that client/ knows of them.
//
// One transport lives on one loop; call() and the hooks run there. It owns the connection's life: connect,
// handshake (a hook: EXCHANGE_ID, BIND_CONN_TO_SESSION...), ready, lost, back-off, connect again. A call
// survives all that: once accepted it stays pending, with its bytes, until its reply arrives or
// fail_pending() ends it, and it is sent again, same XID and bytes, after each new handshake. So a session
// slot is never abandoned (RFC 8881 section 2.10.6). No call has a deadline here: who gives up waiting
// (interrupt, soft mount) answers the application early and lets the call run on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/memory/bulk_data.h"
#include "transport/rdma/rdma_status.h"
#include "transport/runtime/loop.h"
#include "xdr/codec.h"
#include "xdr/support/bytes.h"
#include "xdr/support/result.h"

namespace nfsrdma::rpc {

// Where the one bulk item of a reply lies in the reply's XDR stream: `length` bytes at `offset` (from the XID
// on).
struct BulkPlace {
  size_t offset = 0;
  size_t length = 0;
};

enum class Locate : uint8_t {
  kNone,      // this reply has no bulk item (an error, or a shape not known): take it whole
  kNeedMore,  // cannot tell from so few bytes
  kFound,
};

// Finds the bulk item from the first bytes of a reply (beginning with the XID). Given by the caller, who
// knows the upper layer's shape; the transport knows only bytes. Must treat the bytes as hostile.
using BulkLocator = Locate (*)(ConstBytes prefix, BulkPlace& place);

// A sink: where the reply's bulk item is to land, without a copy if the transport can. With `pipes` the
// transport may leave one range of the item in a pipe instead of in `destination` (bulk_data.h).
struct Sink {
  Slice destination;  // empty: no bulk item expected
  BulkLocator locate = nullptr;
  // Where the item begins in the usual success reply (bytes from the XID); a hint.
  size_t expected_offset = 0;
  PipePool* pipes = nullptr;
};

struct Call {
  const char* op = "";  // static; for logs and statistics
  ByteVector head;  // the RPC call message from XID to the end, bulk items left out; the XID is patched in
  std::vector<xdr::Bulk> bulks;  // ascending positions; padding is the transport's
  std::vector<Slice> keep;  // what keeps the bulk items' memory alive: also when the call has ended without a
                            // reply, until its record, once begun, has left
  Sink sink;
  // The longest the reply may get, from the XID to the end, without its bulk item.
  size_t max_reply_bytes = 0;
  // Keeps the lease alive: does not wait behind calls that wait for a credit.
  bool renewal = false;
  // Part of the connection's handshake: sent before ready, failed (kReconnect) on loss.
  bool handshake = false;
  // The caller's; once true, the call is not sent on another connection than it was (kInterrupted). Null: it
  // is, until it has its reply.
  const std::atomic<bool>* abandoned = nullptr;
};

struct Reply {
  ByteVector head;         // the RPC reply from XID to the end, without the bulk item if it was placed
  size_t body = 0;         // offset in head where the accepted results begin
  bool placed = false;     // the bulk item went to the sink
  size_t bulk_length = 0;  // its length; its padding is gone
  ByteRange piped;         // of the item: what is in `pipe`
  PipeRef pipe;
};

struct Outcome {
  Result<Reply> reply;
  // How often the call's first byte was handed to a connection: 0 = the server never saw it; > 1 = sent
  // again.
  unsigned transmissions = 0;
};

enum class TransportState : uint8_t {
  kIdle,        // not started
  kConnecting,  // resolving and connecting
  kHandshake,   // connected; the on_connected hook runs
  kReady,
  kBackoff,  // lost; waiting before the next attempt
  kClosed,   // close() was called
};

// Counters and state for status and statistics. Snapshot; any thread may ask for one.
struct TransportStatus {
  TransportState state = TransportState::kIdle;
  std::string protocol;  // "tcp", "rdma"
  std::string peer;      // "10.0.0.1:2049", the address in use
  std::string local;     // our address
  uint64_t calls = 0;
  uint64_t replies = 0;
  uint64_t retransmissions = 0;
  uint64_t connects = 0;  // successful ones
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t bytes_placed = 0;   // received straight into a sink
  uint64_t bytes_spliced = 0;  // of these: moved on in a pipe
  uint64_t bytes_copied = 0;   // bulk bytes that were copied from a receive buffer
  uint64_t bad_messages = 0;   // malformed, unsolicited or oversized
  size_t pending = 0;
  bool responding = true;                // false between "not responding" and "OK"
  TimePoint stalled_since{};             // valid while !responding: when the oldest unanswered call was sent
  std::string last_error;                // why the connection was lost last
  std::optional<rdma::RdmaStatus> rdma;  // of an RPC-over-RDMA transport
};

class RpcTransport;
class MessageTap;

struct TransportHooks {
  // Runs after every connect, before any pending call is sent; may make calls with handshake = true. An error
  // drops the connection; then start() returns it, and later the transport backs off and tries again.
  std::function<Task<Result<>>(RpcTransport&)> on_connected;
  // A call from the server (the back channel): message from XID on; returns the complete reply message. An
  // empty reply drops the call. Absent hook: the call is answered with PROG_UNAVAIL.
  std::function<Task<ByteVector>(RpcTransport&, ByteVector)> on_call;
  // Sees every message, both ways; may be null.
  std::shared_ptr<MessageTap> tap;
};

class RpcTransport {
 public:
  virtual ~RpcTransport() = default;

  virtual Loop& loop() = 0;

  // One attempt to connect and shake hands. Whatever fails is returned (kPermanent: trying again is of no
  // use) and the transport is idle again; start() may be repeated. After the first success it reconnects by
  // itself, for ever.
  virtual Task<Result<>> start() = 0;

  // Sends `call` and waits for its reply, over as many connections as it takes. Errors:
  // kReconnect: handshake call and the connection was lost; kPermanent: the server rejected the RPC (auth,
  // program, version, garbage args: status = accept_stat or auth_stat), or the reply could not be decoded
  // (EIO); whatever fail_pending() was given; kInterrupted after close().
  virtual Task<Outcome> call(Call call) = 0;

  // Ends every pending call that is not part of a handshake: the session they belong to is gone.
  virtual void fail_pending(const Error& error) = 0;

  // Drops the connection as if it had been lost; pending calls are sent again on the next one.
  virtual void reconnect(const char* why) = 0;

  // Ends everything, in any state; pending calls fail with kInterrupted. Returns, never inline, when no
  // coroutine, timer or descriptor of the transport is left: it waits for hooks that still run, so they must
  // not wait for it. To be called before the transport is destroyed.
  virtual Task<> close() = 0;

  virtual TransportStatus status() const = 0;

  // How many calls the server takes at once on the present connection: the credits it has granted (RFC 8166
  // section 3.3.1); kNoCredits where a transport has none. 0: there is no connection. Any thread.
  static constexpr uint32_t kNoCredits = UINT32_MAX;
  virtual uint32_t credits() const = 0;
};

}  // namespace nfsrdma::rpc

// SPDX-License-Identifier: Apache-2.0
// RpcTransport: moves RPC messages between this client and one server over one connection at a time.
//
// It is the interface that all transports have in common. client/ knows nothing else of them.
//
// One transport lives on one loop; call() and the hooks run there. It manages the connection: connect,
// handshake (a hook: EXCHANGE_ID, BIND_CONN_TO_SESSION...), ready, lost, back-off, connect again. A call
// survives a lost connection. It stays pending, with its bytes, until its reply arrives or fail_pending()
// ends it, and is sent again, with the same XID and bytes (sealed anew if it has a CallSecurity), after each
// new handshake. So a session slot is never abandoned (RFC 8881 section 2.10.6). Calls have no deadline here:
// a caller that gives up (interrupt, soft mount) answers the application early and lets the call run on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/memory/bulk_data.h"
#include "transport/runtime/loop.h"
#include "transport/status/rdma_status.h"
#include "xdr/codec.h"
#include "xdr/support/bytes.h"
#include "xdr/support/result.h"

namespace nfsrdma::rpc {

// The place of a reply's only bulk item in the reply's XDR stream: `length` bytes at `offset` (from the XID
// on).
struct BulkPlace {
  size_t offset = 0;
  size_t length = 0;
};

enum class Locate : uint8_t {
  kNone,      // the reply has no bulk item (an error, or an unknown form): take it whole
  kNeedMore,  // more bytes are needed to decide
  kFound,
};

// Finds the bulk item from the first bytes of a reply (beginning with the XID). The caller provides it,
// because it knows the upper layer's format; the transport knows only bytes. Must treat the bytes as hostile.
using BulkLocator = Locate (*)(ConstBytes prefix, BulkPlace& place);

// A sink: where to put the reply's bulk item, without a copy if the transport can. With `pipes` the transport
// may leave one range of the item in a pipe instead of in `destination` (bulk_data.h).
struct Sink {
  Slice destination;  // empty: no bulk item expected
  BulkLocator locate = nullptr;
  // Where the item usually begins in a success reply (bytes from the XID); a hint.
  size_t expected_offset = 0;
  PipePool* pipes = nullptr;
};

class CallSecurity;

// An RPC message in pieces, from the XID to the end.
struct MessageParts {
  ByteVector head;               // the message without its bulk items
  std::vector<xdr::Bulk> bulks;  // in ascending positions; the transport adds padding
  std::vector<Slice> keep;       // keeps the bulk items' memory alive
};

// If a call ends without a reply after part of its record was sent, the transport keeps the memory of its
// message until the rest was sent. The transport writes the XID.
struct Call : MessageParts {
  const char* op = "";  // static; for logs and statistics
  Sink sink;
  // The maximum length of the reply in bytes, from the XID to the end, without its bulk item.
  size_t max_reply_bytes = 0;
  // Renews the lease: does not wait behind calls that wait for a credit.
  bool renewal = false;
  // Part of the connection's handshake: sent before kReady; fails (kReconnect) when the connection is lost.
  bool handshake = false;
  // Owned by the caller. Once true, the call is not sent on a further connection and ends with kInterrupted.
  // Null: it is sent again until it has its reply.
  const std::atomic<bool>* abandoned = nullptr;
  // Protects the call and verifies its reply. Null: the call is sent as it is. See call_security.h, also for
  // what it adds to max_reply_bytes and sink.expected_offset.
  std::shared_ptr<CallSecurity> security;
  uint32_t sequence = 0;  // for `security` alone: the sequence number of the last transmission
  // Made by security->seal(): what is sent instead of the call's own parts. Its bulk items may lie in the
  // memory of the call's own, which `keep` keeps alive. Null: arguments are in the clear.
  std::unique_ptr<MessageParts> sealed;

  // What goes to the server.
  const MessageParts& message() const {
    if (wrapped()) return *sealed;
    return *this;
  }
  // Arguments and results are wrapped: no part of the messages is a bulk item on the wire. Known once the
  // call is sealed.
  bool wrapped() const { return sealed != nullptr; }
};

struct Reply {
  ByteVector head;         // the RPC reply from XID to the end, without the bulk item if it was placed
  size_t body = 0;         // offset in head where the accepted results begin
  bool placed = false;     // the bulk item went to the sink
  size_t bulk_length = 0;  // its length, without padding
  ByteRange piped;         // the part of the item that is in `pipe`
  PipeRef pipe;
};

struct Outcome {
  Result<Reply> reply;
  // How often the call's first byte was given to a connection. 0: the server never saw the call; more than 1:
  // it was sent again.
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

// Counters and state for status and statistics. A snapshot; any thread may take one.
struct TransportStatus {
  TransportState state = TransportState::kIdle;
  std::string protocol;  // "tcp", "rdma"
  std::string peer;      // "10.0.0.1:2049", the address in use
  std::string local;     // our address
  std::string tls;       // "TLSv1.3 with TLS_AES_256_GCM_SHA384, server CN=filer"; empty: no TLS
  uint64_t calls = 0;
  uint64_t replies = 0;
  uint64_t retransmissions = 0;
  uint64_t connects = 0;  // successful connects
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t bytes_placed = 0;   // received directly into a sink
  uint64_t bytes_spliced = 0;  // of these, left in a pipe
  uint64_t bytes_copied = 0;   // bulk bytes that were copied from a receive buffer
  uint64_t bad_messages = 0;   // malformed, unsolicited or oversized
  size_t pending = 0;
  bool responding = true;                // false while the server counts as not responding
  TimePoint stalled_since{};             // valid while !responding: when the silence began
  std::string last_error;                // why the last connection was lost
  std::optional<rdma::RdmaStatus> rdma;  // only for RPC-over-RDMA
};

class RpcTransport;
class MessageTap;

struct TransportHooks {
  // Runs after every connect, before any pending call is sent. It may make calls with handshake = true. An
  // error drops the connection: start() then returns the error; later the transport backs off and tries
  // again.
  std::function<Task<Result<>>(RpcTransport&)> on_connected;
  // Handles a call from the server (the back channel). Gets the message from the XID on and returns the
  // complete reply message; an empty one means no reply. Without this hook every call is answered with
  // PROG_UNAVAIL.
  std::function<Task<ByteVector>(RpcTransport&, ByteVector)> on_call;
  // Sees every message in both directions; may be null.
  std::shared_ptr<MessageTap> tap;
};

class RpcTransport {
 public:
  virtual ~RpcTransport() = default;

  virtual Loop& loop() = 0;

  // One attempt to connect and shake hands. On an error (kPermanent: trying again does not help) the
  // transport is kIdle again, and start() may be called again. After the first success the transport
  // reconnects by itself, without limit.
  virtual Task<Result<>> start() = 0;

  // Sends `call`, which outlives it, and waits for its reply, over as many connections as needed. Errors:
  // kReconnect: a handshake call lost its connection; kPermanent: the server rejected the RPC (auth, program,
  // version, garbage args: status = accept_stat or auth_stat), or the reply could not be decoded (EIO);
  // Layer::kSecurity: Call::security could not seal the call, or verified none of its replies (EIO); the
  // error given to fail_pending(); kInterrupted after close().
  virtual Task<Outcome> call(Call& call) = 0;

  // Ends every pending call with `error`, except those of a handshake. For a session that is lost: its calls
  // must not be sent again on the next connection.
  virtual void fail_pending(const Error& error) = 0;

  // Drops the connection as if it had been lost; pending calls are sent again on the next one.
  virtual void reconnect(const char* why) = 0;

  // Ends everything, in any state; pending calls fail with kInterrupted. Returns, never inline, when no
  // coroutine, timer or descriptor of the transport is left. It waits for hooks that still run, so hooks must
  // not wait for it. Must be called before the transport is destroyed.
  virtual Task<> close() = 0;

  virtual TransportStatus status() const = 0;

  // How many calls the server accepts at once on the present connection: the credits it has granted (RFC 8166
  // section 3.3.1). kNoCredits: the transport has no credits. 0: there is no connection. Any thread.
  static constexpr uint32_t kNoCredits = UINT32_MAX;
  virtual uint32_t credits() const = 0;
};

}  // namespace nfsrdma::rpc

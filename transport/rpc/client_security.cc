// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "transport/rpc/call_security.h"
#include "transport/rpc/client_transport.h"
#include "transport/runtime/check.h"
#include "xdr/rpc.h"

namespace nfsrdma::rpc {
namespace {

// The first reply that does not verify may be the connection's fault. The second came on another connection.
constexpr unsigned kMostUnverified = 2;

Error unverified(std::string cause) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kReconnect,
          .errnum = EPROTO,
          .op = "connection",
          .cause = std::move(cause)};
}

// Ends the call: it is its context that does not work. Of a handshake's call the connection ends, too.
Error useless_security(const Call& call, Error why) {
  return {.layer = Layer::kSecurity,
          .recovery = call.handshake ? Recovery::kReconnect : Recovery::kPermanent,
          .errnum = EIO,
          .status = why.layer == Layer::kSecurity ? why.status : 0,
          .op = call.op,
          .cause = "no reply verifies: " + why.cause};
}

// Moves the bulk item of an unwrapped reply to the sink, as a transport places that of a reply in the clear.
void place_by_copy(const Sink& sink, ReceivedReply& reply) {
  BulkPlace at;
  if (sink.locate == nullptr || sink.destination.size() == 0) return;
  if (sink.locate(reply.head, at) != Locate::kFound) return;
  if (at.length > sink.destination.size()) {
    reply.defect = "more data than was asked for";
    return;
  }
  if (at.offset > reply.head.size() || xdr_padded(at.length) > reply.head.size() - at.offset) {
    reply.defect = "the reply ends within its data";
    return;
  }
  const auto item = reply.head.begin() + static_cast<ptrdiff_t>(at.offset);
  std::copy_n(item, at.length, sink.destination.bytes.begin());
  reply.head.erase(item, item + static_cast<ptrdiff_t>(xdr_padded(at.length)));
  reply.placed = true;
  reply.bulk_length = at.length;
}

}  // namespace

// A call that cannot be sealed ends from the loop's queue: its caller may not wait for it yet, and ready() is
// not finished with the others.
bool ClientTransport::seal(PendingCall& p) {
  Result<> sealed = p.call->security->seal(*p.call);
  if (sealed) {
    NFSRDMA_CHECK(p.call->wrapped() != p.call->security->results_in_clear());
    return true;
  }
  calls_.remove(p);
  pending_.store(calls_.size(), std::memory_order_relaxed);
  Error why = std::move(sealed).error();
  if (*why.op == '\0') why.op = p.call->op;
  auto pass = std::make_shared<Gate::Pass>(gate_.enter());
  loop_.post([&p, pass = std::move(pass), why = std::move(why)] {
    p.done.set(Outcome{fail(why), p.transmissions});
  });
  return false;
}

// What is not protected ends the call with an error and is believed so far: a defect that the transport
// found, and a denied reply, which has no verifier (RFC 2203 section 5.3.3.3). No result is.
//
// A reply that does not verify was changed on the way, or is not the server's. Its connection is dropped, and
// the call is sent again on the next one. If the reply to that does not verify either, the call ends with an
// error of Layer::kSecurity, so that its caller takes another context; the other calls of the connection go
// on. A handshake's call is not sent again, and ends at once. A bulk item in the clear may be in the sink by
// then (or in a pipe, which closes): nobody was told of it, the next reply overwrites it, and
// Reply::bulk_length says how much of the sink is that reply's.
bool ClientTransport::verify(Connection& connection, PendingCall& p, ReceivedReply& received) {
  if (received.defect != nullptr) return true;
  const Call& call = *p.call;
  reply_header header;
  xdr::Decoder x(received.head);
  Result<> opened;
  if (!x(header)) {
    opened = fail(unverified(x.failure()));
  } else if (header.stat == MSG_ACCEPTED) {
    opened = call.security->open(call, received);
  }
  if (!opened) {
    const bool last = call.handshake || ++p.unverified >= kMostUnverified;
    on_bad_message(connection, {"a reply that does not verify", !last, false, received.xid});
    answered_ = false;  // back off: the next connection may bring the same
    if (last) {
      calls_.remove(p);
      pending_.store(calls_.size(), std::memory_order_relaxed);
      const unsigned transmissions = p.transmissions;
      p.done.set(Outcome{fail(useless_security(call, std::move(opened).error())), transmissions});
      return false;  // the caller was resumed: nothing may follow
    }
    connection.drop(unverified("a reply does not verify: " + opened.error().cause));
    return false;
  }
  if (header.success() && call.wrapped()) {
    place_by_copy(call.sink, received);
    counters_.bytes_copied.add(received.bulk_length);
  }
  return true;
}

}  // namespace nfsrdma::rpc

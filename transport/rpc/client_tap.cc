// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/bulk_data.h"
#include "transport/rpc/client_transport.h"
#include "transport/rpc/message_tap.h"

namespace nfsrdma::rpc {
namespace {

void append(ByteVector& out, ConstBytes bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// A bulk item with its padding, which is zero (RFC 4506 section 4.10).
void append_item(ByteVector& out, ConstBytes item) {
  append(out, item);
  out.resize(out.size() + xdr_padding(item.size()));
}

// Where in the head the placed bulk item belongs.
size_t place_of_item(const Sink& sink, const ReceivedReply& received) {
  BulkPlace place;
  const bool found = sink.locate != nullptr && sink.locate(received.head, place) == Locate::kFound;
  return std::min(found ? place.offset : sink.expected_offset, received.head.size());
}

}  // namespace

bool ClientTransport::tapped() const {
  return hooks_.tap && hooks_.tap->on();
}

void ClientTransport::tap(bool sent, Connection& connection, ByteVector message) const {
  const std::string protocol = connection.protocol();
  hooks_.tap->message({.sent = sent,
                       .at = std::chrono::system_clock::now(),
                       .protocol = protocol,
                       .local = connection.local(),
                       .peer = connection.peer()},
                      std::move(message));
}

void ClientTransport::tap_call(const PendingCall& p) const {
  const MessageParts& parts = p.call->message();
  const ConstBytes head = parts.head;
  ByteVector message;
  size_t at = 0;
  for (const xdr::Bulk& bulk : parts.bulks) {
    append(message, head.subspan(at, bulk.inline_offset - at));
    append_item(message, bulk.data);
    at = bulk.inline_offset;
  }
  append(message, head.subspan(at));
  tap(true, *connection_, std::move(message));
}

void ClientTransport::tap_reply(Connection& connection, const PendingCall& p, ReceivedReply& received) const {
  if (received.defect != nullptr) return;  // not complete
  if (!received.placed) return tap(false, connection, received.head);
  const Sink& sink = p.call->sink;
  if (received.bulk_length > sink.destination.size()) return;
  if (!received.piped.empty()) {  // the tap was turned on after the call was made
    BulkData data{sink.destination, std::exchange(received.piped, {}), std::move(received.pipe)};
    if (!data.land()) {
      received.defect = "the pipe has lost data";
      return;
    }
  }
  const size_t place = place_of_item(sink, received);
  const ConstBytes head = received.head;
  ByteVector message;
  message.reserve(head.size() + received.bulk_length + 3);
  append(message, head.first(place));
  append_item(message, ConstBytes(sink.destination.bytes).first(received.bulk_length));
  append(message, head.subspan(place));
  tap(false, connection, std::move(message));
}

}  // namespace nfsrdma::rpc

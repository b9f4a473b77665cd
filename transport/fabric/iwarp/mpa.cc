// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/mpa.h"

#include <algorithm>
#include <cerrno>

namespace nfsrdma::fabric::iwarp {
namespace {

using Kind = StartupFrame::Kind;

constexpr std::string_view kRequestKey = "MPA ID Req Frame";
constexpr std::string_view kReplyKey = "MPA ID Rep Frame";
constexpr uint8_t kMarkers = 0x80;
constexpr uint8_t kCrc = 0x40;
constexpr uint8_t kRejected = 0x20;
constexpr uint8_t kEnhanced = 0x10;
constexpr size_t kEnhancedBytes = 4;
// Revision 1 does not transmit how many Reads a peer answers at a time. It must be able to answer one.
constexpr uint16_t kReadsUnlessSaid = 1;

constexpr std::string_view key_of(Kind kind) {
  return kind == Kind::kRequest ? kRequestKey : kReplyKey;
}

uint16_t depth_with_flags(uint16_t depth, bool high, bool low) {
  return static_cast<uint16_t>((high ? 0x8000 : 0) | (low ? 0x4000 : 0) | (depth & kDepthNotNegotiated));
}

Enhanced load_enhanced(const std::byte* from) {
  const uint16_t first = load_be16(from);
  const uint16_t second = load_be16(from + 2);
  Enhanced e;
  e.ird = first & kDepthNotNegotiated;
  e.ord = second & kDepthNotNegotiated;
  // "If Control Flag A is set to 0, then Control Flags B, C, and D MUST be ignored" (RFC 6581 section 9.2).
  e.peer_to_peer = (first & 0x8000) != 0;
  e.rtr_send = e.peer_to_peer && (first & 0x4000) != 0;
  e.rtr_write = e.peer_to_peer && (second & 0x8000) != 0;
  e.rtr_read = e.peer_to_peer && (second & 0x4000) != 0;
  return e;
}

}  // namespace

Error startup_error(std::string cause, int errnum) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kReconnect,
          .errnum = errnum == 0 ? EPROTO : errnum,
          .op = "MPA",
          .cause = std::move(cause)};
}

ByteVector encode(const StartupFrame& f) {
  const size_t extra = f.enhanced ? kEnhancedBytes : 0;
  ByteVector out(kFrameHeaderBytes + extra);
  const ConstBytes key = as_const_bytes(key_of(f.kind));
  std::copy(key.begin(), key.end(), out.begin());
  out[16] = static_cast<std::byte>((f.markers ? kMarkers : 0) | (f.crc ? kCrc : 0) |
                                   (f.rejected ? kRejected : 0) | (f.enhanced ? kEnhanced : 0));
  out[17] = std::byte{f.revision};
  store_be16(&out[18], static_cast<uint16_t>(extra + f.private_data.size()));
  if (f.enhanced) {
    store_be16(&out[20], depth_with_flags(f.enhanced->ird, f.enhanced->peer_to_peer, f.enhanced->rtr_send));
    store_be16(&out[22], depth_with_flags(f.enhanced->ord, f.enhanced->rtr_write, f.enhanced->rtr_read));
  }
  out.insert(out.end(), f.private_data.begin(), f.private_data.end());
  return out;
}

Result<size_t> private_data_bytes(ConstBytes header, Kind kind) {
  if (header.size() < kFrameHeaderBytes || as_string_view(header.first(16)) != key_of(kind))
    return fail(startup_error("the peer does not speak MPA"));
  const size_t bytes = load_be16(header.data() + 18);
  if (bytes > kMaxPrivateData) return fail(startup_error("private data of the peer are too long"));
  return bytes;
}

Result<StartupFrame> decode_startup(ConstBytes frame, Kind kind) {
  const Result<size_t> bytes = private_data_bytes(frame, kind);
  if (!bytes) return fail(bytes.error());
  if (frame.size() != kFrameHeaderBytes + *bytes) return fail(startup_error("MPA frame of a wrong length"));
  const auto bits = std::to_integer<uint8_t>(frame[16]);
  StartupFrame f;
  f.kind = kind;
  f.markers = (bits & kMarkers) != 0;
  f.crc = (bits & kCrc) != 0;
  f.rejected = kind == Kind::kReply && (bits & kRejected) != 0;
  f.revision = std::to_integer<uint8_t>(frame[17]);
  ConstBytes data = frame.subspan(kFrameHeaderBytes);
  // Revision 1 has no S bit: "MUST NOT be checked on reception" there.
  if ((bits & kEnhanced) != 0 && f.revision >= 2) {
    if (data.size() < kEnhancedBytes) return fail(startup_error("MPA frame without the IRD it announces"));
    f.enhanced = load_enhanced(data.data());
    data = data.subspan(kEnhancedBytes);
  }
  f.private_data.assign(data.begin(), data.end());
  return f;
}

StartupFrame make_request(const StartupTerms& terms) {
  StartupFrame f;
  f.crc = terms.crc;
  f.enhanced.emplace();
  f.enhanced->ird = terms.ird;
  f.enhanced->ord = terms.ord;
  f.private_data = terms.private_data;
  return f;
}

tl::expected<Agreed, Refusal> judge_reply(const StartupTerms& terms, const StartupFrame& reply) {
  const auto refuse = [](const char* cause, int errnum = EPROTO, std::optional<TermCode> code = {}) {
    return tl::unexpected<Refusal>(Refusal{startup_error(cause, errnum), code});
  };
  // Revisions 1 and 2 are accepted: a peer that knows only revision 1 may answer with that instead of
  // closing.
  if (!known_revision(reply)) return refuse("the peer answers in an unknown MPA revision");
  if (reply.rejected) return refuse("the peer refused the connection", ECONNREFUSED);
  if (reply.markers) return refuse("the peer requires MPA markers");
  // "When this bit is '1' in either the MPA Request Frame or MPA Reply Frame, CRCs MUST be generated and
  // checked by both endpoints" (RFC 5044 section 7.1.1).
  Agreed a{terms.crc || reply.crc, terms.ird, std::min(terms.ord, kReadsUnlessSaid)};
  if (!reply.enhanced) return a;
  const auto& e = *reply.enhanced;
  // "its ORD at most to the responder IRD"; all ones: no limit (RFC 6581 section 9.1).
  a.ord = e.ird == kDepthNotNegotiated ? terms.ord : std::min(terms.ord, e.ird);
  if (e.ord != kDepthNotNegotiated && e.ord > terms.ird)
    return refuse("the peer wants more RDMA Reads than were offered", EPROTO, term::kInsufficientIrd);
  // We ask for the client-server model; "the responder MUST set Control Flag A to 0 if Control Flag A is 0 in
  // the request". If the peer requests an RTR message nevertheless, we send a zero-length Write, provided
  // that the peer accepts one.
  if (e.peer_to_peer && !e.rtr_write)
    return refuse("the peer wants a first message that we do not send", EPROTO, term::kNoMatchingRtr);
  return a;
}

bool known_revision(const StartupFrame& f) {
  return f.revision == 1 || f.revision == 2;
}

Result<Answer> make_answer(const StartupTerms& terms, const StartupFrame& request) {
  if (!known_revision(request)) return fail(startup_error("the peer asks in an unknown MPA revision"));
  if (request.markers) return fail(startup_error("the peer requires MPA markers"));
  Answer a;
  a.agreed = {terms.crc || request.crc, terms.ird, std::min(terms.ord, kReadsUnlessSaid)};
  a.reply.kind = Kind::kReply;
  // "All responders are REQUIRED to issue unenhanced RDMA connection establishment responses in response to
  // unenhanced RDMA connection establishment requests" (RFC 6581 section 10).
  a.reply.revision = request.revision;
  a.reply.crc = a.agreed.crc;
  a.reply.private_data = terms.private_data;
  if (!request.enhanced) return a;
  const auto& e = *request.enhanced;
  auto& mine = a.reply.enhanced.emplace();
  // "The responder MUST set its ORD at most to the initiator IRD"; all ones is answered with all ones.
  a.agreed.ord = e.ird == kDepthNotNegotiated ? terms.ord : std::min(terms.ord, e.ird);
  a.agreed.ird = e.ord == kDepthNotNegotiated ? terms.ird : std::min(terms.ird, e.ord);
  // A zero-length Read as the RTR message needs an IRD of one.
  if (e.rtr_read) a.agreed.ird = std::max<uint16_t>(a.agreed.ird, 1);
  mine.ord = e.ird == kDepthNotNegotiated ? kDepthNotNegotiated : a.agreed.ord;
  mine.ird = e.ord == kDepthNotNegotiated ? kDepthNotNegotiated : a.agreed.ird;
  // Every RTR message is accepted: each shows that the initiator is ready.
  mine.peer_to_peer = mine.rtr_send = mine.rtr_write = mine.rtr_read = e.peer_to_peer;
  return a;
}

StartupFrame make_rejection(const StartupFrame& request) {
  StartupFrame f;
  f.kind = Kind::kReply;
  f.revision = request.revision;
  f.rejected = true;
  f.crc = request.crc;
  if (request.enhanced) f.enhanced.emplace();
  return f;
}

}  // namespace nfsrdma::fabric::iwarp

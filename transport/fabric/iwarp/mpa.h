// SPDX-License-Identifier: Apache-2.0
// MPA start-up: the frames that turn a TCP connection into an RDMA connection, and the agreement of the two
// sides.
//
// RFC 5044 section 7.1.1, RFC 6581 sections 6 and 9:
//   ["MPA ID Req Frame" or "MPA ID Rep Frame", 16 bytes][M C R S rsvd:4][revision u8][PD_Length u16]
//   [private data, at most 512 bytes; with S it begins with [A B IRD:14][C D ORD:14]]
// M: the sender wants markers in what it receives. C: it wants CRCs. R, of a reply: refused. S: enhanced.
//
// Pure: no socket, no clock. We never send markers and never request them.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/fabric/iwarp/terminate.h"
#include "xdr/support/result.h"

namespace nfsrdma::fabric::iwarp {

inline constexpr size_t kFrameHeaderBytes = 20;
inline constexpr size_t kMaxPrivateData = 512;
// RFC 6581 section 9.1: "automatic negotiation of the IRD or ORD is not desired".
inline constexpr uint16_t kDepthNotNegotiated = 0x3fff;

// The fields that RFC 6581 adds.
struct Enhanced {
  uint16_t ird = 0;  // 14 bits: RDMA Reads that the sender answers at a time
  uint16_t ord = 0;  // RDMA Reads that the sender wants to have outstanding
  bool peer_to_peer = false;
  bool rtr_send = false;
  bool rtr_write = false;
  bool rtr_read = false;
  bool operator==(const Enhanced&) const = default;
};

struct StartupFrame {
  enum class Kind : uint8_t { kRequest, kReply };
  Kind kind = Kind::kRequest;
  bool markers = false;
  bool crc = false;
  bool rejected = false;
  uint8_t revision = 2;
  std::optional<Enhanced> enhanced;
  ByteVector private_data;  // the upper layer's
  bool operator==(const StartupFrame&) const = default;
};

// Encodes a frame; private data and `enhanced` together must not exceed kMaxPrivateData.
ByteVector encode(const StartupFrame& frame);
// The length of the private data behind this header. Errors: EPROTO: not an MPA frame of this kind, or too
// long.
Result<size_t> private_data_bytes(ConstBytes header, StartupFrame::Kind kind);
// A whole frame. Errors: EPROTO.
Result<StartupFrame> decode_startup(ConstBytes frame, StartupFrame::Kind kind);

// What one side offers in the negotiation.
struct StartupTerms {
  bool crc = false;
  uint16_t ird = 0;
  uint16_t ord = 0;
  ByteVector private_data;
};

// The agreed values, as one side sees them.
struct Agreed {
  bool crc = false;
  uint16_t ird = 0;  // Reads the peer may have outstanding
  uint16_t ord = 0;  // Reads we may have outstanding
};

// The request of the active side.
StartupFrame make_request(const StartupTerms& terms);

struct Refusal {
  Error error;
  std::optional<TermCode> terminate;  // to be sent before closing
};
// The active side evaluates the reply.
tl::expected<Agreed, Refusal> judge_reply(const StartupTerms& terms, const StartupFrame& reply);

struct Answer {
  StartupFrame reply;
  Agreed agreed;
};
// The passive side's reply to a request that it wants to accept. Errors: EPROTO: the peer requires something
// that we do not support. Reply with make_rejection() then, if `revision` is known.
Result<Answer> make_answer(const StartupTerms& terms, const StartupFrame& request);
StartupFrame make_rejection(const StartupFrame& request);
bool known_revision(const StartupFrame& request);

Error startup_error(std::string cause, int errnum = 0);

}  // namespace nfsrdma::fabric::iwarp

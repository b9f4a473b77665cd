// SPDX-License-Identifier: Apache-2.0
// FPDU, DDP and RDMAP headers: the bytes before the payload of every frame after the start-up.
//
// FPDU, RFC 5044 section 4.1:   [ULPDU length u16][ULPDU][0-3 bytes of padding, zero][CRC32c]
//                               a multiple of four in all; the length counts the ULPDU alone.
// Tagged ULPDU, RFC 5041 section 4.2:    [T=1 L rsvd:4 DV:2][RDMAP u8][STag u32][TO u64][payload]
// Untagged ULPDU, RFC 5041 section 4.3:  [T=0 L rsvd:4 DV:2][RDMAP u8][Invalidate STag u32][QN u32][MSN u32]
//                                        [MO u32][payload]
// RDMAP control, RFC 5040 section 4.1:   [RV:2 rsvd:2 opcode:4]
// Read Request, RFC 5040 section 4.4:    [SinkSTag u32][SinkTO u64][size u32][SrcSTag u32][SrcTO u64]
//
// Values only: nothing here validates them.
#pragma once

#include <array>
#include <cstdint>

#include "transport/fabric/iwarp/words.h"

namespace nfsrdma::fabric::iwarp {

inline constexpr size_t kLengthBytes = 2;
inline constexpr size_t kCrcBytes = 4;
inline constexpr size_t kMaxUlpduBytes = 0xffff;
inline constexpr size_t kTaggedBytes = 14;
inline constexpr size_t kUntaggedBytes = 18;
inline constexpr size_t kReadRequestBytes = 28;

constexpr size_t fpdu_padding(size_t ulpdu_bytes) {
  return (4 - (kLengthBytes + ulpdu_bytes) % 4) % 4;
}
constexpr size_t fpdu_bytes(size_t ulpdu_bytes) {
  return kLengthBytes + ulpdu_bytes + fpdu_padding(ulpdu_bytes) + kCrcBytes;
}
inline constexpr size_t kMaxFpduBytes = fpdu_bytes(kMaxUlpduBytes);

enum class Opcode : uint8_t {  // RFC 5040 section 4.1, figure 4; 8 to 15 are reserved
  kWrite = 0,
  kReadRequest = 1,
  kReadResponse = 2,
  kSend = 3,
  kSendInvalidate = 4,
  kSendSolicited = 5,
  kSendSolicitedInvalidate = 6,
  kTerminate = 7,
};
inline bool invalidates(Opcode op) {
  return op == Opcode::kSendInvalidate || op == Opcode::kSendSolicitedInvalidate;
}

// The untagged queues, RFC 5040 section 4.1.
inline constexpr uint32_t kSendQueue = 0;
inline constexpr uint32_t kReadRequestQueue = 1;
inline constexpr uint32_t kTerminateQueue = 2;
inline constexpr uint32_t kQueues = 3;

inline constexpr uint8_t kDdpVersion = 1;
// RFC 5040 section 4.1: 01b is the RFC's, 00b the RDMA Consortium's; "both version numbers are valid".
inline constexpr uint8_t kRdmapVersion = 1;

struct Segment {
  bool tagged = false;
  bool last = false;
  uint8_t ddp_version = kDdpVersion;
  uint8_t rdmap_version = kRdmapVersion;
  Opcode opcode = Opcode::kSend;
  // Tagged.
  uint32_t stag = 0;
  uint64_t offset = 0;
  // Untagged.
  uint32_t invalidate = 0;
  uint32_t queue = 0;
  uint32_t msn = 0;
  uint32_t message_offset = 0;

  size_t header_bytes() const { return tagged ? kTaggedBytes : kUntaggedBytes; }
  bool operator==(const Segment&) const = default;
};

// The length of the header that begins with this byte.
inline size_t header_bytes(std::byte control) {
  return (control & std::byte{0x80}) != std::byte{0} ? kTaggedBytes : kUntaggedBytes;
}
// `from` has header_bytes(*from) bytes.
Segment load_segment(const std::byte* from);
void store_segment(const Segment& segment, std::byte* to);

struct ReadRequest {
  uint32_t sink_stag = 0;
  uint64_t sink_offset = 0;
  uint32_t bytes = 0;
  uint32_t source_stag = 0;
  uint64_t source_offset = 0;
  bool operator==(const ReadRequest&) const = default;
};
ReadRequest load_read_request(const std::byte* from);
void store_read_request(const ReadRequest& request, std::byte* to);

}  // namespace nfsrdma::fabric::iwarp

// SPDX-License-Identifier: Apache-2.0
// The Terminate Message: the last message of one side, with the reason (RFC 5040 section 4.8).
//
// [layer:4 type:4][code u8][M:1 D:1 R:1 rsvd:13] then, if M, [length of the terminated DDP segment u16], if D
// its DDP header (14 or 18 bytes), if R its RDMAP header (28 bytes, of a Read Request). At most 52 bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "transport/fabric/iwarp/ddp.h"

namespace nfsrdma::fabric::iwarp {

struct TermCode {
  uint8_t layer = 0;
  uint8_t type = 0;
  uint8_t code = 0;
  bool operator==(const TermCode&) const = default;
};

namespace term {
// Layer 0, RDMAP (RFC 5040 figure 9): type 1 remote protection, type 2 remote operation.
inline constexpr TermCode kReadInvalidStag{0, 1, 0x00};
inline constexpr TermCode kReadBounds{0, 1, 0x01};
inline constexpr TermCode kReadAccess{0, 1, 0x02};
inline constexpr TermCode kReadWrap{0, 1, 0x04};
inline constexpr TermCode kCannotInvalidate{0, 1, 0x09};
inline constexpr TermCode kRdmapVersion{0, 2, 0x05};
inline constexpr TermCode kUnexpectedOpcode{0, 2, 0x06};
inline constexpr TermCode kUnspecified{0, 2, 0xff};
// Layer 1, DDP (RFC 5041 section 7.2): type 1 tagged buffer, type 2 untagged buffer.
inline constexpr TermCode kInvalidStag{1, 1, 0x00};
inline constexpr TermCode kBounds{1, 1, 0x01};
inline constexpr TermCode kWrap{1, 1, 0x03};
inline constexpr TermCode kTaggedVersion{1, 1, 0x04};
inline constexpr TermCode kInvalidQueue{1, 2, 0x01};
inline constexpr TermCode kNoBuffer{1, 2, 0x02};
inline constexpr TermCode kInvalidMsn{1, 2, 0x03};
inline constexpr TermCode kInvalidOffset{1, 2, 0x04};
inline constexpr TermCode kTooLong{1, 2, 0x05};
inline constexpr TermCode kUntaggedVersion{1, 2, 0x06};
// Layer 2, MPA (RFC 5044 section 8, RFC 6581 section 8).
inline constexpr TermCode kCrc{2, 0, 0x02};
inline constexpr TermCode kFpduStart{2, 0, 0x03};
inline constexpr TermCode kInsufficientIrd{2, 0, 0x06};
inline constexpr TermCode kNoMatchingRtr{2, 0, 0x07};
}  // namespace term

inline constexpr size_t kMaxTerminateBytes = 4 + 2 + kUntaggedBytes + kReadRequestBytes;

struct Terminate {
  TermCode code;
  // The segment in error. The header's first byte determines its length.
  std::optional<uint16_t> segment_bytes;
  std::optional<std::array<std::byte, kUntaggedBytes>> ddp_header;
  std::optional<std::array<std::byte, kReadRequestBytes>> read_request;
};

ByteVector encode(const Terminate& terminate);
// nullopt: too short for what its bits announce. Bytes behind it are ignored.
std::optional<Terminate> decode_terminate(ConstBytes message);

// "DDP: base or bounds violation".
std::string to_string(TermCode code);

}  // namespace nfsrdma::fabric::iwarp

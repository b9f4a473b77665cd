// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/terminate.h"

#include <algorithm>
#include <iterator>

namespace nfsrdma::fabric::iwarp {
namespace {

constexpr uint8_t kLengthValid = 0x80;   // M
constexpr uint8_t kDdpIncluded = 0x40;   // D
constexpr uint8_t kReadIncluded = 0x20;  // R

struct Name {
  TermCode code;
  const char* text;
};
constexpr Name kNames[] = {
    {term::kReadInvalidStag, "RDMAP: invalid STag"},
    {term::kReadBounds, "RDMAP: base or bounds violation"},
    {term::kReadAccess, "RDMAP: access rights violation"},
    {{0, 1, 0x03}, "RDMAP: STag not associated with the stream"},
    {term::kReadWrap, "RDMAP: tagged offset wraps"},
    {term::kCannotInvalidate, "RDMAP: STag cannot be invalidated"},
    {term::kRdmapVersion, "RDMAP: invalid version"},
    {term::kUnexpectedOpcode, "RDMAP: unexpected opcode"},
    {{0, 2, 0x07}, "RDMAP: catastrophic error of the stream"},
    {{0, 2, 0x08}, "RDMAP: catastrophic error, global"},
    {{0, 2, 0x09}, "RDMAP: STag cannot be invalidated"},
    {term::kUnspecified, "RDMAP: unspecified error"},
    {term::kInvalidStag, "DDP: invalid STag"},
    {term::kBounds, "DDP: base or bounds violation"},
    {{1, 1, 0x02}, "DDP: STag not associated with the stream"},
    {term::kWrap, "DDP: tagged offset wraps"},
    {term::kTaggedVersion, "DDP: invalid version of a tagged segment"},
    {term::kInvalidQueue, "DDP: invalid queue number"},
    {term::kNoBuffer, "DDP: no buffer for the message"},
    {term::kInvalidMsn, "DDP: invalid message sequence number"},
    {term::kInvalidOffset, "DDP: invalid message offset"},
    {term::kTooLong, "DDP: message too long for the buffer"},
    {term::kUntaggedVersion, "DDP: invalid version of an untagged segment"},
    {{2, 0, 0x01}, "MPA: TCP connection lost"},
    {term::kCrc, "MPA: CRC error"},
    {term::kFpduStart, "MPA: frame length error"},
    {{2, 0, 0x04}, "MPA: invalid request or reply frame"},
    {{2, 0, 0x05}, "MPA: local catastrophic error"},
    {term::kInsufficientIrd, "MPA: insufficient IRD resources"},
    {term::kNoMatchingRtr, "MPA: no matching RTR option"},
};

}  // namespace

ByteVector encode(const Terminate& t) {
  ByteVector out(4);
  out[0] = static_cast<std::byte>(t.code.layer << 4 | t.code.type);
  out[1] = static_cast<std::byte>(t.code.code);
  out[2] = static_cast<std::byte>((t.segment_bytes ? kLengthValid : 0) | (t.ddp_header ? kDdpIncluded : 0) |
                                  (t.read_request ? kReadIncluded : 0));
  if (t.segment_bytes) {
    out.resize(out.size() + 2);
    store_be16(out.data() + 4, *t.segment_bytes);
  }
  if (t.ddp_header) {
    const auto size = static_cast<ptrdiff_t>(header_bytes(t.ddp_header->front()));
    out.insert(out.end(), t.ddp_header->begin(), t.ddp_header->begin() + size);
  }
  if (t.read_request) out.insert(out.end(), t.read_request->begin(), t.read_request->end());
  return out;
}

std::optional<Terminate> decode_terminate(ConstBytes m) {
  if (m.size() < 4) return std::nullopt;
  Terminate t;
  const auto first = std::to_integer<uint8_t>(m[0]);
  t.code = {static_cast<uint8_t>(first >> 4), static_cast<uint8_t>(first & 15),
            std::to_integer<uint8_t>(m[1])};
  const auto bits = std::to_integer<uint8_t>(m[2]);
  m = m.subspan(4);
  if ((bits & kLengthValid) != 0) {
    if (m.size() < 2) return std::nullopt;
    t.segment_bytes = load_be16(m.data());
    m = m.subspan(2);
  }
  if ((bits & kDdpIncluded) != 0) {
    if (m.empty() || m.size() < header_bytes(m[0])) return std::nullopt;
    const size_t size = header_bytes(m[0]);
    std::copy_n(m.begin(), size, t.ddp_header.emplace().begin());
    m = m.subspan(size);
  }
  if ((bits & kReadIncluded) != 0) {
    if (m.size() < kReadRequestBytes) return std::nullopt;
    std::copy_n(m.begin(), kReadRequestBytes, t.read_request.emplace().begin());
  }
  return t;
}

std::string to_string(TermCode code) {
  const auto* found =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const Name& n) { return n.code == code; });
  if (found != std::end(kNames)) return found->text;
  return "layer " + std::to_string(code.layer) + ", type " + std::to_string(code.type) + ", code " +
         std::to_string(code.code);
}

}  // namespace nfsrdma::fabric::iwarp

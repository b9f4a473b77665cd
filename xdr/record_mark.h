// SPDX-License-Identifier: Apache-2.0
// Record marking: RPC messages in a byte stream (RFC 5531 section 11).
//
// A message is one record. A record is one or more fragments, each preceded by four bytes in network order:
//
//     bit 31      1 = last fragment of the record
//     bits 30..0  length of the fragment in bytes (0 is legal)
//
// Constants and pure functions. Code that reads the stream has to check the lengths.
#pragma once

#include <array>
#include <cstdint>

#include "xdr/support/bytes.h"

namespace nfsrdma::rpc {

inline constexpr size_t kRecordMarkBytes = 4;
inline constexpr uint32_t kLastFragment = 0x80000000;
inline constexpr uint32_t kFragmentLengthMask = 0x7fffffff;

struct RecordMark {
  bool last = true;
  uint32_t length = 0;  // at most kFragmentLengthMask

  bool operator==(const RecordMark&) const = default;
};

inline std::array<std::byte, kRecordMarkBytes> encode_record_mark(RecordMark mark) {
  std::array<std::byte, kRecordMarkBytes> bytes{};
  store_be32(bytes.data(), (mark.length & kFragmentLengthMask) | (mark.last ? kLastFragment : 0));
  return bytes;
}

inline RecordMark decode_record_mark(std::span<const std::byte, kRecordMarkBytes> bytes) {
  const uint32_t word = load_be32(bytes.data());
  return {(word & kLastFragment) != 0, word & kFragmentLengthMask};
}

}  // namespace nfsrdma::rpc

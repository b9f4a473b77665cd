// Hexadecimal text with blanks to bytes.
#pragma once

#include <string_view>

#include "xdr/support/bytes.h"

namespace nfsrdma::test {

inline ByteVector from_hex(std::string_view text) {
  ByteVector out;
  unsigned value = 0;
  int digits = 0;
  for (const char c : text) {
    if (c == ' ') continue;
    value = value << 4 | static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
    if (++digits % 2 == 0) out.push_back(static_cast<std::byte>(value));
  }
  return out;
}

}  // namespace nfsrdma::test

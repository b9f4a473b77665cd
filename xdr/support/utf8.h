// SPDX-License-Identifier: Apache-2.0
// Checks for UTF-8 by RFC 3629: shortest forms only, no surrogates, nothing above U+10FFFF. (RFC 8881 section
// 14.4: a name that is not UTF-8 is NFS4ERR_INVAL.)
#pragma once

#include <cstdint>
#include <string_view>

namespace nfsrdma {

inline bool is_utf8(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  for (size_t i = 0; i < s.size();) {
    const uint8_t first = byte(i);
    size_t more = 0;
    uint32_t point = first;
    if (first >= 0xf0 && first <= 0xf4) {
      more = 3;
      point = first & 0x07;
    } else if (first >= 0xe0) {
      more = 2;
      point = first & 0x0f;
    } else if (first >= 0xc2) {
      more = 1;
      point = first & 0x1f;
    } else if (first >= 0x80) {
      return false;
    }
    if (first > 0xf4 || i + more >= s.size()) return false;
    for (size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
      point = point << 6 | (byte(i + k) & 0x3f);
    }
    if ((more == 2 && point < 0x800) || (more == 3 && (point < 0x10000 || point > 0x10ffff))) return false;
    if (point >= 0xd800 && point <= 0xdfff) return false;
    i += more + 1;
  }
  return true;
}

}  // namespace nfsrdma

// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/hex.h"

#include <cstdio>
#include <cstdlib>

namespace nfsrdma::golden {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void die(const std::string& what) {
  std::fprintf(stderr, "golden: %s\n", what.c_str());
  std::abort();
}

ByteVector from_hex(std::string_view text) {
  ByteVector bytes;
  int high = -1;
  bool comment = false;
  for (const char c : text) {
    if (c == '#') comment = true;
    if (c == '\n') comment = false;
    if (comment || c == ' ' || c == '\n' || c == '\t') continue;
    const int value = digit(c);
    if (value < 0) die(std::string("not a hexadecimal digit: ") + c);
    if (high < 0) {
      high = value;
    } else {
      bytes.push_back(static_cast<std::byte>(high << 4 | value));
      high = -1;
    }
  }
  if (high >= 0) die("odd number of hexadecimal digits");
  return bytes;
}

std::string to_hex(ConstBytes bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    if (i != 0 && i % 4 == 0) text += ' ';
    text += kDigits[std::to_integer<unsigned>(bytes[i]) >> 4];
    text += kDigits[std::to_integer<unsigned>(bytes[i]) & 15];
  }
  return text;
}

}  // namespace nfsrdma::golden

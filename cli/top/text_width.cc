// SPDX-License-Identifier: Apache-2.0
// The width of text in terminal columns. The functions do not use the locale's wcwidth(3), so that the result
// does not depend on the locale of a test run.
#include <algorithm>
#include <iterator>

#include "cli/top/top_view.h"

namespace nfsrdma::cli::top {
namespace {

struct Character {
  size_t bytes = 1;
  char32_t code = 0;
};

// printable() has made the text valid UTF-8.
Character first_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (bytes == 1 || bytes > text.size()) return {1, lead};
  char32_t code = lead & (0xff >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  return {bytes, code};
}

struct Range {
  char32_t first, last;
};
// Unicode's East Asian Width "W" and "F" by their large blocks, and characters that combine with the previous
// one.
constexpr Range kWide[] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf},   {0xac00, 0xd7a3},
                           {0xf900, 0xfaff}, {0xfe30, 0xfe6f},   {0xff00, 0xff60},
                           {0xffe0, 0xffe6}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
constexpr Range kNone[] = {{0x0300, 0x036f}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}};

size_t width_of(char32_t code) {
  const auto in = [code](const Range& r) { return code >= r.first && code <= r.last; };
  if (std::any_of(std::begin(kNone), std::end(kNone), in)) return 0;
  return std::any_of(std::begin(kWide), std::end(kWide), in) ? 2 : 1;
}

}  // namespace

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Character c = first_of(text);
    columns += width_of(c.code);
    text.remove_prefix(c.bytes);
  }
  return columns;
}

std::string cut(std::string_view text, size_t columns) {
  size_t at = 0, used = 0;
  while (at < text.size()) {
    const Character c = first_of(text.substr(at));
    if (used + width_of(c.code) > columns) break;
    used += width_of(c.code);
    at += c.bytes;
  }
  return std::string(text.substr(0, at));
}

std::string to_ascii(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character c = first_of(text);
    out += c.code < 0x80 ? text.front() : '?';
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace nfsrdma::cli::top

// SPDX-License-Identifier: Apache-2.0
#include "cli/support/outcome.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace nfsrdma::cli {
namespace {

struct Character {
  char32_t code = 0;
  size_t bytes = 0;  // 0: not UTF-8
};

// RFC 3629 section 4: overlong forms and surrogates are not valid UTF-8.
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  char32_t code = first & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, bytes};
}

// Characters that a terminal executes: the C0 and C1 sets of ECMA-48, Unicode's line and paragraph
// separators, and the characters of UAX #9 that change the display order of text (Bidi_Control).
bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

std::string without_controls(std::string_view text, std::string_view but) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    const size_t bytes = std::max<size_t>(c.bytes, 1);
    if (c.bytes == 0 ||
        (is_control(c.code) && c.code < 0x80 && but.find(text[0]) == std::string_view::npos)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (is_control(c.code) && c.code >= 0x80) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c.code));
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) {
  return without_controls(text, "");
}

std::string printable_text(std::string_view text) {
  return without_controls(text, "\n\t");
}

int report(std::string_view program, const Failure& failure) {
  std::fflush(stdout);  // so that earlier output also comes first when both go to one file or pipe
  // A single write: several daemons that start from fstab share the console.
  const std::string line = fmt::format("{}: {}\n", program, printable(failure.text));
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  return failure.exit_code;
}

}  // namespace nfsrdma::cli

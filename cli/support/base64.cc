// SPDX-License-Identifier: Apache-2.0
#include "cli/support/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace nfsrdma::cli {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNone = 0xff;

constexpr std::array<uint8_t, 256> values() {
  std::array<uint8_t, 256> table{};
  table.fill(kNone);
  for (size_t i = 0; i < kAlphabet.size(); ++i)
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<uint8_t>(i);
  return table;
}
constexpr std::array<uint8_t, 256> kValues = values();

}  // namespace

std::string to_base64(ConstBytes bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < n ? std::to_integer<uint32_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) text += i <= n ? kAlphabet[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

std::optional<ByteVector> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  ByteVector bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t at = 0; at < text.size(); at += 4) {
    uint32_t group = 0;
    for (size_t i = 0; i < 4; ++i) {
      const bool padded = at + i >= text.size() - padding;
      const uint8_t value = padded ? 0 : kValues[static_cast<unsigned char>(text[at + i])];
      if (value == kNone) return std::nullopt;
      group = group << 6 | value;
    }
    for (const unsigned shift : {16u, 8u, 0u}) bytes.push_back(static_cast<std::byte>(group >> shift & 0xff));
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace nfsrdma::cli

// SPDX-License-Identifier: Apache-2.0
#include "mpa_frames.h"

namespace frames {

namespace {

constexpr size_t kDdp = kHeaderBytes - 2;
constexpr size_t kMostData = 65'520;

size_t end_bytes(size_t data) {
  return (4 - (kHeaderBytes + data) % 4) % 4 + 4;
}

void put_header(unsigned char* to, size_t data) {
  to[0] = static_cast<unsigned char>((kDdp + data) >> 8);
  to[1] = static_cast<unsigned char>(kDdp + data);
}

size_t data_bytes(const unsigned char* header) {
  const size_t ulpdu = static_cast<size_t>(header[0] << 8 | header[1]);
  return ulpdu < kDdp ? 0 : ulpdu - kDdp;
}

}  // namespace

Whole::Whole(char* data, size_t size) {
  words_.reserve(size / kMostData + 2);
  size_t end = 0;
  while (size != 0) {
    const size_t most = size % kMostData == 0 ? kMostData : size % kMostData;
    add(end, most);
    parts_.push_back({data, most});
    data += most;
    size -= most;
    size_ += most;
    end = end_bytes(most);
  }
  add(end, 0);
}

void Whole::add(size_t end, size_t data) {
  Words& words = words_.emplace_back(Words{.end = end, .data = data});
  if (data != 0) put_header(words.bytes.data() + end, data);
  const size_t size = end + (data != 0 ? kHeaderBytes : 0);
  parts_.push_back({words.bytes.data(), size});
  size_ += size;
}

bool Whole::as_expected() const {
  for (const Words& words : words_) {
    if (words.data != 0 && data_bytes(words.bytes.data() + words.end) != words.data) return false;
  }
  return true;
}

}  // namespace frames

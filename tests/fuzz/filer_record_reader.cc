// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: a byte stream as the filer receives it, in chunks of any sizes.
//
// Checked: the messages are the same as those of a simple parser of the whole stream, or the stream breaks at
// the same place. Memory is held only for received bytes, and never more than a record may have.
//
// Input: one byte n (mod 16), n chunk sizes of one byte (0 means 256), then the stream.
#include "filer/links/record_reader.h"

#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

namespace {

using namespace nfsrdma;  // NOLINT

constexpr size_t kMaxRecord = 64u << 10;
constexpr unsigned kMostEmptyFragments = 16;  // in a row

struct Reading {
  std::vector<ByteVector> messages;
  bool broken = false;
};

// RFC 5531 section 11: "A record is composed of one or more record fragments", each preceded by four bytes: a
// bit for the last fragment, and the length.
Reading plain(ConstBytes in) {
  Reading r;
  ByteVector message;
  unsigned empty = 0;
  while (in.size() >= 4) {
    const uint32_t mark = load_be32(in.data());
    const size_t length = mark & 0x7fffffffu;
    empty = length == 0 ? empty + 1 : 0;
    if (length > kMaxRecord - message.size() || empty > kMostEmptyFragments) {
      r.broken = true;
      return r;
    }
    in = in.subspan(4);
    if (in.size() < length) return r;
    message.insert(message.end(), in.begin(), in.begin() + static_cast<ptrdiff_t>(length));
    in = in.subspan(length);
    if ((mark >> 31) != 0) r.messages.push_back(std::exchange(message, {}));
  }
  return r;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  std::vector<size_t> chunks;
  for (unsigned n = input.byte() % 16; n > 0; --n) {
    const uint8_t bytes = input.byte();
    chunks.push_back(bytes == 0 ? 256 : bytes);
  }
  const ConstBytes stream = input.bytes(size);
  const Reading expected = plain(stream);

  filer::links::RecordReader reader(kMaxRecord);
  Reading got;
  size_t came = 0;
  size_t taken = 0;  // the bytes of complete messages
  for (size_t turn = 0; came < stream.size() && !reader.broken(); ++turn) {
    const size_t left = stream.size() - came;
    const size_t n = chunks.empty() ? left : std::min(left, chunks[turn % chunks.size()]);
    const std::vector<std::byte> exact(stream.begin() + static_cast<ptrdiff_t>(came),
                                       stream.begin() + static_cast<ptrdiff_t>(came + n));
    came += n;
    ConstBytes in = exact;
    while (auto message = reader.take(in)) {
      taken += message->size();
      got.messages.push_back(std::move(*message));
    }
    fuzz::require(in.empty() || reader.broken(), "all is taken, unless the stream is of no use");
    fuzz::require(reader.held_bytes() <= 2 * (came - taken), "nothing is held but what came");
    fuzz::require(reader.held_bytes() <= 2 * kMaxRecord, "nor more than a record");
  }
  got.broken = reader.broken();
  fuzz::require(got.broken == expected.broken, "a stream is broken in any chunking or in none");
  fuzz::require(got.messages == expected.messages, "the messages are those of the stream");
  return 0;
}

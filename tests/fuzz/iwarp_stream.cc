// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: the frames of a peer after the start-up, in chunks of any sizes, with and without CRCs.
//
// Checked: no access outside of the exposed memory. The same stream in one piece gives the same steps and the
// same memory. Messages keep the limits. A violation is the last step.
//
// Input: one byte (bits 0-3: n, bit 4: CRCs), n chunk sizes of one byte (0 means 256), then the stream. Tags
// are small numbers here, so that inputs can hit them.

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "transport/fabric/iwarp/stream_reader.h"

namespace {

using namespace nfsrdma;                 // NOLINT
using namespace nfsrdma::fabric::iwarp;  // NOLINT
using Step = StreamReader::Step;

constexpr size_t kMessage = 300;
constexpr size_t kMemory = 2000;

// Tag t (1 to 3) is memory of t * kMemory / 3 bytes from offset 0, in a block of exactly that size, so that a
// sanitizer sees an access beyond it.
class Memory final : public Placement {
 public:
  Memory() {
    for (size_t t = 1; t <= 3; ++t) ranges_[t] = std::make_unique<std::byte[]>(size(t));
    for (size_t t = 1; t <= 3; ++t) std::fill_n(ranges_[t].get(), size(t), std::byte{0});
  }
  Place place(const Segment& s, size_t bytes) override {
    if (bytes == 0) return {};
    if (s.stag == 0 || s.stag > 3) return {nullptr, term::kInvalidStag};
    if (s.offset > size(s.stag) || bytes > size(s.stag) - s.offset) return {nullptr, term::kBounds};
    return {ranges_[s.stag].get() + s.offset, std::nullopt};
  }
  ByteVector contents() const {
    ByteVector all;
    for (size_t t = 1; t <= 3; ++t) all.insert(all.end(), ranges_[t].get(), ranges_[t].get() + size(t));
    return all;
  }

 private:
  static size_t size(size_t t) { return t * kMemory / 3; }
  std::unique_ptr<std::byte[]> ranges_[4];
};

struct Event {
  Step step{};
  Segment segment;
  ByteVector message;
  ReadRequest request;
  bool operator==(const Event&) const = default;
};

Event event_of(Step step, const StreamReader& reader) {
  Event e;
  e.step = step;
  e.segment = reader.segment();
  if (step == Step::kSend || step == Step::kTerminate) {
    fuzz::require(reader.message().size() <= kMessage, "a message is not longer than it may be");
    e.message.assign(reader.message().begin(), reader.message().end());
  }
  if (step == Step::kReadRequest) e.request = reader.read_request();
  if (step == Step::kTerminate) {
    if (const auto t = decode_terminate(reader.message())) {
      fuzz::require(encode(*t).size() <= reader.message().size(), "what was read was there");
    }
  }
  if (step == Step::kViolation) {
    e.message = encode(reader.violation());
    fuzz::require(e.message.size() <= kMaxTerminateBytes, "a Terminate has its size");
    fuzz::require(decode_terminate(e.message).has_value(), "and can be read");
  }
  return e;
}

struct Outcome {
  std::vector<Event> events;
  ByteVector memory;
  bool operator==(const Outcome&) const = default;
};

Outcome feed(ConstBytes stream, ConstBytes chunks, bool crc) {
  Memory memory;
  StreamReader reader(memory, {kMessage, crc});
  Outcome o;
  bool broken = false;
  for (size_t i = 0; !stream.empty() && !broken; ++i) {
    const StreamReader::Window w = reader.window();
    fuzz::require(!w.staging.empty(), "there is always room");
    size_t n = std::min(stream.size(), w.size());
    if (!chunks.empty())
      n = std::min(n,
                   size_t{static_cast<uint8_t>(std::to_integer<uint8_t>(chunks[i % chunks.size()]) - 1)} + 1);
    const size_t direct = std::min(n, w.direct.size());
    if (direct > 0) std::memcpy(w.direct.data(), stream.data(), direct);
    if (n > direct) std::memcpy(w.staging.data(), stream.data() + direct, n - direct);
    reader.commit(n);
    stream = stream.subspan(n);
    for (Step step = reader.next(); step != Step::kNeedBytes; step = reader.next()) {
      o.events.push_back(event_of(step, reader));
      broken = broken || step == Step::kViolation;
    }
  }
  o.memory = memory.contents();
  return o;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ConstBytes input = fuzz::bytes_of(data, size);
  if (input.empty()) return 0;
  const size_t n = std::min<size_t>(data[0] & 15, input.size() - 1);
  const bool crc = (data[0] & 16) != 0;
  const ConstBytes chunks = input.subspan(1, n);
  const ConstBytes stream = input.subspan(1 + n);
  fuzz::require(feed(stream, chunks, crc) == feed(stream, {}, crc), "chunking changes nothing");
  return 0;
}

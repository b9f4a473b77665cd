// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: a byte stream as a client receives it, in chunks of any sizes: record marks, fragments, replies
// with and without sinks, calls from the server.
//
// Checked: no access outside of the sinks. The same stream in one piece gives the same messages. Delivered
// messages keep the limits. The header of each reply is then decoded as the transport decodes it.
//
// Input: one byte n (mod 16), n chunk sizes of one byte (0 means 256; odd ones go into a pipe if there is
// one), then the stream. The low three bits of an XID select the receiver.

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "transport/memory/bulk_data.h"
#include "transport/tcp/record_reader.h"
#include "xdr/rpc.h"

namespace {

using namespace nfsrdma;  // NOLINT
using tcp::Expected;
using tcp::RecordReader;
using Step = RecordReader::Step;

constexpr size_t kMaxRecord = 64u << 10;
constexpr size_t kDirectMin = 1024;
constexpr size_t kPipedMin = 100;

// The item is where the peer says, wherever that is.
rpc::Locate where_the_peer_says(ConstBytes prefix, rpc::BulkPlace& place) {
  if (prefix.size() < 16) return rpc::Locate::kNeedMore;
  place = {load_be32(prefix.data() + 8), load_be32(prefix.data() + 12)};
  return rpc::Locate::kFound;
}

rpc::Locate behind_the_header(ConstBytes prefix, rpc::BulkPlace& place) {
  if (prefix.size() < 28) return rpc::Locate::kNeedMore;
  if (load_be32(prefix.data() + 20) != 0) return rpc::Locate::kNone;
  place = {28, load_be32(prefix.data() + 24)};
  return rpc::Locate::kFound;
}

rpc::Locate never(ConstBytes, rpc::BulkPlace&) {
  return rpc::Locate::kNeedMore;
}

class Directory final : public tcp::ReplyDirectory {
 public:
  Directory() {
    set(small_, 16, behind_the_header, 28);
    set(large_, 3000, behind_the_header, 28);
    set(told_, 2000, where_the_peer_says, 16);
    set(never_, 5000, never, 100);
    large_.sink.pipes = told_.sink.pipes = &pipes_;
  }

  Expected expect(uint32_t xid) override {
    switch (xid & 7) {
      case 0: return {Expected::Kind::kUnknown, nullptr};
      case 1: return {Expected::Kind::kAbandoned, nullptr};
      case 2: return {Expected::Kind::kEarly, nullptr};
      case 3: return awaited(small_);
      case 4: return awaited(large_);
      case 5: return awaited(told_);
      case 6: return awaited(never_);
      default: return {Expected::Kind::kAwaited, nullptr};
    }
  }
  size_t prefix_hint() const override { return 28; }

  MutableBytes last_sink() const { return last_; }

 private:
  struct Entry {
    // Exactly as large as the sink, so that a sanitizer sees an access beyond it.
    std::unique_ptr<std::byte[]> memory;
    rpc::Sink sink;
  };
  static void set(Entry& e, size_t size, rpc::BulkLocator locate, size_t expected) {
    e.memory = std::make_unique<std::byte[]>(size);
    e.sink.destination.bytes = {e.memory.get(), size};
    e.sink.locate = locate;
    e.sink.expected_offset = expected;
  }
  Expected awaited(const Entry& e) {
    last_ = e.sink.destination.bytes;
    return {Expected::Kind::kAwaited, &e.sink};
  }

  PipePool pipes_;
  Entry small_, large_, told_, never_;
  MutableBytes last_;
};

struct Event {
  Step step{};
  uint32_t xid = 0;
  ByteVector head;
  ByteVector bulk;
  bool placed = false;
  bool defect = false;
  bool operator==(const Event&) const = default;
};

Event event_of(Step step, RecordReader& reader, Directory& directory) {
  Event e;
  e.step = step;
  if (step == Step::kViolation) return e;
  RecordReader::Message m = std::move(reader.message());
  e.xid = m.xid;
  e.defect = m.defect != nullptr;
  if (step == Step::kStray || e.defect) return e;
  fuzz::require(m.head.size() + m.bulk_length <= kMaxRecord, "a message is not larger than a record may be");
  fuzz::require(step != Step::kCall || m.head.size() <= RecordReader::kMaxCallBytes, "nor a call");
  fuzz::require(m.head.size() >= 8 || m.placed, "a message has its beginning");
  if (m.placed) {
    fuzz::require(m.bulk_length <= directory.last_sink().size(), "an item fits its sink");
    fuzz::require(m.piped.begin <= m.piped.end && m.piped.end <= m.bulk_length,
                  "what is piped is of the item");
    fuzz::require(
        m.piped.empty() || read_all(*m.pipe, directory.last_sink().subspan(m.piped.begin, m.piped.size())),
        "the pipe holds what is piped");
    e.bulk.assign(directory.last_sink().begin(),
                  directory.last_sink().begin() + static_cast<ptrdiff_t>(m.bulk_length));
  }
  e.placed = m.placed;
  e.head = std::move(m.head);
  if (step == Step::kReply) {
    rpc::reply_header header;
    if (fuzz::decodes(e.head, header)) (void)rpc::check(header, "FUZZ");
  }
  return e;
}

std::vector<Event> feed(ConstBytes stream, ConstBytes chunks) {
  Directory directory;
  RecordReader reader(directory, {kMaxRecord, kDirectMin, kPipedMin});
  std::vector<Event> events;
  for (size_t i = 0; !stream.empty(); ++i) {
    const RecordReader::Window w = reader.window();
    size_t n = std::min(stream.size(), w.size());
    if (!chunks.empty())
      n = std::min(n,
                   size_t{static_cast<uint8_t>(std::to_integer<uint8_t>(chunks[i % chunks.size()]) - 1)} + 1);
    const size_t direct = std::min(n, w.direct.size());
    if (w.pipe != nullptr && !chunks.empty() && (n & 1) != 0) {
      n = direct;
      fuzz::require(w.pipe->write(stream.first(n)) == static_cast<ssize_t>(n), "the pipe takes it");
      reader.commit_piped(n);
    } else {
      if (direct > 0) std::memcpy(w.direct.data(), stream.data(), direct);
      if (n > direct) std::memcpy(w.staging.data(), stream.data() + direct, n - direct);
      reader.commit(n);
    }
    stream = stream.subspan(n);
    for (Step step = reader.next(); step != Step::kNeedBytes; step = reader.next()) {
      events.push_back(event_of(step, reader, directory));
      if (step == Step::kViolation) return events;
    }
  }
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ConstBytes input = fuzz::bytes_of(data, size);
  if (input.empty()) return 0;
  const size_t n = std::min<size_t>(data[0] & 15, input.size() - 1);
  const ConstBytes chunks = input.subspan(1, n);
  const ConstBytes stream = input.subspan(1 + n);
  fuzz::require(feed(stream, chunks) == feed(stream, {}), "chunking does not change the messages");
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// SendQueue and StreamReader together: one cuts data into frames, the other assembles it, whatever the
// chunking on the way; and the result of a wrong byte.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>

#include "tests/golden/hex.h"
#include "tests/unit/fabric/support/captured.h"
#include "transport/fabric/iwarp/send_queue.h"
#include "transport/fabric/iwarp/stream_reader.h"

namespace nfsrdma::fabric::iwarp {
namespace {

using Step = StreamReader::Step;

constexpr size_t kMemory = 200'000;
constexpr uint32_t kTag = 0x1234;
constexpr uint64_t kBase = uint64_t{1} << 40;

// One range of memory; its data may wait in a pipe.
class Range final : public Placement {
 public:
  explicit Range(bool pipes = false) {
    place_.data.slice = pool_.slice(kMemory);
    std::fill(memory().begin(), memory().end(), std::byte{0});
    if (pipes) place_.pipes = &pool_.pipes();
  }
  Place place(const Segment& s, size_t bytes) override {
    if (bytes == 0) return {};
    if (s.stag != kTag) return {nullptr, term::kInvalidStag};
    if (s.offset < kBase || s.offset - kBase > kMemory || bytes > kMemory - (s.offset - kBase))
      return {nullptr, term::kBounds};
    return {memory().data() + (s.offset - kBase), std::nullopt, &place_};
  }
  MutableBytes memory() { return place_.data.slice.bytes; }
  const ByteRange& piped() const { return place_.data.piped; }
  // All placed data, in memory.
  ByteVector landed() {
    EXPECT_TRUE(place_.data.land());
    return {memory().begin(), memory().end()};
  }

 private:
  BufferPool pool_;
  PipedPlace place_;
};

struct Event {
  Step step{};
  Opcode opcode{};
  uint32_t invalidate = 0;
  ByteVector message;
  size_t placed = 0;
  bool operator==(const Event&) const = default;
};

void showValue(const Event& e, std::ostream& out) {
  out << "step " << static_cast<int>(e.step) << " opcode " << static_cast<int>(e.opcode) << " message "
      << e.message.size() << " placed " << e.placed;
}

// Gives `stream` to the reader in pieces of these sizes, in rotation. Empty: as much as the reader accepts;
// `receives` counts how often.
std::vector<Event> feed(StreamReader& reader, ConstBytes stream, const std::vector<size_t>& pieces,
                        size_t* receives = nullptr) {
  std::vector<Event> events;
  for (size_t i = 0; !stream.empty(); ++i) {
    if (receives != nullptr) ++*receives;
    const StreamReader::Window w = reader.window();
    size_t n = std::min(stream.size(), w.pipe != nullptr ? w.direct.size() : w.size());
    if (!pieces.empty()) n = std::min(n, std::max<size_t>(pieces[i % pieces.size()], 1));
    if (w.pipe != nullptr) {
      const ssize_t taken = w.pipe->write(stream.first(n));
      if (taken <= 0) {
        reader.leave_pipe(true);
        continue;
      }
      reader.commit_piped(static_cast<size_t>(taken));
      n = static_cast<size_t>(taken);
    } else {
      const size_t direct = std::min(n, w.direct.size());
      if (direct > 0) std::memcpy(w.direct.data(), stream.data(), direct);
      if (n > direct) std::memcpy(w.staging.data(), stream.data() + direct, n - direct);
      reader.commit(n);
    }
    stream = stream.subspan(n);
    for (Step step = reader.next(); step != Step::kNeedBytes; step = reader.next()) {
      Event e;
      e.step = step;
      e.opcode = reader.segment().opcode;
      if (step == Step::kSend || step == Step::kTerminate) {
        e.message.assign(reader.message().begin(), reader.message().end());
        if (invalidates(e.opcode)) e.invalidate = reader.segment().invalidate;
      }
      if (step == Step::kPlaced) e.placed = reader.placed_bytes();
      events.push_back(std::move(e));
      if (step == Step::kViolation) return events;
    }
  }
  return events;
}

// Everything that a queue has to send, taken in amounts of these sizes.
ByteVector drain(SendQueue& queue, const std::vector<size_t>& amounts) {
  ByteVector out;
  for (size_t i = 0; !queue.empty(); ++i) {
    size_t left = amounts.empty() ? SIZE_MAX : std::max<size_t>(amounts[i % amounts.size()], 1);
    size_t taken = 0;
    for (const iovec& piece : queue.front()) {
      const size_t n = std::min(left, piece.iov_len);
      const auto* data = static_cast<const std::byte*>(piece.iov_base);
      out.insert(out.end(), data, data + n);
      taken += n;
      left -= n;
    }
    queue.advance(taken);
  }
  return out;
}

ByteVector some_bytes(size_t n, unsigned seed) {
  ByteVector b(n);
  for (size_t i = 0; i < n; ++i) b[i] = static_cast<std::byte>(i * 31 + seed + i / 251);
  return b;
}

TEST(Stream, RandomMessagesInRandomFragments_ArriveAsTheyWere) {
  EXPECT_TRUE(rc::check([] {
    const bool crc = *rc::gen::arbitrary<bool>();
    const bool pipes = *rc::gen::arbitrary<bool>();
    const size_t ulpdu = *rc::gen::element<size_t>(122, 1442, 8938, 40'002, 65'486);
    const auto sizes = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 70'000));
    const auto amounts = *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(1, 100'000));
    const auto pieces = *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(1, 100'000));
    SendQueue queue({ulpdu, crc, *rc::gen::arbitrary<bool>()});
    Range range(pipes);
    StreamReader reader(range, {70'000, crc});
    ByteVector expected_memory(kMemory);
    std::vector<Event> expected;
    std::vector<ByteVector> sources;
    sources.reserve(sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto n = static_cast<size_t>(sizes[i]);
      const ByteVector& bytes = sources.emplace_back(some_bytes(n, static_cast<unsigned>(i)));
      if (n % 3 == 0) {
        const size_t at = n * 7 % (kMemory - 70'000);
        queue.write({kTag, static_cast<uint32_t>(n), kBase + at}, bytes, nullptr, i);
        std::copy(bytes.begin(), bytes.end(), expected_memory.begin() + static_cast<ptrdiff_t>(at));
        continue;
      }
      const uint32_t invalidate = n % 3 == 1 ? 0 : 99;
      const size_t half = n / 2;
      const ConstBytes parts[] = {ConstBytes(bytes).first(half), ConstBytes(bytes).subspan(half)};
      queue.send(parts, invalidate, n % 5 == 0);
      Event e;
      e.step = Step::kSend;
      e.opcode = n % 5 == 0 ? (invalidate != 0 ? Opcode::kSendSolicitedInvalidate : Opcode::kSendSolicited)
                            : (invalidate != 0 ? Opcode::kSendInvalidate : Opcode::kSend);
      e.invalidate = invalidate;
      e.message = bytes;
      expected.push_back(std::move(e));
    }
    const ByteVector stream = drain(queue, amounts);
    RC_ASSERT(stream.size() % 4 == 0U);
    auto events = feed(reader, stream, pieces);
    std::erase_if(events, [](const Event& e) { return e.step == Step::kPlaced; });
    RC_ASSERT(events == expected);
    RC_ASSERT(range.landed() == expected_memory);
    RC_ASSERT(!reader.inside_frame());
    RC_ASSERT(queue.owned_bytes() == 0U);
  }));
}

// Of a READ's frames only two parts are copied: the beginning of the first, which came with its header, and a
// short last one.
TEST(Stream, LargeMessage_GoesToThePipeInOneRange) {
  const ByteVector bytes = some_bytes(190'000, 1);
  SendQueue queue({65'486, false});
  for (Cookie i = 0; i < 2; ++i) queue.write({kTag, 190'000, kBase}, bytes, nullptr, i);
  Range range(true);
  StreamReader reader(range, {1000, false});
  const ByteVector stream = drain(queue, {});
  feed(reader, ConstBytes(stream).first(stream.size() / 2), {});
  EXPECT_GT(range.piped().begin, 0u);
  EXPECT_GT(range.piped().size(), 120'000u);
  feed(reader, ConstBytes(stream).subspan(stream.size() / 2), {});
  EXPECT_TRUE(range.piped().empty()) << "what was written twice is in memory";
  const ByteVector memory = range.landed();
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), memory.begin()));
}

// One system call for each frame instead of two: the short frame comes with the first header, the Send with
// the end of the last frame.
TEST(Stream, ShortFrameFirst_IsReceivedWithTheNextHeader) {
  const ByteVector before = some_bytes(30'000, 1);
  const ByteVector bytes = some_bytes(2 * 65'472 + 64, 2);
  for (const bool short_first : {true, false}) {
    SendQueue queue({65'486, false, short_first});
    Range range(true);
    StreamReader reader(range, {1000, false});
    queue.write({kTag, 30'000, kBase + 160'000}, before, nullptr, 0);
    feed(reader, drain(queue, {}), {});
    queue.write({kTag, 131'008, kBase}, bytes, nullptr, 1);
    const ConstBytes reply[] = {ConstBytes(bytes).first(200)};
    queue.send(reply, 0, false);
    size_t receives = 0;
    const auto events = feed(reader, drain(queue, {}), {}, &receives);
    EXPECT_EQ(events.size(), 4u);
    EXPECT_EQ(events.back().step, Step::kSend);
    EXPECT_EQ(receives, short_first ? 5u : 6u);
    EXPECT_EQ(range.piped().end, short_first ? bytes.size() : 2 * 65'472);
    const ByteVector memory = range.landed();
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), memory.begin()));
  }
}

// A frame with a valid CRC, from the bytes of a ULPDU.
ByteVector fpdu(const ByteVector& ulpdu) {
  ByteVector f(2);
  store_be16(f.data(), static_cast<uint16_t>(ulpdu.size()));
  f.insert(f.end(), ulpdu.begin(), ulpdu.end());
  f.resize(f.size() + fpdu_padding(ulpdu.size()));
  Crc32c crc;
  crc.add(f);
  f.resize(f.size() + kCrcBytes);
  crc.store(&f[f.size() - kCrcBytes]);
  return f;
}

ByteVector ulpdu(const Segment& s, size_t payload) {
  ByteVector b(s.header_bytes());
  store_segment(s, b.data());
  const ByteVector data = some_bytes(payload, 1);
  b.insert(b.end(), data.begin(), data.end());
  return b;
}

Segment untagged(Opcode opcode, uint32_t queue, uint32_t msn, uint32_t offset = 0, bool last = true) {
  Segment s;
  s.opcode = opcode;
  s.queue = queue;
  s.msn = msn;
  s.message_offset = offset;
  s.last = last;
  return s;
}

Segment tagged(Opcode opcode, uint64_t offset, uint32_t stag = kTag) {
  Segment s;
  s.tagged = true;
  s.last = true;
  s.opcode = opcode;
  s.stag = stag;
  s.offset = offset;
  return s;
}

// "When an FPDU is received, and CRC checking is enabled": any single bit, anywhere in the frame behind its
// length.
TEST(Stream, AnyWrongBit_IsFoundByTheCrc_OrByAnEarlierCheck) {
  for (const bool is_tagged : {false, true}) {
    const Segment s = is_tagged ? tagged(Opcode::kWrite, kBase) : untagged(Opcode::kSend, 0, 1);
    const ByteVector good = fpdu(ulpdu(s, 61));
    for (size_t bit = 16; bit < good.size() * 8; ++bit) {
      ByteVector bad = good;
      bad[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      Range range;
      StreamReader reader(range, {1000, true});
      bad.resize(bad.size() + 100);  // because the header may be longer now
      const auto events = feed(reader, bad, {});
      ASSERT_EQ(events.size(), 1u) << bit;
      ASSERT_EQ(events[0].step, Step::kViolation) << bit;
    }
  }
}

// "When CRCs are not in use, the CRC field MUST be considered valid for FPDU checking regardless of its
// contents."
TEST(Stream, WithoutCrcs_TheFieldMeansNothing) {
  ByteVector f = fpdu(ulpdu(untagged(Opcode::kSend, 0, 1), 9));
  f.back() ^= std::byte{1};
  Range range;
  StreamReader reader(range, {1000, false});
  const auto events = feed(reader, f, {1});
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].step, Step::kSend);
}

TEST(Stream, CapturedFrames_AreRead) {
  ByteVector stream;
  for (const char* text :
       {test::captured::kSend, test::captured::kSendInvalidate, test::captured::kReadRequest}) {
    const ByteVector frame = golden::from_hex(text);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{10'000}}) {
    Range range;
    StreamReader reader(range, {1024, false});
    const auto events = feed(reader, stream, {piece});
    ASSERT_EQ(events.size(), 3u);
    EXPECT_EQ(events[0].message.size(), 68u);
    EXPECT_EQ(events[1].invalidate, 0x44a39f01u);
    EXPECT_EQ(events[2].step, Step::kReadRequest);
    EXPECT_EQ(reader.read_request().bytes, 262144u);
  }
}

struct Fault {
  const char* name;
  std::vector<ByteVector> ulpdus;  // all but the last are in order
  TermCode code;
};

std::vector<Fault> faults() {
  const auto send = [](uint32_t msn, uint32_t offset, bool last, size_t n) {
    return ulpdu(untagged(Opcode::kSend, 0, msn, offset, last), n);
  };
  Segment version = untagged(Opcode::kSend, 0, 1);
  version.ddp_version = 2;
  Segment rdmap = untagged(Opcode::kSend, 0, 1);
  rdmap.rdmap_version = 2;
  Segment tagged_version = tagged(Opcode::kWrite, kBase);
  tagged_version.ddp_version = 0;
  return {
      {"Empty", {ByteVector{}}, term::kFpduStart},
      {"ShorterThanATaggedHeader", {ByteVector(13, std::byte{0xc1})}, term::kFpduStart},
      {"ShorterThanAnUntaggedHeader", {ByteVector(17, std::byte{0x41})}, term::kFpduStart},
      {"DdpVersion", {ulpdu(version, 4)}, term::kUntaggedVersion},
      {"DdpVersionTagged", {ulpdu(tagged_version, 4)}, term::kTaggedVersion},
      {"RdmapVersion", {ulpdu(rdmap, 4)}, term::kRdmapVersion},
      {"UnknownQueue", {ulpdu(untagged(Opcode::kSend, 3, 1), 4)}, term::kInvalidQueue},
      {"LargestQueue", {ulpdu(untagged(Opcode::kSend, ~0u, 1), 4)}, term::kInvalidQueue},
      {"SendOnTheReadQueue", {ulpdu(untagged(Opcode::kSend, 1, 1), 4)}, term::kInvalidQueue},
      {"ReadRequestOnTheSendQueue", {ulpdu(untagged(Opcode::kReadRequest, 0, 1), 28)}, term::kInvalidQueue},
      {"TerminateOnTheSendQueue", {ulpdu(untagged(Opcode::kTerminate, 0, 1), 4)}, term::kInvalidQueue},
      {"UntaggedWrite", {ulpdu(untagged(Opcode::kWrite, 0, 1), 4)}, term::kUnexpectedOpcode},
      {"TaggedSend", {ulpdu(tagged(Opcode::kSend, kBase), 4)}, term::kUnexpectedOpcode},
      {"ReservedOpcode", {ulpdu(untagged(static_cast<Opcode>(8), 0, 1), 4)}, term::kUnexpectedOpcode},
      {"FirstMsnIsNotOne", {send(0, 0, true, 4)}, term::kInvalidMsn},
      {"MsnJumps", {send(1, 0, true, 4), send(3, 0, true, 4)}, term::kInvalidMsn},
      {"MsnAgain", {send(1, 0, true, 4), send(1, 0, true, 4)}, term::kInvalidMsn},
      {"MsnFarAhead", {send(0x80000001, 0, true, 4)}, term::kInvalidMsn},
      {"NewMessageInsideAnother", {send(1, 0, false, 4), send(2, 0, true, 4)}, term::kInvalidMsn},
      {"OffsetAtTheStart", {send(1, 4, true, 4)}, term::kInvalidOffset},
      {"OffsetLeavesAGap", {send(1, 0, false, 4), send(1, 8, true, 4)}, term::kInvalidOffset},
      {"OffsetAgain", {send(1, 0, false, 4), send(1, 0, true, 4)}, term::kInvalidOffset},
      {"OffsetWraps", {send(1, ~0u, true, 4)}, term::kInvalidOffset},
      {"TooLong", {send(1, 0, true, 1001)}, term::kTooLong},
      {"TooLongInTwo", {send(1, 0, false, 600), send(1, 600, true, 401)}, term::kTooLong},
      {"LargestFrame", {send(1, 0, true, kMaxUlpduBytes - kUntaggedBytes)}, term::kTooLong},
      {"OpcodeChanges",
       {send(1, 0, false, 4), ulpdu(untagged(Opcode::kSendInvalidate, 0, 1, 4), 4)},
       term::kUnexpectedOpcode},
      {"ReadRequestTooShort", {ulpdu(untagged(Opcode::kReadRequest, 1, 1), 27)}, term::kUnspecified},
      {"ReadRequestTooLong", {ulpdu(untagged(Opcode::kReadRequest, 1, 1), 29)}, term::kTooLong},
      {"TerminateTooLong", {ulpdu(untagged(Opcode::kTerminate, 2, 1), 53)}, term::kTooLong},
      {"UnknownTag", {ulpdu(tagged(Opcode::kWrite, kBase, 5), 1)}, term::kInvalidStag},
      {"OutOfBounds", {ulpdu(tagged(Opcode::kWrite, kBase + kMemory - 3), 4)}, term::kBounds},
  };
}

TEST(Stream, EveryFault_HasItsCode_InAnyFragments) {
  for (const Fault& fault : faults()) {
    for (const size_t piece : {size_t{1}, size_t{100'000}}) {
      SCOPED_TRACE(fault.name);
      Range range;
      StreamReader reader(range, {1000, true});
      ByteVector stream;
      for (const ByteVector& u : fault.ulpdus) {
        const ByteVector f = fpdu(u);
        stream.insert(stream.end(), f.begin(), f.end());
      }
      const auto events = feed(reader, stream, {piece});
      ASSERT_FALSE(events.empty());
      EXPECT_EQ(events.back().step, Step::kViolation);
      EXPECT_EQ(to_string(reader.violation().code), to_string(fault.code));
      EXPECT_EQ(reader.violation().ddp_header.has_value(), fault.code.layer != 2);
      EXPECT_EQ(range.landed(), ByteVector(kMemory)) << "nothing was placed";
    }
  }
}

// A bad header is refused before its payload arrives: no waiting for bytes that will be discarded.
TEST(Stream, RefusedHeader_IsToldWithoutItsPayload) {
  const ByteVector f = fpdu(ulpdu(tagged(Opcode::kWrite, kBase, 5), 60'000));
  for (size_t n = 0; n < 16; ++n) {
    Range range;
    StreamReader reader(range, {1000, false});
    EXPECT_TRUE(feed(reader, ConstBytes(f).first(n), {}).empty()) << n;
  }
  Range range;
  StreamReader reader(range, {1000, false});
  EXPECT_EQ(feed(reader, ConstBytes(f).first(16), {}).size(), 1u);
}

// A peer that has all data of a Read may reply, and so close the memory (RFC 5040 section 5.4), or request
// the next Read, while the rest of the batch is still queued here.
TEST(SendQueueDone, AnOperation_EndsWithItsOwnLastByte) {
  const ByteVector first = some_bytes(16'000, 1), second = some_bytes(300'000, 2);
  SendQueue queue({65'486, false});
  queue.read_response({kTag, kBase, 16'000, 7, 0}, first);
  queue.read_response({kTag, kBase, 300'000, 8, 0}, second);
  queue.write({kTag, 300, kBase}, ConstBytes(second).first(300), nullptr, 5);
  const auto send = [&](size_t bytes) {
    queue.front();
    queue.advance(bytes);
  };
  const size_t whole = kLengthBytes + kTaggedBytes + first.size() + kCrcBytes;
  ASSERT_EQ(fpdu_padding(kTaggedBytes + first.size()), 0u);
  send(whole - 1);
  EXPECT_TRUE(queue.sends_from(7));
  EXPECT_EQ(queue.read_responses(), 2u);
  send(1);
  EXPECT_FALSE(queue.sends_from(7));
  EXPECT_TRUE(queue.sends_from(8));
  EXPECT_EQ(queue.read_responses(), 1u);
  EXPECT_EQ(queue.take_done().bytes_fetched, first.size());
  // The rest is unchanged.
  drain(queue, {1000});
  EXPECT_EQ(queue.read_responses(), 0u);
  const auto done = queue.take_done();
  EXPECT_EQ(done.bytes_fetched, second.size());
  EXPECT_EQ(done.cookies, std::vector<Cookie>{5});
}

// After finish(): the rest of the frame that was sent in part, the Terminate, and no use of any other memory.
TEST(SendQueueFinish, AtEveryByte_LeavesWholeFrames) {
  const Terminate last{term::kInvalidStag, {}, {}, {}};
  for (size_t sent = 0; sent < 700; ++sent) {
    auto source = std::make_unique<ByteVector>(some_bytes(300, 1));
    SendQueue queue({122, true});
    const ConstBytes part = *source;
    queue.send({&part, 1}, 0, false);
    queue.write({kTag, 300, kBase}, *source, nullptr, 1);
    ByteVector stream;
    for (size_t n = 0; n < sent;) {
      const auto pieces = queue.front();
      if (pieces.empty()) break;
      const size_t take = std::min(sent - n, pieces[0].iov_len);
      const auto* data = static_cast<const std::byte*>(pieces[0].iov_base);
      stream.insert(stream.end(), data, data + take);
      queue.advance(take);
      n += take;
    }
    queue.finish(last);
    source.reset();
    const ByteVector rest = drain(queue, {1, 50});
    stream.insert(stream.end(), rest.begin(), rest.end());
    Range range;
    StreamReader reader(range, {1000, true});
    const auto events = feed(reader, stream, {});
    ASSERT_FALSE(events.empty()) << sent;
    ASSERT_EQ(events.back().step, Step::kTerminate) << sent;
    ASSERT_FALSE(reader.inside_frame()) << sent;
    EXPECT_EQ(queue.owned_bytes(), 0u);
  }
}

}  // namespace
}  // namespace nfsrdma::fabric::iwarp

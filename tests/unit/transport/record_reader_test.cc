// SPDX-License-Identifier: Apache-2.0
// RecordReader: any chunking of a byte stream gives the same messages, and a hostile stream affects the right
// things: one reply, or the connection.
#include "transport/tcp/record_reader.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "tests/unit/transport/support/rpc_bytes.h"

namespace nfsrdma::test {
namespace {

using tcp::Expected;
using tcp::RecordReader;
using Step = RecordReader::Step;

constexpr size_t kMaxRecord = 256u << 10;
constexpr size_t kDirectMin = 1024;
constexpr size_t kPipedMin = 4096;

// Calls in progress, as PendingCalls knows them.
struct Directory final : tcp::ReplyDirectory {
  struct Entry {
    Expected::Kind kind = Expected::Kind::kAwaited;
    rpc::Sink sink;
    bool asked = false;
  };
  std::map<uint32_t, Entry> entries;

  Expected expect(uint32_t xid) override {
    const auto found = entries.find(xid);
    if (found == entries.end()) return {};
    found->second.asked = true;
    return {found->second.kind, &found->second.sink};
  }
  size_t prefix_hint() const override {
    for (const auto& [xid, e] : entries) {
      if (!e.asked && e.sink.destination.size() >= kDirectMin) return e.sink.expected_offset;
    }
    return 0;
  }
};

// A result of next(), in a comparable form.
struct Event {
  Step step{};
  uint32_t xid = 0;
  ByteVector head;
  bool placed = false;
  size_t bulk_length = 0;
  bool defect = false;

  bool operator==(const Event&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Event& e) {
  return out << "{step " << static_cast<int>(e.step) << " xid " << e.xid << " head " << e.head.size()
             << " placed " << e.placed << " bulk " << e.bulk_length << " defect " << e.defect << "}";
}

Event event_of(Step step, RecordReader& reader) {
  Event e;
  e.step = step;
  if (step == Step::kViolation) return e;
  const RecordReader::Message m = std::move(reader.message());
  e.xid = m.xid;
  e.defect = m.defect != nullptr;
  if (step == Step::kStray || e.defect) return e;
  e.head = m.head;
  e.placed = m.placed;
  e.bulk_length = m.bulk_length;
  return e;
}

// Feeds `stream` to the reader in pieces of at most chunk() bytes, and at most what the reader asks for.
// `land` is called first for each message.
using Land = std::function<void(const RecordReader::Message&)>;

std::vector<Event> feed(
    RecordReader& reader, ConstBytes stream, const std::function<size_t()>& chunk,
    const Land& land = [](const RecordReader::Message&) {}) {
  std::vector<Event> events;
  while (!stream.empty()) {
    const RecordReader::Window w = reader.window();
    size_t n = std::min({std::max<size_t>(chunk(), 1), stream.size(), w.size()});
    const size_t direct = std::min(n, w.direct.size());
    const ssize_t piped = w.pipe != nullptr ? w.pipe->write(stream.first(direct)) : 0;
    if (piped > 0) {
      n = static_cast<size_t>(piped);
      reader.commit_piped(n);
    } else {
      reader.leave_pipe();
      if (direct > 0) std::memcpy(w.direct.data(), stream.data(), direct);
      if (n > direct) std::memcpy(w.staging.data(), stream.data() + direct, n - direct);
      reader.commit(n);
    }
    stream = stream.subspan(n);
    for (Step step = reader.next(); step != Step::kNeedBytes; step = reader.next()) {
      land(reader.message());
      events.push_back(event_of(step, reader));
      if (step == Step::kViolation) return events;
    }
  }
  return events;
}

std::vector<Event> feed(RecordReader& reader, ConstBytes stream) {
  return feed(reader, stream, [] { return SIZE_MAX; });
}

// One message of a generated stream.
enum class Kind : uint8_t { kPlain, kRead, kReadError, kReadBeyondSink, kCall, kStray, kAbandoned };

struct Item {
  Kind kind = Kind::kPlain;
  size_t bytes = 0;     // of results, or of data
  size_t sink = 0;      // size of the destination
  size_t expected = 0;  // Sink::expected_offset
  size_t fragment = 0;  // length of fragments; 0: one
  bool empty_fragment = false;
};

std::ostream& operator<<(std::ostream& out, const Item& i) {
  return out << "{kind " << static_cast<int>(i.kind) << " bytes " << i.bytes << " sink " << i.sink
             << " expected " << i.expected << " fragment " << i.fragment << " empty " << i.empty_fragment
             << "}";
}

// The stream's bytes, the expected events, and the memory of the sinks.
struct Conversation {
  explicit Conversation(const std::vector<Item>& items) {
    for (const Item& item : items) add(item);
  }

  void add(const Item& item) {
    const uint32_t xid = 0x1000 + static_cast<uint32_t>(events.size() + skipped);
    const ByteVector data = pattern(item.bytes, xid);
    const ByteVector trailer = pattern(item.bytes % 5 * 4, xid + 7);
    Event e{Step::kReply, xid, {}, false, 0, false};
    ByteVector message;
    switch (item.kind) {
      case Kind::kPlain:
        directory.entries[xid];
        message = e.head = reply(xid, data);
        break;
      case Kind::kRead:
        add_sink(xid, std::max({item.sink, item.bytes, size_t{1}}), item.expected, data);
        message = reply(xid, read_results(data, trailer));
        e.placed = true;
        e.bulk_length = data.size();
        e.head = concat({reply(xid, words({0, static_cast<uint32_t>(data.size())})), trailer});
        break;
      case Kind::kReadError:
        add_sink(xid, item.sink + 1, item.expected, {});
        message = e.head = reply(xid, concat({words({13}), trailer}));
        break;
      case Kind::kReadBeyondSink:
        add_sink(xid, item.bytes / 2 + 1, item.expected, {});
        message = reply(xid, read_results(concat({data, data, words({1, 2})}), trailer));
        e.defect = true;
        break;
      case Kind::kCall:
        e.step = Step::kCall;
        message = e.head = concat({words({xid, 0, 2, 0x40000000, 1, 1}), data});
        break;
      case Kind::kStray:
        e.step = Step::kStray;
        message = reply(xid, data);
        break;
      case Kind::kAbandoned:
        directory.entries[xid].kind = Expected::Kind::kAbandoned;
        message = reply(xid, data);
        break;
    }
    ByteVector bytes = record(message, item.fragment);
    if (item.empty_fragment) bytes = concat({words({0}), bytes});
    stream.insert(stream.end(), bytes.begin(), bytes.end());
    if (item.kind == Kind::kAbandoned) {
      ++skipped;
    } else {
      events.push_back(std::move(e));
    }
  }

  void add_sink(uint32_t xid, size_t size, size_t expected, const ByteVector& data) {
    rpc::Sink& sink = directory.entries[xid].sink;
    Memory& m = memory[xid];
    m.bytes.assign(size + 2 * kGuard, std::byte{0xee});
    m.data = data;
    sink.destination.bytes = MutableBytes(m.bytes).subspan(kGuard, size);
    sink.locate = locate_read;
    sink.expected_offset = expected;
  }

  // Lets every sink use pipes.
  void add_pipes() {
    for (auto& [xid, m] : memory) directory.entries[xid].sink.pipes = &pipes;
  }

  // Moves the data that went into the pipe to the sink.
  void land(const RecordReader::Message& message) {
    if (message.piped.empty() || message.defect != nullptr) return;
    const rpc::Sink& sink = directory.entries[message.xid].sink;
    piped += message.piped.size();
    ASSERT_NE(message.pipe, nullptr);
    EXPECT_EQ(message.pipe->size(), message.piped.size());
    EXPECT_TRUE(
        read_all(*message.pipe, sink.destination.bytes.subspan(message.piped.begin, message.piped.size())));
  }

  // Empty if every sink has its data and nothing outside the sinks was written.
  std::string check_memory() const {
    for (const auto& [xid, m] : memory) {
      const ConstBytes all = m.bytes;
      const ConstBytes inside = all.subspan(kGuard, all.size() - 2 * kGuard);
      if (!std::equal(m.data.begin(), m.data.end(), inside.begin()))
        return "wrong data, xid " + std::to_string(xid);
      for (size_t i = 0; i < kGuard; ++i) {
        if (all[i] != std::byte{0xee} || all[all.size() - 1 - i] != std::byte{0xee}) {
          return "written outside of the sink, xid " + std::to_string(xid);
        }
      }
    }
    return {};
  }

  static constexpr size_t kGuard = 64;
  struct Memory {
    ByteVector bytes;
    ByteVector data;
  };
  PipePool pipes;
  size_t piped = 0;
  Directory directory;
  std::map<uint32_t, Memory> memory;
  ByteVector stream;
  std::vector<Event> events;
  size_t skipped = 0;
};

RecordReader reader_for(Directory& d) {
  return RecordReader(d, {kMaxRecord, kDirectMin, kPipedMin});
}

const std::vector<Item> kSmallConversation = {
    {Kind::kPlain, 12, 0, 0, 0, false},
    {Kind::kRead, 21, 40, kReadDataOffset, 0, false},
    {Kind::kRead, 9, 9, 0, 7, true},
    {Kind::kStray, 8, 0, 0, 0, false},
    {Kind::kReadError, 3, 8, 64, 0, false},
    {Kind::kCall, 4, 0, 0, 10, false},
    {Kind::kReadBeyondSink, 4, 0, 32, 0, false},
    {Kind::kAbandoned, 4, 0, 0, 0, false},
    {Kind::kRead, 0, 4, 40, 0, false},
    {Kind::kPlain, 0, 0, 0, 1, false},
};

TEST(RecordReader, EverySplitInThree_SameMessages) {
  const size_t length = Conversation(kSmallConversation).stream.size();
  for (size_t a = 1; a < length; ++a) {
    // Trying every second cut for each first cut would take 10^5 runs: the second cut moves in steps that
    // have no common factor with 4.
    for (size_t b = a + 1; b < length; b += 11) {
      Conversation c(kSmallConversation);
      RecordReader reader = reader_for(c.directory);
      size_t at = 0;
      // feed() may cut further if the reader asks for less.
      std::vector<Event> events;
      for (const size_t end : {a, b, length}) {
        const auto more = feed(reader, ConstBytes(c.stream).subspan(at, end - at));
        events.insert(events.end(), more.begin(), more.end());
        at = end;
      }
      ASSERT_EQ(events, c.events) << "cut at " << a << " and " << b;
      ASSERT_EQ(c.check_memory(), "") << "cut at " << a << " and " << b;
    }
  }
}

TEST(RecordReader, ByteByByte_SameMessages) {
  Conversation c(kSmallConversation);
  RecordReader reader = reader_for(c.directory);
  EXPECT_EQ(feed(reader, c.stream, [] { return size_t{1}; }), c.events);
  EXPECT_EQ(c.check_memory(), "");
}

}  // namespace
}  // namespace nfsrdma::test

namespace rc {
using nfsrdma::test::Item;
using nfsrdma::test::Kind;

template <>
struct Arbitrary<Item> {
  static Gen<Item> arbitrary() {
    const auto size = gen::oneOf(gen::inRange<size_t>(0, 40), gen::inRange<size_t>(0, 3000),
                                 gen::inRange<size_t>(0, 40000));
    return gen::build<Item>(
        gen::set(&Item::kind, gen::map(gen::inRange(0, 7), [](int k) { return static_cast<Kind>(k); })),
        gen::set(&Item::bytes, gen::map(size, [](size_t n) { return n; })), gen::set(&Item::sink, size),
        gen::set(&Item::expected, gen::element<size_t>(0, nfsrdma::test::kReadDataOffset, 30, 100, 2000)),
        gen::set(&Item::fragment, gen::element<size_t>(0, 0, 0, 1, 5, 100, 1000, 9000)),
        gen::set(&Item::empty_fragment));
  }
};
}  // namespace rc

namespace nfsrdma::test {
namespace {

// Plain replies and calls consist of whole words, as in XDR.
std::vector<Item> tidy(std::vector<Item> items) {
  for (Item& i : items) {
    if (i.kind == Kind::kPlain || i.kind == Kind::kCall || i.kind == Kind::kStray) i.bytes = i.bytes / 4 * 4;
  }
  return items;
}

RC_GTEST_PROP(RecordReaderProperty, AnyChunking_SameMessages, (const std::vector<Item>& items)) {
  Conversation c(tidy(items));
  RecordReader reader = reader_for(c.directory);
  const size_t most = *rc::gen::element<size_t>(1, 3, 64, 1000, 20000, 1u << 20);
  uint32_t state = *rc::gen::arbitrary<uint32_t>();
  const auto events = feed(reader, c.stream, [&] {
    state = state * 1664525u + 1013904223u;
    return 1 + (state >> 8) % most;
  });
  RC_ASSERT(events == c.events);
  RC_ASSERT(c.check_memory() == "");
}

RC_GTEST_PROP(RecordReaderProperty, AnyChunkingWithPipes_SameMessages, (const std::vector<Item>& items)) {
  Conversation c(tidy(items));
  c.add_pipes();
  RecordReader reader = reader_for(c.directory);
  const size_t most = *rc::gen::element<size_t>(64, 1000, 20000, 1u << 20);
  uint32_t state = *rc::gen::arbitrary<uint32_t>();
  const auto events = feed(
      reader, c.stream,
      [&] {
        state = state * 1664525u + 1013904223u;
        return 1 + (state >> 8) % most;
      },
      [&](const RecordReader::Message& m) { c.land(m); });
  RC_ASSERT(events == c.events);
  RC_ASSERT(c.check_memory() == "");
}

// Arbitrary bytes behind a valid stream do not affect the messages before them.
RC_GTEST_PROP(RecordReaderProperty, GarbageBehindMessages_MessagesStand,
              (const std::vector<Item>& items, const std::vector<uint8_t>& garbage)) {
  Conversation c(tidy(items));
  const auto bytes = std::as_bytes(std::span(garbage));
  c.stream.insert(c.stream.end(), bytes.begin(), bytes.end());
  RecordReader reader = reader_for(c.directory);
  const auto events = feed(reader, c.stream);
  RC_ASSERT(events.size() >= c.events.size());
  RC_ASSERT(std::equal(c.events.begin(), c.events.end(), events.begin()));
}

// ---------------------------------------------------------------------------------------------------------
// Where bytes are received.

TEST(RecordReader, LargeSinkDue_ReadsThePrefixAndThenInPlace) {
  constexpr size_t kData = 100000;
  Conversation c({{Kind::kRead, kData, kData, kReadDataOffset, 0, false}});
  RecordReader reader = reader_for(c.directory);
  RecordReader::Window w = reader.window();
  EXPECT_TRUE(w.direct.empty());
  EXPECT_EQ(w.staging.size(), 4 + kReadDataOffset);

  const ConstBytes prefix = ConstBytes(c.stream).first(w.staging.size());
  EXPECT_TRUE(feed(reader, prefix).empty());
  w = reader.window();
  EXPECT_EQ(w.direct.data(), c.memory.begin()->second.bytes.data() + Conversation::kGuard);
  EXPECT_EQ(w.direct.size(), kData);

  EXPECT_EQ(feed(reader, ConstBytes(c.stream).subspan(prefix.size())), c.events);
  EXPECT_EQ(reader.take_placed(), kData);
  EXPECT_EQ(reader.take_copied(), 0u);
  EXPECT_EQ(c.check_memory(), "");
}

TEST(RecordReader, TwoLargeSinksDue_OneReceiveEndsTheFirstAndReachesTheSecondItem) {
  constexpr size_t kData = 50001;
  const Item item{Kind::kRead, kData, kData, kReadDataOffset, 0, false};
  Conversation c({item, item});
  RecordReader reader = reader_for(c.directory);
  const ConstBytes stream = c.stream;
  feed(reader, stream.first(4 + kReadDataOffset));
  const RecordReader::Window w = reader.window();
  const size_t trailer = kData % 5 * 4;
  EXPECT_EQ(w.direct.size(), kData);
  EXPECT_EQ(w.staging.size(), xdr_padding(kData) + trailer + 4 + kReadDataOffset);
  EXPECT_EQ(feed(reader, stream.subspan(4 + kReadDataOffset)), c.events);
  EXPECT_EQ(reader.take_placed(), 2 * kData);
  EXPECT_EQ(reader.take_copied(), 0u);
}

TEST(RecordReader, NoSinkDue_ReadsAsMuchAsTheStageHolds) {
  Directory d;
  RecordReader reader = reader_for(d);
  EXPECT_EQ(reader.window().staging.size(), RecordReader::kStagingBytes);
  EXPECT_TRUE(reader.window().direct.empty());
}

TEST(RecordReader, SinkBelowTheDirectMinimum_IsCopied) {
  Conversation c({{Kind::kRead, kDirectMin - 1, kDirectMin - 1, kReadDataOffset, 0, false}});
  RecordReader reader = reader_for(c.directory);
  EXPECT_EQ(feed(reader, c.stream), c.events);
  EXPECT_EQ(reader.take_placed(), 0u);
  EXPECT_EQ(reader.take_copied(), kDirectMin - 1);
  EXPECT_EQ(c.check_memory(), "");
}

TEST(RecordReader, SinkWithAPipe_GetsTheItemAndNothingElseInIt) {
  constexpr size_t kData = 100000;
  Conversation c({{Kind::kRead, kData, kData, kReadDataOffset, 0, false},
                  {Kind::kRead, kPipedMin - 1, kData, kReadDataOffset, 0, false}});
  c.add_pipes();
  RecordReader reader = reader_for(c.directory);
  const auto events = feed(
      reader, c.stream, [] { return SIZE_MAX; }, [&](const RecordReader::Message& m) { c.land(m); });
  EXPECT_EQ(events, c.events);
  EXPECT_EQ(c.check_memory(), "");
  EXPECT_EQ(c.piped, kData);  // the second item is too short for a pipe
  EXPECT_EQ(reader.take_spliced(), kData);
}

TEST(RecordReader, PipeFullInTheMiddle_RestGoesToMemory) {
  constexpr size_t kData = 100000;
  Conversation c({{Kind::kRead, kData, kData, kReadDataOffset, 0, false}});
  c.add_pipes();
  RecordReader reader = reader_for(c.directory);
  ConstBytes stream = c.stream;
  const size_t prefix = 4 + kReadDataOffset;
  feed(reader, stream.first(prefix));
  stream = stream.subspan(prefix);
  // One byte in each slot, as a stream of tiny segments would fill it.
  size_t taken = 0;
  Pipe* const pipe = reader.window().pipe;
  ASSERT_NE(pipe, nullptr);
  while (taken < 100 && pipe->write(stream.subspan(taken, 1)) == 1) {
    ASSERT_EQ(reader.window().direct.size(), kData - taken);
    reader.commit_piped(1);
    ++taken;
  }
  reader.pipe_full();
  EXPECT_EQ(reader.window().pipe, nullptr);
  EXPECT_EQ(c.pipes.get(), nullptr) << "none for the next items either, for a while";
  const auto events = feed(
      reader, stream.subspan(taken), [] { return SIZE_MAX; },
      [&](const RecordReader::Message& m) {
        EXPECT_EQ(m.piped.begin, 0u);
        EXPECT_EQ(m.piped.end, taken);
        c.land(m);
      });
  EXPECT_EQ(events, c.events);
  EXPECT_EQ(c.check_memory(), "");
}

// Data that a lost connection left in the pipe must not be used.
TEST(RecordReader, SameSinkOnANewConnection_PipeBeginsEmpty) {
  constexpr size_t kData = 100000;
  Conversation c({{Kind::kRead, kData, kData, kReadDataOffset, 0, false}});
  c.add_pipes();
  {
    RecordReader lost = reader_for(c.directory);
    feed(lost, ConstBytes(c.stream).first(kData / 2));
    EXPECT_GT(lost.take_spliced(), 0u);
  }
  RecordReader reader = reader_for(c.directory);
  const auto events = feed(
      reader, c.stream, [] { return SIZE_MAX; }, [&](const RecordReader::Message& m) { c.land(m); });
  EXPECT_EQ(events, c.events);
  EXPECT_EQ(c.check_memory(), "");
}

TEST(RecordReader, LargeItemInFragments_IsReceivedInPlaceFragmentByFragment) {
  constexpr size_t kData = 90000;
  Conversation c({{Kind::kRead, kData, kData, kReadDataOffset, 20000, false}});
  RecordReader reader = reader_for(c.directory);
  EXPECT_EQ(feed(reader, c.stream), c.events);
  EXPECT_EQ(reader.take_placed(), kData);
  EXPECT_EQ(reader.take_copied(), 0u);
  EXPECT_EQ(c.check_memory(), "");
}

TEST(RecordReader, ClaimedLength_TakesNoMemoryBeforeItsBytesCome) {
  Directory d;
  d.entries[5];
  RecordReader reader = reader_for(d);
  const ByteVector mark = words({0x80000000u | kMaxRecord});
  feed(reader, concat({mark, reply(5)}));
  EXPECT_LE(reader.message().head.capacity(), 8192u);
}

// ---------------------------------------------------------------------------------------------------------
// Abandoned calls.

TEST(RecordReader, AbandonedWithinTheItem_SinkIsNotTouchedAgain) {
  constexpr size_t kData = 50000;
  const Item item{Kind::kRead, kData, kData, kReadDataOffset, 0, false};
  Conversation c({item, {Kind::kPlain, 8, 0, 0, 0, false}});
  RecordReader reader = reader_for(c.directory);
  const size_t half = 4 + kReadDataOffset + kData / 2;
  feed(reader, ConstBytes(c.stream).first(half));
  reader.abandon(0x1000);
  ByteVector& sink = c.memory[0x1000].bytes;
  std::fill(sink.begin(), sink.end(), std::byte{0xee});
  EXPECT_TRUE(reader.window().direct.empty());
  const auto events = feed(reader, ConstBytes(c.stream).subspan(half));
  ASSERT_EQ(events.size(), 1u) << "the abandoned reply ends silently";
  EXPECT_EQ(events[0], c.events[1]);
  EXPECT_EQ(std::count(sink.begin(), sink.end(), std::byte{0xee}), static_cast<ptrdiff_t>(sink.size()));
}

TEST(RecordReader, AbandonOfAnotherXid_ChangesNothing) {
  Conversation c({{Kind::kRead, 5000, 5000, kReadDataOffset, 0, false}});
  RecordReader reader = reader_for(c.directory);
  feed(reader, ConstBytes(c.stream).first(100));
  reader.abandon(0x1001);
  EXPECT_EQ(feed(reader, ConstBytes(c.stream).subspan(100)), c.events);
  EXPECT_EQ(c.check_memory(), "");
}

// ---------------------------------------------------------------------------------------------------------
// Defective replies after which the stream goes on.

TEST(RecordReader, RecordEndsWithinItemOrPadding_ReplyIsDefectiveStreamGoesOn) {
  const ByteVector data = pattern(21, 1);
  const ByteVector whole = reply(0x1000, read_results(data));
  for (size_t keep = kReadDataOffset; keep < whole.size(); ++keep) {
    Conversation c({});
    c.add_sink(0x1000, 64, kReadDataOffset, {});
    c.directory.entries[0x2000];
    RecordReader reader = reader_for(c.directory);
    const ByteVector stream = concat({record(ConstBytes(whole).first(keep)), record(reply(0x2000))});
    const auto events = feed(reader, stream);
    ASSERT_EQ(events.size(), 2u) << keep;
    EXPECT_TRUE(events[0].defect) << keep;
    EXPECT_EQ(events[1].xid, 0x2000u) << keep;
    EXPECT_EQ(c.check_memory(), "") << keep;
  }
}

TEST(RecordReader, ItemBeyondSinkByOneByte_NothingIsWritten) {
  for (const size_t size : {size_t{20}, size_t{5000}}) {
    Conversation c({});
    c.add_sink(0x1000, size, kReadDataOffset, {});
    RecordReader reader = reader_for(c.directory);
    const auto events = feed(reader, record(reply(0x1000, read_results(pattern(size + 1, 9)))));
    ASSERT_EQ(events.size(), 1u);
    EXPECT_TRUE(events[0].defect);
    const ByteVector& memory = c.memory[0x1000].bytes;
    EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{0xee}),
              static_cast<ptrdiff_t>(memory.size()));
  }
}

rpc::BulkPlace told_place;
rpc::Locate tell_place(ConstBytes, rpc::BulkPlace& place) {
  place = told_place;
  return rpc::Locate::kFound;
}

TEST(RecordReader, LocatorNamesPlacesOutsideTheReply_CostsTheReplyOnly) {
  const struct {
    rpc::BulkPlace place;
    bool defect;
  } cases[] = {{{SIZE_MAX, 8}, true}, {{kMaxRecord + 1, 8}, true},
               {{1000, 8}, true},     {{0, SIZE_MAX}, true},
               {{0, 65}, true},       {{0, 64}, true},
               {{0, 40}, false},      {{40, 0}, false},
               {{36, 4}, false},      {{37, 4}, true},
               {{39, 1}, true},       {{36, 1}, false}};
  for (const auto& test : cases) {
    Conversation c({});
    c.add_sink(0x1000, 64, 0, {});
    c.directory.entries[0x1000].sink.locate = tell_place;
    c.directory.entries[0x2000];
    told_place = test.place;
    RecordReader reader = reader_for(c.directory);
    const auto events = feed(reader, concat({record(reply(0x1000, pattern(16, 3))), record(reply(0x2000))}));
    ASSERT_EQ(events.size(), 2u) << test.place.offset << "+" << test.place.length;
    EXPECT_EQ(events[0].defect, test.defect) << test.place.offset << "+" << test.place.length;
    EXPECT_EQ(c.check_memory(), "");
  }
}

rpc::Locate never_enough(ConstBytes, rpc::BulkPlace&) {
  return rpc::Locate::kNeedMore;
}

TEST(RecordReader, LocatorNeverSatisfied_ReplyIsTakenWhole) {
  for (const size_t size : {size_t{0}, size_t{100}, size_t{40000}}) {
    Conversation c({});
    c.add_sink(0x1000, 4096, 40, {});
    c.directory.entries[0x1000].sink.locate = never_enough;
    RecordReader reader = reader_for(c.directory);
    const ByteVector message = reply(0x1000, pattern(size, 1));
    const auto events = feed(reader, record(message));
    ASSERT_EQ(events.size(), 1u);
    EXPECT_FALSE(events[0].placed);
    EXPECT_EQ(events[0].head, message);
  }
}

// ---------------------------------------------------------------------------------------------------------
// Streams that end the connection.

std::string violation_of(ConstBytes stream, Directory d = {}) {
  RecordReader reader = reader_for(d);
  const auto events = feed(reader, stream);
  if (events.empty() || events.back().step != Step::kViolation) return "none";
  EXPECT_EQ(reader.next(), Step::kViolation) << "stays broken";
  return reader.violation();
}

TEST(RecordReader, BrokenStreams_AreViolations) {
  Directory sent_early;
  sent_early.entries[9].kind = Expected::Kind::kEarly;
  Directory awaited;
  awaited.entries[9];
  const ByteVector big_call = concat({words({1, 0}), pattern(RecordReader::kMaxCallBytes, 1)});

  EXPECT_EQ(violation_of(words({0x80000000u | (kMaxRecord + 1)})), "record larger than the limit");
  EXPECT_EQ(violation_of(words({0x7fffffffu})), "record larger than the limit");
  EXPECT_EQ(violation_of(words({0xffffffffu})), "record larger than the limit");
  EXPECT_EQ(violation_of(words({0x80000000u})), "record too short for an RPC message");
  EXPECT_EQ(violation_of(words({0x80000004u, 1})), "record too short for an RPC message");
  EXPECT_EQ(violation_of(concat({words({0x80000007u, 1}), ByteVector(3)})),
            "record too short for an RPC message");
  EXPECT_EQ(violation_of(words({0x80000008u, 1, 2})), "message is neither call nor reply");
  EXPECT_EQ(violation_of(record(reply(9)), sent_early), "reply to a call that is not yet sent completely");
  EXPECT_EQ(violation_of(record(big_call)), "call record larger than the limit");
  EXPECT_EQ(violation_of(record(big_call, 1000)), "call record larger than the limit");
  EXPECT_EQ(violation_of(record(reply(9)), awaited), "none");
}

TEST(RecordReader, FragmentsThatSumBeyondTheLimit_Violation) {
  Directory d;
  d.entries[9];
  const ByteVector message = concat({words({9, 1}), pattern(kMaxRecord - 8, 2)});
  EXPECT_EQ(violation_of(record(message, 1000), d), "none");
  EXPECT_EQ(violation_of(record(concat({message, words({0})}), 1000), d), "record larger than the limit");
}

TEST(RecordReader, EndlessEmptyFragments_ViolationAfterTheAllowedNumber) {
  ByteVector stream;
  for (unsigned i = 0; i < RecordReader::kMaxEmptyFragments; ++i) stream = concat({stream, words({0})});
  Directory d;
  d.entries[9];
  EXPECT_EQ(violation_of(concat({stream, record(reply(9))}), d), "none");
  EXPECT_EQ(violation_of(concat({stream, words({0}), record(reply(9))}), d),
            "endless empty record fragments");
}

TEST(RecordReader, EmptyFragmentsInEveryRecord_AreCountedPerRecord) {
  Directory d;
  ByteVector stream;
  for (uint32_t xid = 0; xid < 3 * RecordReader::kMaxEmptyFragments; ++xid) {
    d.entries[xid];
    stream = concat({stream, words({0}), record(reply(xid))});
  }
  RecordReader reader = reader_for(d);
  EXPECT_EQ(feed(reader, stream).size(), 3 * RecordReader::kMaxEmptyFragments);
}

}  // namespace
}  // namespace nfsrdma::test

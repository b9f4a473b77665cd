// SPDX-License-Identifier: Apache-2.0
// Frames that break a rule, each on a new connection: the Terminate that answers it, the disconnect event,
// and no change of any memory.
#include <algorithm>

#include "tests/unit/fabric/support/raw_peer.h"

namespace nfsrdma::test {
namespace {

using fabric::Access;
using iwarp::Opcode;
using iwarp::Segment;
using iwarp::TermCode;
namespace term = iwarp::term;

// What a peer may know: tags of memory that it may write, that it may read, and that is closed by now; and
// the request of a Read of ours that is outstanding.
struct Known {
  rpcrdma::segment writable;
  rpcrdma::segment readable;
  rpcrdma::segment closed;
  iwarp::ReadRequest read;
};

struct Offence {
  const char* name;
  std::function<ByteVector(const Known&)> bytes;
  TermCode code;
};

ByteVector write_to(const rpcrdma::segment& s, uint64_t shift, size_t n, uint32_t xor_tag = 0) {
  Segment w = write_segment(s, shift);
  w.stag ^= xor_tag;
  return frame(w, pattern(n, 1));
}

ByteVector read_of(const rpcrdma::segment& s, uint64_t shift, uint32_t n, uint32_t xor_tag = 0) {
  return read_request(1, {1, 0, n, s.handle ^ xor_tag, s.offset + shift});
}

ByteVector invalidating(uint32_t tag) {
  Segment s = send_segment(1);
  s.opcode = Opcode::kSendInvalidate;
  s.invalidate = tag;
  return frame(s, pattern(4, 1));
}

std::vector<Offence> offences() {
  return {
      {"WriteToUnknownTag", [](const Known& k) { return write_to(k.writable, 0, 10, 0x10000000); },
       term::kInvalidStag},
      {"WriteToTagZero",
       [](const Known&) {
         return write_to({0, 0, 0}, 0, 1);
       },
       term::kInvalidStag},
      {"WriteToClosedTag", [](const Known& k) { return write_to(k.closed, 0, 10); }, term::kInvalidStag},
      {"WriteToReadable", [](const Known& k) { return write_to(k.readable, 0, 10); }, term::kInvalidStag},
      {"WriteIntoOurRead",
       [](const Known& k) {
         return write_to({k.read.sink_stag, 0, k.read.sink_offset}, 0, 10);
       },
       term::kInvalidStag},
      {"WriteOneByteTooFar", [](const Known& k) { return write_to(k.writable, 991, 10); }, term::kBounds},
      {"WriteBefore", [](const Known& k) { return write_to(k.writable, ~uint64_t{0}, 1); }, term::kBounds},
      {"WriteLarge", [](const Known& k) { return write_to(k.writable, 0, 65'000); }, term::kBounds},
      {"WriteWraps", [](const Known& k) { return write_to(k.writable, ~k.writable.offset - 5, 10); },
       term::kWrap},
      {"ReadOfUnknownTag", [](const Known& k) { return read_of(k.readable, 0, 10, 0x10000000); },
       term::kReadInvalidStag},
      {"ReadOfClosedTag", [](const Known& k) { return read_of(k.closed, 0, 10); }, term::kReadInvalidStag},
      {"ReadOfWritable", [](const Known& k) { return read_of(k.writable, 0, 10); }, term::kReadAccess},
      {"ReadOneByteTooFar", [](const Known& k) { return read_of(k.readable, 991, 10); }, term::kReadBounds},
      {"ReadOfAllThereIs", [](const Known& k) { return read_of(k.readable, 0, ~0u); }, term::kReadBounds},
      {"ReadWraps", [](const Known& k) { return read_of(k.readable, ~k.readable.offset - 5, 10); },
       term::kReadWrap},
      {"SinkWraps",
       [](const Known& k) {
         return read_request(1, {1, ~uint64_t{0} - 5, 10, k.readable.handle, k.readable.offset});
       },
       term::kReadWrap},
      {"InvalidateUnknownTag", [](const Known&) { return invalidating(0x12345678); }, term::kReadInvalidStag},
      {"InvalidateClosedTag", [](const Known& k) { return invalidating(k.closed.handle); },
       term::kReadInvalidStag},
      {"InvalidateOurRead", [](const Known& k) { return invalidating(k.read.sink_stag); },
       term::kCannotInvalidate},
      {"AnswerToAnotherRead",
       [](const Known& k) {
         Segment s = read_response(k.read);
         s.stag ^= 0x10000000;
         return frame(s, pattern(100, 1));
       },
       term::kInvalidStag},
      {"AnswerIntoExposedMemory",
       [](const Known& k) {
         return frame(read_response({k.writable.handle, k.writable.offset, 0, 0, 0}), pattern(100, 1));
       },
       term::kInvalidStag},
      {"AnswerTooLong", [](const Known& k) { return frame(read_response(k.read), pattern(101, 1)); },
       term::kBounds},
      {"AnswerTooShort", [](const Known& k) { return frame(read_response(k.read), pattern(99, 1)); },
       term::kUnspecified},
      {"AnswerFromTheMiddle", [](const Known& k) { return frame(read_response(k.read, 1), pattern(99, 1)); },
       term::kBounds},
      {"TooManyReads",
       [](const Known& k) {
         ByteVector all;
         for (uint32_t i = 1; i <= 9; ++i) {  // 8 were agreed
           const ByteVector r = read_request(i, {1, 0, 1000, k.readable.handle, k.readable.offset});
           all.insert(all.end(), r.begin(), r.end());
         }
         return all;
       },
       term::kNoBuffer},
      {"MessageTooLong", [](const Known&) { return frame(send_segment(1), pattern(1001, 1)); },
       term::kTooLong},
      {"MsnJumps", [](const Known&) { return frame(send_segment(2), pattern(1, 1)); }, term::kInvalidMsn},
      {"WrongQueue",
       [](const Known&) {
         Segment s = send_segment(1);
         s.queue = 5;
         return frame(s, pattern(1, 1));
       },
       term::kInvalidQueue},
      {"EmptyFrame", [](const Known&) { return frame(ConstBytes{}); }, term::kFpduStart},
      {"LargestLength", [](const Known&) { return ByteVector(3000, std::byte{0xff}); }, term::kTaggedVersion},
      {"Garbage", [](const Known&) { return ByteVector(3000, std::byte{0}); }, term::kFpduStart},
      {"Http",
       [](const Known&) {
         const ConstBytes text = as_const_bytes("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
         return ByteVector(text.begin(), text.end());
       },
       term::kUntaggedVersion},
      {"BadCrc",
       [](const Known& k) {
         ByteVector f = frame(send_segment(1), pattern(100, 1));
         f.back() ^= std::byte{1};
         (void)k;
         return f;
       },
       term::kCrc},
      {"BadCrcOfAnAnswer",
       [](const Known& k) {
         ByteVector f = frame(read_response(k.read), pattern(100, 1));
         f.back() ^= std::byte{1};
         return f;
       },
       term::kCrc},
  };
}

class IwarpHostile : public testing::TestWithParam<Offence> {};

TEST_P(IwarpHostile, IsTerminatedWithItsCode_AndNothingElseHappens) {
  iwarp::Options options;
  options.crc = true;
  fabric::EndpointOptions endpoint;
  endpoint.receive_bytes = 1000;
  RawToOurs t(options, endpoint);
  ByteVector writable(1000);
  ByteVector readable = pattern(1000, 9);
  ByteVector closed(1000);
  ByteVector sink(100);
  auto owner = std::make_shared<int>(1);
  Known k;
  k.writable = t.expose(writable, Access::kRemoteWrite);
  k.readable = t.expose(readable, Access::kRemoteRead);
  k.closed = t.expose(closed, Access::kRemoteWrite);
  t.on_loop([&] {
    t.ours->invalidate({&k.closed, 1}, 0, 1);
    t.ours->read(sink, {77, 100, 0}, owner, 5);
  });
  t.raw->write(frame(write_segment({0, 0, 0})));
  const auto request = t.raw->read_frame();
  ASSERT_TRUE(request && request->segment.opcode == Opcode::kReadRequest);
  k.read = iwarp::load_read_request(request->payload.data());

  // Bytes after a violation are never processed.
  t.raw->write(concat({GetParam().bytes(k), frame(send_segment(1), pattern(3, 1)), frame(send_segment(2))}));
  const auto terminate = t.raw->read_terminate();
  ASSERT_TRUE(terminate);
  EXPECT_EQ(to_string(terminate->code), to_string(GetParam().code));
  EXPECT_EQ(terminate->ddp_header.has_value(), GetParam().code.layer != 2);
  EXPECT_EQ(terminate->segment_bytes.has_value(), GetParam().code.layer != 2);
  ASSERT_TRUE(t.ours.disconnects());
  EXPECT_EQ(t.ours.disconnected()[0].errnum, EPROTO);
  EXPECT_EQ(t.ours.received(), 0u);
  EXPECT_TRUE(t.ours.completed().empty());
  EXPECT_EQ(owner.use_count(), 1);
  EXPECT_EQ(writable, ByteVector(1000));
  EXPECT_EQ(closed, ByteVector(1000));
  EXPECT_EQ(readable, pattern(1000, 9));
}

INSTANTIATE_TEST_SUITE_P(Offences, IwarpHostile, testing::ValuesIn(offences()),
                         [](const auto& offence) { return std::string(offence.param.name); });

// The stream ends at every byte of a frame.
TEST(IwarpCut, AtEveryByte_DisconnectsOnce) {
  ByteVector memory(50);
  for (size_t n = 0; n <= 80; ++n) {
    RawToOurs t;
    const auto segment = t.expose(memory, Access::kRemoteWrite);
    const ByteVector f = concat({frame(write_segment(segment), pattern(50, 1)), frame(send_segment(1))});
    t.raw->write(ConstBytes(f).first(std::min(n, f.size())));
    t.raw->socket().close();
    ASSERT_TRUE(t.ours.disconnects());
    EXPECT_EQ(t.ours.disconnected().size(), 1u);
  }
}

// "DDP MUST silently drop any subsequent incoming DDP Segments"; nothing is sent in return.
TEST(IwarpTerminate, FromThePeer_InTheMiddleOfAnything) {
  for (const bool readable : {true, false}) {
    RawToOurs t;
    ByteVector data(32u << 20);
    auto owner = std::make_shared<int>(1);
    t.raw->write(frame(send_segment(1), pattern(3, 1)));
    ASSERT_TRUE(t.ours.receives(1));
    t.on_loop([&] {
      t.ours->write({1, static_cast<uint32_t>(data.size()), 0}, data, owner, 1, true);
      t.ours->read(MutableBytes(data).first(10'000), {1, 10'000, 0}, owner, 2);
    });
    Segment s = send_segment(1);
    s.opcode = Opcode::kTerminate;
    s.queue = iwarp::kTerminateQueue;
    t.raw->write(frame(s, iwarp::encode(iwarp::Terminate{term::kBounds, {}, {}, {}})));
    ASSERT_TRUE(t.ours.disconnects());
    EXPECT_NE(t.ours.disconnected()[0].cause.find("base or bounds"), std::string::npos);
    EXPECT_EQ(owner.use_count(), 1);
    if (readable) {
      // A frame that was sent in part is completed.
      while (const auto f = t.raw->read_frame()) EXPECT_NE(f->segment.opcode, Opcode::kTerminate);
    }
  }
}

TEST(IwarpTerminate, ThatCannotBeRead_EndsTheConnectionToo) {
  RawToOurs t;
  Segment s = send_segment(1);
  s.opcode = Opcode::kTerminate;
  s.queue = iwarp::kTerminateQueue;
  t.raw->write(frame(s, {}));
  ASSERT_TRUE(t.ours.disconnects());
  EXPECT_TRUE(t.raw->closed());
}

// "Late": the tag is closed while the frame that uses it is on its way.
TEST(IwarpLate, FrameInFlightWhenItsMemoryIsClosed_DoesNotTouchIt) {
  RawToOurs t;
  auto memory = std::make_unique<ByteVector>(60'000);
  const auto segment = t.expose(*memory, Access::kRemoteWrite);
  const ByteVector f = frame(write_segment(segment), pattern(60'000, 1));
  t.raw->write(ConstBytes(f).first(30'000));
  ASSERT_TRUE(eventually([&] { return t.on_loop([&] { return memory->at(29'000 - 16) != std::byte{0}; }); }));
  t.on_loop([&] {
    EXPECT_TRUE(t.ours->invalidate({&segment, 1}, 0, 1));
    memory.reset();
  });
  t.raw->write(ConstBytes(f).subspan(30'000));
  const auto terminate = t.raw->read_terminate();
  ASSERT_TRUE(terminate);
  EXPECT_EQ(terminate->code, term::kInvalidStag);
  EXPECT_TRUE(t.ours.disconnects());
}

// The peer reads memory that is then closed to it: a frame that was sent in part is completed from a copy.
TEST(IwarpLate, ReadInFlightWhenItsMemoryIsClosed_IsCutOff) {
  RawToOurs t;
  constexpr uint32_t kBytes = 64u << 20;
  auto memory = std::make_unique<ByteVector>(kBytes);
  const auto segment = t.expose(*memory, Access::kRemoteRead);
  t.raw->write(read_request(1, {1, 0, kBytes, segment.handle, segment.offset}));
  ASSERT_TRUE(t.raw->read_frame());
  t.on_loop([&] {
    EXPECT_TRUE(t.ours->invalidate({&segment, 1}, 0, 1));
    memory.reset();
  });
  const auto terminate = t.raw->read_terminate();
  ASSERT_TRUE(terminate);
  EXPECT_EQ(terminate->code, term::kReadInvalidStag);
}

}  // namespace
}  // namespace nfsrdma::test

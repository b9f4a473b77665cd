// SPDX-License-Identifier: Apache-2.0
// What our endpoint sends on the wire, and how it handles frames as other stacks cut them.
#include <atomic>

#include "tests/unit/fabric/support/raw_peer.h"

namespace nfsrdma::test {
namespace {

using fabric::Access;
using iwarp::Opcode;
using iwarp::StartupFrame;

TEST(IwarpWire, Reply_IsWithinWhatWasAsked) {
  RawToOurs t;
  EXPECT_FALSE(t.reply.rejected || t.reply.crc || t.reply.markers);
  EXPECT_EQ(t.reply.revision, 2);
  EXPECT_EQ(t.reply.enhanced->ird, 8);
  EXPECT_EQ(t.reply.enhanced->ord, 8);
}

// "All responders are REQUIRED to issue unenhanced RDMA connection establishment responses in response to
// unenhanced RDMA connection establishment requests" (RFC 6581 section 10).
TEST(IwarpWire, Revision1Peer_IsServed) {
  StartupFrame request;
  request.revision = 1;
  RawToOurs t({}, {}, request);
  EXPECT_EQ(t.reply.revision, 1);
  EXPECT_FALSE(t.reply.enhanced);
  t.raw->write(frame(send_segment(1), pattern(10, 1)));
  EXPECT_TRUE(t.ours.receives(1));
}

TEST(IwarpWire, ByteAtATime_MessagesAndMemoryArrive) {
  iwarp::Options crc;
  crc.crc = true;
  ByteVector memory(500);
  RawToOurs t(crc);
  EXPECT_TRUE(t.reply.crc);
  const auto segment = t.expose(memory, Access::kRemoteWrite);
  const ByteVector data = pattern(500, 3);
  ByteVector stream =
      concat({frame(send_segment(1, 0, false), ConstBytes(data).first(101)),
              frame(write_segment(segment, 0, false), ConstBytes(data).first(333)),
              frame(send_segment(1, 101), ConstBytes(data).subspan(101)),
              frame(write_segment(segment, 333), ConstBytes(data).subspan(333)), frame(send_segment(2), {})});
  for (const std::byte b : stream) ASSERT_TRUE(t.raw->write({&b, 1}));
  ASSERT_TRUE(t.ours.receives(2));
  EXPECT_EQ(t.ours.message(0), data);
  EXPECT_EQ(memory, data);
  EXPECT_EQ(t.on_loop([&] { return t.ours->counters().bytes_placed; }), 500u);
}

// "MPA Responder mode implementations MUST receive and validate at least one FPDU before sending any FPDUs"
// (RFC 5044 section 7.1.2 rule 4).
TEST(IwarpWire, PassiveSide_IsSilentUntilItHears) {
  RawToOurs t;
  const ByteVector data = pattern(10, 1);
  t.on_loop([&] {
    const ConstBytes part = data;
    t.ours->send({&part, 1});
  });
  std::byte b;
  for (int turns = 0; turns < 3; ++turns) t.on_loop([] {});  // what is sent is sent by the end of a turn
  EXPECT_EQ(::recv(t.raw->socket().fd(), &b, 1, MSG_DONTWAIT), -1);
  t.raw->write(frame(write_segment({0, 0, 0})));  // the smallest frame
  const auto f = t.raw->read_frame();
  ASSERT_TRUE(f);
  EXPECT_EQ(f->payload, data);
}

// The passive side must not send before it has received a frame. It keeps reading even when many Sends wait:
// otherwise both sides would wait for ever, and the end of the connection would not be noticed.
TEST(IwarpWire, PassiveSideWithMoreToSayThanMayWait_Listens) {
  constexpr size_t kSends = 80;
  const ByteVector large = pattern(65536, 1);
  RawToOurs t;
  t.on_loop([&] {
    const ConstBytes parts[] = {large};
    for (size_t i = 0; i < kSends; ++i) t.ours->send(parts);
  });
  t.raw->write(frame(send_segment(1), pattern(4, 1)));
  for (size_t i = 0; i < kSends; ++i) {
    size_t bytes = 0;
    for (bool last = false; !last;) {
      const auto f = t.raw->read_frame();
      ASSERT_TRUE(f);
      bytes += f->payload.size();
      last = f->segment.last;
    }
    EXPECT_EQ(bytes, large.size());
  }
  EXPECT_TRUE(t.ours.receives(1));
}

TEST(IwarpWire, Sends_HaveTheirOpcodesAndNumbers) {
  iwarp::Options options;
  options.crc = true;
  options.frame_bytes = 128;
  RawToOurs t(options);
  t.raw->write(frame(write_segment({0, 0, 0})));
  const ByteVector data = pattern(150, 1);
  t.on_loop([&] {
    const ConstBytes part = data;
    t.ours->send({&part, 1});
    t.ours->send({&part, 1}, 7);
    t.ours->send({&part, 1}, 0, true);
    t.ours->send({&part, 1}, 8, true);
  });
  const std::pair<Opcode, uint32_t> expected[] = {{Opcode::kSend, 0},
                                                  {Opcode::kSendInvalidate, 7},
                                                  {Opcode::kSendSolicited, 0},
                                                  {Opcode::kSendSolicitedInvalidate, 8}};
  uint32_t msn = 1;
  for (const auto& [opcode, invalidate] : expected) {
    const auto a = t.raw->read_frame();
    const auto b = t.raw->read_frame();
    ASSERT_TRUE(a && b);
    EXPECT_TRUE(a->crc_good && b->crc_good);
    EXPECT_EQ(a->segment.opcode, opcode);
    EXPECT_EQ(b->segment.opcode, opcode);
    EXPECT_EQ(a->segment.invalidate, invalidate);
    EXPECT_EQ(a->segment.msn, msn);
    EXPECT_EQ(b->segment.msn, msn);
    EXPECT_EQ(a->segment.queue, 0u);
    EXPECT_FALSE(a->segment.last);
    EXPECT_TRUE(b->segment.last);
    EXPECT_EQ(a->payload.size(), 128u - 2 - 18 - 4);
    EXPECT_EQ(b->segment.message_offset, a->payload.size());
    EXPECT_EQ(concat({a->payload, b->payload}), data);
    ++msn;
  }
}

// "If the Data Source receives an RDMA Read Request Header with the RDMA Read Message Size set to zero, the
// Data Source RDMAP MUST NOT validate the Data Source STag [...] and MUST respond with a zero-length RDMA
// Read Response Message" (RFC 5040 section 5.2.1).
TEST(IwarpWire, ReadRequests_AreAnsweredInOrder) {
  ByteVector memory = pattern(1000, 1);
  RawToOurs t;
  const auto segment = t.expose(memory, Access::kRemoteRead);
  t.raw->write(read_request(1, {0xaa, 5, 100, segment.handle, segment.offset + 900}));
  t.raw->write(read_request(2, {0xbb, 6, 0, 12345, 99}));
  const auto a = t.raw->read_frame();
  const auto b = t.raw->read_frame();
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->segment, read_response({0xaa, 5, 0, 0, 0}));
  EXPECT_EQ(a->payload, ByteVector(memory.begin() + 900, memory.end()));
  EXPECT_EQ(b->segment, read_response({0xbb, 6, 0, 0, 0}));
  EXPECT_TRUE(b->payload.empty());
}

TEST(IwarpWire, OurReads_AskWithinOrd_AndTakeTheAnswer) {
  StartupFrame request = iwarp::make_request({false, 1, 8, {}});  // one Read at a time
  ByteVector memory(300);
  RawToOurs t({}, {}, request);
  t.raw->write(frame(write_segment({0, 0, 0})));
  t.on_loop([&] {
    for (Cookie i = 0; i < 3; ++i)
      t.ours->read(MutableBytes(memory).subspan(i * 100, 100), {77, 100, 1000 * i}, nullptr, i);
  });
  for (uint32_t i = 0; i < 3; ++i) {
    const auto f = t.raw->read_frame();
    ASSERT_TRUE(f);
    EXPECT_EQ(f->segment.opcode, Opcode::kReadRequest);
    EXPECT_EQ(f->segment.queue, iwarp::kReadRequestQueue);
    EXPECT_EQ(f->segment.msn, i + 1);
    const auto r = iwarp::load_read_request(f->payload.data());
    EXPECT_EQ(r.source_stag, 77u);
    EXPECT_EQ(r.source_offset, 1000u * i);
    EXPECT_EQ(t.ours.completed().size(), i) << "the others wait";
    const ByteVector data = pattern(100, i);
    t.raw->write(frame(read_response(r, 0, false), ConstBytes(data).first(60)));
    t.raw->write(frame(read_response(r, 60), ConstBytes(data).subspan(60)));
    ASSERT_TRUE(t.ours.completes(i + 1));
  }
  EXPECT_EQ(memory, concat({pattern(100, 0), pattern(100, 1), pattern(100, 2)}));
}

// siw can miss a frame that follows its MPA reply closely; the frame stays unread until the next one arrives.
TEST(IwarpWire, ActiveSide_NudgesWhileNothingIsHeard) {
  LoopThread loop;
  std::unique_ptr<fabric::Fabric> fabric;
  Side ours;
  Peer peer([&](Listener& l) {
    RawPeer raw(l.accept());
    raw.read_startup(StartupFrame::Kind::kRequest);
    StartupFrame reply;
    reply.kind = StartupFrame::Kind::kReply;
    reply.enhanced.emplace();
    raw.write(iwarp::encode(reply));
    const auto first = raw.read_frame();
    ASSERT_TRUE(first);
    EXPECT_EQ(first->segment.opcode, Opcode::kSend);
    for (int i = 0; i < 2; ++i) {
      const auto nudge = raw.read_frame();
      ASSERT_TRUE(nudge);
      EXPECT_EQ(nudge->segment, write_segment({0, 0, 0}));
      EXPECT_TRUE(nudge->payload.empty());
    }
    raw.write(frame(send_segment(1), pattern(4, 1)));
    EXPECT_TRUE(raw.closed()) << "heard: no nudge any more";
  });
  iwarp::Options options;
  options.nudge_after = std::chrono::milliseconds(10);
  call_on(*loop, [&] { fabric = iwarp::make_fabric(*loop, options); });
  fabric::ConnectOptions to;
  to.host = "127.0.0.1";
  to.port = peer.port();
  auto made = run_on(*loop, fabric->connect(to));
  ASSERT_TRUE(made);
  call_on(*loop, [&] {
    ours.endpoint = std::move(*made);
    ours->start(ours);
    const ConstBytes part = as_const_bytes("hello");
    ours->send({&part, 1});
  });
  EXPECT_TRUE(ours.receives(1));
  let_pass(*loop, 10 * options.nudge_after);  // the third nudge would come after four
  call_on(*loop, [&] { ours.endpoint.reset(); });
  peer.join();
  call_on(*loop, [&] { fabric.reset(); });
}

// A peer that sends requests and does not read the responses: what waits for it is limited.
TEST(IwarpWire, PeerThatDoesNotRead_IsNotListenedTo) {
  RawToOurs t;
  constexpr size_t kAnswer = 8000;
  const ByteVector answer = pattern(kAnswer, 1);
  t.ours.hook = [&](fabric::Received) {
    const ConstBytes part = answer;
    t.ours->send({&part, 1});
  };
  constexpr uint32_t kQuestions = 200'000, kAtOnce = 100;
  std::atomic<size_t> asked{0};
  std::thread writer([&] {
    ByteVector questions;
    for (uint32_t i = 1; i <= kQuestions; ++i) {
      const ByteVector f = frame(send_segment(i));
      questions.insert(questions.end(), f.begin(), f.end());
      if (i % kAtOnce != 0) continue;
      if (!t.raw->write(questions)) return;
      questions.clear();
      asked = i;
    }
  });
  // It has stopped if it reads nothing in several turns of its loop although there is something to read.
  EXPECT_TRUE(eventually([&] {
    const size_t asked_before = asked, now = t.ours.received();
    for (int turns = 0; turns < 10; ++turns) t.on_loop([] {});
    return now == t.ours.received() && asked_before >= now + kAtOnce;
  }));
  EXPECT_LT(t.ours.received() * kAnswer, 64u << 20);
  t.on_loop([&] { t.ours.endpoint.reset(); });
  ::shutdown(t.raw->socket().fd(), SHUT_RDWR);
  writer.join();
  t.raw->socket().reset();
}

}  // namespace
}  // namespace nfsrdma::test

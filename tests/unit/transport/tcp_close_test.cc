// SPDX-License-Identifier: Apache-2.0
// TcpTransport when pending calls are ended: fail_pending() and close(), in every state of the transport.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "tests/unit/transport/support/black_hole.h"
#include "tests/unit/transport/support/handshakes.h"
#include "tests/unit/transport/support/rig.h"

namespace nfsrdma::test {
namespace {

using rpc::Outcome;
using rpc::TransportState;

// ---------------------------------------------------------------------------------------------------------
// fail_pending(): the session is lost.

const Error kSessionGone{.layer = Layer::kSession,
                         .recovery = Recovery::kNewSession,
                         .errnum = EIO,
                         .status = 10052,
                         .op = "SEQUENCE",
                         .cause = "bad session"};

TEST(TcpFailPending, CallsEndWithItsErrorAndLateRepliesAreIgnored) {
  std::promise<void> received;
  std::promise<void> failed;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    const auto a = s.read_record();
    const auto b = s.read_record();
    ASSERT_TRUE(a && b);
    received.set_value();
    failed.get_future().wait();
    s.write_record(echo(*a));
    s.write_record(echo(*b));
    answer_one(s);
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  auto a = rig.call(words({1}));
  auto b = rig.call(words({2}));
  received.get_future().wait();
  call_on(rig.loop(), [&] { rig.transport().fail_pending(kSessionGone); });
  for (auto* f : {&a, &b}) {
    const Outcome o = f->get();
    ASSERT_FALSE(o.reply);
    EXPECT_EQ(o.reply.error().recovery, Recovery::kNewSession);
    EXPECT_EQ(o.reply.error().status, 10052u);
    EXPECT_EQ(o.transmissions, 1u);
  }
  failed.set_value();
  EXPECT_TRUE(rig.call(words({3})).get().reply);
  EXPECT_EQ(rig.status().connects, 1u) << "the connection stays";
  EXPECT_EQ(rig.status().bad_messages, 0u);
}

// The XID of each such call is remembered while the connection is up.
TEST(TcpFailPending, RepliesThatNeverCome_CostTheConnection) {
  constexpr size_t kCalls = 1100;
  std::promise<void> received;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    for (size_t i = 0; i < kCalls; ++i) ASSERT_TRUE(s.read_record());
    received.set_value();
    EXPECT_TRUE(s.closed_by_client());
    s = l.accept();
    answer_one(s);
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  std::vector<std::future<Outcome>> calls;
  for (size_t i = 0; i < kCalls; ++i) calls.push_back(rig.call(words({1})));
  received.get_future().wait();
  call_on(rig.loop(), [&] { rig.transport().fail_pending(kSessionGone); });
  for (auto& call : calls) EXPECT_FALSE(call.get().reply);
  EXPECT_TRUE(rig.call(words({3})).get().reply);
  EXPECT_EQ(rig.status().connects, 2u);
}

TEST(TcpFailPending, NotSentYet_IsNeverSent) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    EXPECT_EQ(argument(*call), 3u);
    s.write_record(echo(*call));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  auto before = rig.call(words({1}));
  call_on(rig.loop(), [&] { rig.transport().fail_pending(kSessionGone); });
  EXPECT_EQ(before.get().transmissions, 0u);
  rig.must_start();
  // Queued, but before the end of the loop's turn.
  std::future<Outcome> queued;
  call_on(rig.loop(), [&] {
    queued = rig.call(words({2}));
    rig.transport().fail_pending(kSessionGone);
  });
  EXPECT_EQ(queued.get().transmissions, 0u);
  EXPECT_TRUE(rig.call(words({3})).get().reply);
}

// The first bytes of a record were sent when its call ends: the rest must follow, from memory that still
// exists.
TEST(TcpFailPending, RecordSentInPart_IsFinishedAndTheStreamGoesOn) {
  constexpr size_t kBytes = 16u << 20;
  std::promise<void> failed;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    const ByteVector start = s.read_bytes(1000);
    failed.get_future().wait();
    const ByteVector rest = s.read_bytes(4 + kCallHeaderBytes + 4 + 2 * (1u << 20) + kBytes - 1000);
    const ByteVector call = concat({ConstBytes(start).subspan(4), rest});
    const ByteVector bulk = pattern(1u << 20, 8);
    EXPECT_TRUE(std::equal(bulk.begin(), bulk.end(), call.begin() + kCallHeaderBytes + 4));
    EXPECT_TRUE(std::equal(bulk.begin(), bulk.end(), call.begin() + kCallHeaderBytes + 4 + (1 << 20)));
    const ByteVector inline_bytes = pattern(kBytes, 9);
    EXPECT_TRUE(
        std::equal(inline_bytes.begin(), inline_bytes.end(), call.end() - static_cast<ptrdiff_t>(kBytes)));
    s.write_record(reply(xid_of(call)));
    const auto next = s.read_record();
    ASSERT_TRUE(next);
    EXPECT_EQ(argument(*next), 3u) << "the one between was not begun";
    s.write_record(echo(*next));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  std::future<Outcome> half;
  {
    Slice item = rig.pool().slice(1u << 20);
    const ByteVector bulk = pattern(1u << 20, 8);
    std::copy(bulk.begin(), bulk.end(), item.bytes.begin());
    rpc::Call c;
    c.op = "WRITE";
    c.head = call_head(words({2u << 20}));
    c.bulks.push_back({c.head.size(), item.bytes, c.head.size()});
    c.bulks.push_back({c.head.size() + item.size(), item.bytes, c.head.size()});
    c.keep.push_back(item);
    const ByteVector more = pattern(kBytes, 9);
    c.head.insert(c.head.end(), more.begin(), more.end());
    half = rig.call(std::move(c));
  }
  EXPECT_TRUE(eventually([&] { return rig.status().bytes_sent >= 1000; }));
  ASSERT_LT(rig.status().bytes_sent, kBytes) << "the socket took all of it: the test needs a larger call";
  auto between = rig.call(words({2}));
  call_on(rig.loop(), [&] { rig.transport().fail_pending(kSessionGone); });
  EXPECT_EQ(half.get().transmissions, 1u);
  EXPECT_EQ(between.get().transmissions, 0u);
  auto next = rig.call(words({3}));
  failed.set_value();
  EXPECT_TRUE(next.get().reply);
  EXPECT_EQ(rig.status().connects, 1u);
  EXPECT_EQ(rig.status().bad_messages, 0u);
}

// The destination belongs to the caller again when its call has ended.
TEST(TcpFailPending, ReplyBeingReceived_DestinationIsNotTouchedAgain) {
  constexpr size_t kBytes = 1u << 20;
  std::promise<void> failed;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    const ByteVector bytes = record(reply(xid_of(*call), read_results(pattern(kBytes, 4))));
    s.write(ConstBytes(bytes).first(kBytes / 2));
    failed.get_future().wait();
    s.write(ConstBytes(bytes).subspan(kBytes / 2));
    answer_one(s);
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  const Slice destination = rig.pool().slice(kBytes);
  auto outcome = rig.read(destination);
  EXPECT_TRUE(eventually([&] { return rig.status().bytes_placed > 0; }));
  call_on(rig.loop(), [&] {
    rig.transport().fail_pending(kSessionGone);
    std::fill(destination.bytes.begin(), destination.bytes.end(), std::byte{0xaa});
  });
  EXPECT_FALSE(outcome.get().reply);
  failed.set_value();
  EXPECT_TRUE(rig.call(words({1})).get().reply);
  EXPECT_EQ(std::count(destination.bytes.begin(), destination.bytes.end(), std::byte{0xaa}),
            static_cast<ptrdiff_t>(kBytes));
  EXPECT_EQ(rig.status().bad_messages, 0u);
}

Task<> call_twice(rpc::RpcTransport* t, std::atomic<int>* again) {
  rpc::Call first;
  first.head = call_head(words({1}));
  const Outcome o = co_await t->call(first);
  if (o.reply) co_return;
  rpc::Call second;
  second.head = call_head(words({2}));
  const Outcome p = co_await t->call(second);
  *again += p.reply ? 1 : 0;
}

TEST(TcpFailPending, WaiterCallsAgainAtOnce_NewCallIsNotFailed) {
  constexpr int kCalls = 5;
  std::promise<void> received;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    for (int i = 0; i < kCalls; ++i) EXPECT_TRUE(s.read_record());
    received.set_value();
    for (int i = 0; i < kCalls; ++i) answer_one(s);
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  std::atomic<int> again{0};
  call_on(rig.loop(), [&] {
    for (int i = 0; i < kCalls; ++i) rig.loop().spawn(call_twice(&rig.transport(), &again));
  });
  received.get_future().wait();
  call_on(rig.loop(), [&] { rig.transport().fail_pending(kSessionGone); });
  EXPECT_TRUE(eventually([&] { return again == kCalls; }));
}

// ---------------------------------------------------------------------------------------------------------
// close(), in every state.

TEST(TcpClose, Idle_CallsAfterwardsAreInterrupted) {
  Rig rig(quick_options(1));
  auto pending = rig.call(words({1}));
  rig.close();
  for (const Outcome& o : {pending.get(), rig.call(words({2})).get()}) {
    ASSERT_FALSE(o.reply);
    EXPECT_EQ(o.reply.error().recovery, Recovery::kInterrupted);
    EXPECT_EQ(o.transmissions, 0u);
  }
  const Result<> started = rig.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().recovery, Recovery::kInterrupted);
  run_on(rig.loop(), rig.transport().close());  // a second time
  EXPECT_EQ(rig.status().state, TransportState::kClosed);
}

TEST(TcpClose, Connecting_StartEndsInterrupted) {
  BlackHole hole;
  Rig rig(quick_options(hole.port()));
  auto started = start_on(rig.loop(), rig.transport().start());
  EXPECT_TRUE(rig.reaches(TransportState::kConnecting));
  rig.close();
  const Result<> r = started.get();
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().recovery, Recovery::kInterrupted) << describe(r.error());
}

TEST(TcpClose, Handshake_ItsCallsEndInterrupted) {
  std::promise<void> asked;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    EXPECT_TRUE(s.read_record());
    asked.set_value();
    EXPECT_TRUE(s.closed_by_client());
  });
  Handshakes h;
  Rig rig(quick_options(peer.port()), shaking(&h));
  auto started = start_on(rig.loop(), rig.transport().start());
  EXPECT_TRUE(rig.reaches(TransportState::kHandshake));
  asked.get_future().wait();
  auto other = rig.call(words({1}));
  rig.close();
  EXPECT_FALSE(started.get());
  EXPECT_EQ(h.recoveries, std::vector{Recovery::kInterrupted});
  EXPECT_EQ(other.get().reply.error().recovery, Recovery::kInterrupted);
}

TEST(TcpClose, ReadyWithCallsInAllStages_AllEndInterrupted) {
  std::promise<void> sent;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    s.write(ConstBytes(record(reply(xid_of(*call), read_results(pattern(1u << 20, 4))))).first(300'000));
    sent.set_value();
    while (!s.read_bytes(1u << 20).empty()) {
    }
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  std::vector<std::future<Outcome>> outcomes;
  outcomes.push_back(rig.read(rig.pool().slice(1u << 20)));  // being received
  sent.get_future().wait();
  for (int i = 0; i < 16; ++i)
    outcomes.push_back(rig.call(pattern(1u << 20, 1)));  // some are sent, some in part, some not at all
  rig.close();
  for (auto& f : outcomes) {
    const Outcome o = f.get();
    ASSERT_FALSE(o.reply);
    EXPECT_EQ(o.reply.error().recovery, Recovery::kInterrupted);
  }
  EXPECT_EQ(rig.status().pending, 0u);
}

TEST(TcpClose, Backoff_EndsBeforeTheDelayDoes) {
  auto listener = std::make_unique<Listener>();
  tcp::TcpOptions options = quick_options(listener->port());
  options.backoff_first = options.backoff_max = std::chrono::hours(1);
  Rig rig(options);
  auto started = start_on(rig.loop(), rig.transport().start());
  PeerSocket s = listener->accept();
  ASSERT_TRUE(started.get());
  s.close();
  EXPECT_TRUE(rig.reaches(TransportState::kBackoff));
  auto pending = rig.call(words({1}));
  rig.close();
  EXPECT_EQ(pending.get().reply.error().recovery, Recovery::kInterrupted);
}

Task<> call_then_close(rpc::RpcTransport* t, std::promise<void>* closed) {
  rpc::Call c;
  c.head = call_head();
  const Outcome o = co_await t->call(c);
  EXPECT_TRUE(o.reply);
  co_await t->close();
  closed->set_value();
}

TEST(TcpClose, BegunByAWaiterInsideAReceive_RestIsDroppedAndItReturns) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    const auto a = s.read_record();
    const auto b = s.read_record();
    ASSERT_TRUE(a && b);
    s.write(concat({record(echo(*a)), record(echo(*b))}));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  std::promise<void> closed;
  std::future<Outcome> second;
  call_on(rig.loop(), [&] {
    rig.loop().spawn(call_then_close(&rig.transport(), &closed));
    second = rig.call(words({2}));
  });
  closed.get_future().wait();
  EXPECT_EQ(second.get().reply.error().recovery, Recovery::kInterrupted);
}

TEST(TcpClose, ManyLives_NoDescriptorIsLeft) {
  LoopThread warm;  // opens everything that the process opens only once
  const auto live = [] {
    Peer peer([](Listener& l) {
      PeerSocket s = l.accept();
      EXPECT_TRUE(s.read_record());
      s.close();
      EXPECT_TRUE(l.accept().read_record());
    });
    Rig rig(quick_options(peer.port()));
    rig.must_start();
    auto outcome = rig.call(words({1}));
    peer.join();
    rig.close();
    outcome.get();
  };
  live();
  const size_t before = open_descriptors();
  for (int i = 0; i < 10; ++i) live();
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace nfsrdma::test

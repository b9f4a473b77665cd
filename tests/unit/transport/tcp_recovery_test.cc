// TcpTransport when connections break: cuts at every byte, resending, the handshake, giving up, closing.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "tests/unit/transport/support/black_hole.h"
#include "tests/unit/transport/support/rig.h"

namespace nfsrdma::test {
namespace {

using rpc::Outcome;
using rpc::TransportState;

ByteVector echo(const ByteVector& call) {
  return reply(xid_of(call), ConstBytes(call).subspan(kCallHeaderBytes));
}

void answer_one(PeerSocket& s) {
  const auto call = s.read_record();
  ASSERT_TRUE(call);
  s.write_record(echo(*call));
}

// ---------------------------------------------------------------------------------------------------------
// Sent again after a cut.

// RFC 8881 section 2.10.6: the client "MUST NOT stop waiting for a reply" and sends the same request again
// after the connection was lost.
TEST(TcpRecovery, CutAtEveryByteOfAReply_SameCallAgainAndOneAnswer) {
  const size_t length = record(reply(0, words({1, 2}))).size();
  Peer peer([&](Listener& l) {
    for (size_t cut = 0; cut < length; ++cut) {
      PeerSocket s = l.accept();
      const auto first = s.read_record();
      ASSERT_TRUE(first);
      s.write(ConstBytes(record(echo(*first))).first(cut));
      cut % 2 == 0 ? s.close() : s.reset();
      s = l.accept();
      const auto second = s.read_record();
      ASSERT_TRUE(second);
      EXPECT_EQ(*second, *first) << "same XID, same bytes";
      s.write_record(echo(*second));
      EXPECT_TRUE(s.closed_by_client());
    }
  });
  for (size_t cut = 0; cut < length; ++cut) {
    Rig rig(quick_options(peer.port()));
    rig.must_start();
    const Outcome o = rig.call(words({1, 2})).get();
    ASSERT_TRUE(o.reply) << text(o);
    EXPECT_EQ(o.reply->head.size(), kReplyHeaderBytes + 8);
    EXPECT_EQ(o.transmissions, 2u);
    EXPECT_EQ(rig.status().retransmissions, 1u);
    EXPECT_EQ(rig.status().connects, 2u);
    EXPECT_FALSE(rig.status().last_error.empty());
  }
}

TEST(TcpRecovery, CutAtEveryByteOfAPlacedReply_DataIsWhole) {
  constexpr size_t kData = 37;
  const ByteVector results = read_results(pattern(kData, 5), words({6}));
  const size_t length = record(reply(0, results)).size();
  Peer peer([&](Listener& l) {
    for (size_t cut = 0; cut < length; ++cut) {
      PeerSocket s = l.accept();
      auto call = s.read_record();
      ASSERT_TRUE(call);
      // The half that is cut carries other data: whatever stays of it would show.
      const ByteVector other = read_results(pattern(kData, 77), words({7}));
      s.write(ConstBytes(record(reply(xid_of(*call), other))).first(cut));
      s.close();
      s = l.accept();
      call = s.read_record();
      ASSERT_TRUE(call);
      s.write_record(reply(xid_of(*call), results));
      EXPECT_TRUE(s.closed_by_client());
    }
  });
  for (size_t cut = 0; cut < length; ++cut) {
    tcp::TcpOptions options = quick_options(peer.port());
    options.direct_receive_min_bytes = cut % 2 == 0 ? 1 : 4096;  // in place, and copied
    Rig rig(options);
    rig.must_start();
    const Slice destination = rig.pool().slice(64);
    const Outcome o = rig.read(destination).get();
    ASSERT_TRUE(o.reply) << text(o);
    EXPECT_EQ(o.reply->bulk_length, kData);
    const ByteVector want = pattern(kData, 5);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), destination.bytes.begin())) << cut;
    EXPECT_EQ(word_at(o.reply->head, o.reply->head.size() - 4), 6u);
  }
}

TEST(TcpRecovery, CutAtEveryByteOfACall_WholeCallOnTheNextConnection) {
  const size_t length = record(call_head(words({8, 9}))).size();
  Peer peer([&](Listener& l) {
    for (size_t cut = 0; cut < length; ++cut) {
      PeerSocket s = l.accept();
      EXPECT_EQ(s.read_bytes(cut).size(), cut);
      s.reset();
      s = l.accept();
      const auto call = s.read_record();
      ASSERT_TRUE(call);
      EXPECT_EQ(call->size(), kCallHeaderBytes + 8);
      s.write_record(echo(*call));
      EXPECT_TRUE(s.closed_by_client());
    }
  });
  for (size_t cut = 0; cut < length; ++cut) {
    Rig rig(quick_options(peer.port()));
    rig.must_start();
    const Outcome o = rig.call(words({8, 9})).get();
    ASSERT_TRUE(o.reply) << text(o);
    EXPECT_EQ(word_at(o.reply->head, o.reply->body + 4), 9u);
  }
}

// The socket is full in the middle of a record when the connection breaks: no rest of it may reach the next
// connection.
TEST(TcpRecovery, CutWithHalfARecordInTheSocket_NextConnectionStartsAtARecord) {
  constexpr uint32_t kCalls = 16;
  constexpr size_t kBytes = 1u << 20;
  std::promise<void> stuck;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    stuck.get_future().wait();
    s.read_bytes(100'001);
    s.reset();
    s = l.accept();
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < kCalls; ++i) {
      const auto call = s.read_record();
      ASSERT_TRUE(call);
      ASSERT_EQ(call->size(), kCallHeaderBytes + 4 + kBytes);
      order.push_back(word_at(*call, kCallHeaderBytes));
      EXPECT_TRUE(ConstBytes(*call).subspan(kCallHeaderBytes + 4).front() ==
                  pattern(kBytes, order.back()).front());
      s.write_record(reply(xid_of(*call), words({order.back()})));
    }
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << "resent in the order they were made";
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  std::vector<std::future<Outcome>> outcomes;
  for (uint32_t i = 0; i < kCalls; ++i)
    outcomes.push_back(rig.call(concat({words({i}), pattern(kBytes, i)})));
  EXPECT_TRUE(
      eventually([&] { return rig.status().pending == kCalls && rig.status().bytes_sent > 100'001; }));
  stuck.set_value();
  for (uint32_t i = 0; i < kCalls; ++i) {
    const Outcome o = outcomes[i].get();
    ASSERT_TRUE(o.reply) << text(o);
    EXPECT_EQ(word_at(o.reply->head, o.reply->body), i);
  }
}

TEST(TcpRecovery, IdleConnectionClosedByServer_NextCallFindsANewOne) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    answer_one(s);
    s.close();
    s = l.accept();
    answer_one(s);
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  EXPECT_EQ(rig.call(words({1})).get().transmissions, 1u);
  const Outcome o = rig.call(words({2})).get();
  EXPECT_TRUE(o.reply) << text(o);
}

TEST(TcpRecovery, ReconnectAskedFor_PendingCallsAreSentAgain) {
  std::promise<void> received;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    const auto first = s.read_record();
    received.set_value();
    EXPECT_TRUE(s.closed_by_client());
    s = l.accept();
    const auto second = s.read_record();
    EXPECT_EQ(first, second);
    s.write_record(echo(second.value_or(call_head())));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  auto outcome = rig.call(words({1}));
  received.get_future().wait();
  call_on(rig.loop(), [&] { rig.transport().reconnect("asked for by the test"); });
  const Outcome o = outcome.get();
  EXPECT_TRUE(o.reply) << text(o);
  EXPECT_EQ(o.transmissions, 2u);
  EXPECT_NE(rig.status().last_error.find("asked for by the test"), std::string::npos)
      << rig.status().last_error;
}

// A waiter that is resumed by a reply asks for a reconnect while more replies lie in the same receive.
Task<> call_and_reconnect(rpc::RpcTransport* t, std::atomic<unsigned>* transmissions, bool reconnects) {
  rpc::Call c;
  c.head = call_head();
  const Outcome o = co_await t->call(std::move(c));
  if (reconnects) t->reconnect("from a reply's waiter");
  if (o.reply) *transmissions += o.transmissions;
}

TEST(TcpRecovery, ReconnectFromAWaiter_RestOfTheReceiveIsDropped) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    ByteVector replies;
    for (int i = 0; i < 3; ++i)
      replies = concat({replies, record(echo(s.read_record().value_or(call_head())))});
    s.write(replies);
    EXPECT_TRUE(s.closed_by_client());
    s = l.accept();
    for (int i = 0; i < 2; ++i) answer_one(s);
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  std::atomic<unsigned> transmissions{0};
  call_on(rig.loop(), [&] {
    for (int i = 0; i < 3; ++i)
      rig.loop().spawn(call_and_reconnect(&rig.transport(), &transmissions, i == 0));
  });
  EXPECT_TRUE(eventually([&] { return transmissions == 1 + 2 + 2; })) << transmissions;
}

// ---------------------------------------------------------------------------------------------------------
// The handshake.

struct Handshakes {
  std::atomic<int> begun{0};
  std::atomic<int> failed{0};
  std::vector<Recovery> recoveries;
};

Task<Result<>> shake(Handshakes* h, rpc::RpcTransport* t) {
  ++h->begun;
  rpc::Call c;
  c.op = "HELLO";
  c.head = call_head(words({1000}));
  c.handshake = true;
  Outcome o = co_await t->call(std::move(c));
  if (!o.reply) {
    ++h->failed;
    h->recoveries.push_back(o.reply.error().recovery);
    co_return fail(o.reply.error());
  }
  co_return Result<>{};
}

rpc::TransportHooks shaking(Handshakes* h) {
  rpc::TransportHooks hooks;
  hooks.on_connected = [h](rpc::RpcTransport& t) { return shake(h, &t); };
  return hooks;
}

uint32_t argument(const ByteVector& call) {
  return word_at(call, kCallHeaderBytes);
}

TEST(TcpHandshake, Hook_RunsBeforePendingCallsOnEveryConnection) {
  Peer peer([](Listener& l) {
    for (int connection = 0; connection < 3; ++connection) {
      PeerSocket s = l.accept();
      const auto hello = s.read_record();
      ASSERT_TRUE(hello);
      EXPECT_EQ(argument(*hello), 1000u);
      s.write_record(echo(*hello));
      for (const uint32_t expected : {1u, 2u}) {
        const auto call = s.read_record();
        ASSERT_TRUE(call);
        EXPECT_EQ(argument(*call), expected) << "oldest first";
        if (connection == 2) s.write_record(echo(*call));
      }
      if (connection == 2) {
        EXPECT_TRUE(s.closed_by_client());
      }
    }
  });
  Handshakes h;
  Rig rig(quick_options(peer.port()), shaking(&h));
  auto one = rig.call(words({1}));  // before start()
  auto two = rig.call(words({2}));
  rig.must_start();
  EXPECT_EQ(one.get().transmissions, 3u);
  EXPECT_EQ(two.get().transmissions, 3u);
  EXPECT_EQ(h.begun, 3);
  EXPECT_EQ(h.failed, 0);
}

TEST(TcpHandshake, CallsMadeMeanwhile_WaitForItsEnd) {
  std::promise<void> hello_received;
  std::promise<void> called;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    const auto hello = s.read_record();
    hello_received.set_value();
    called.get_future().wait();
    // Had the other call been sent, it would be here: what is on the wire now is all there is.
    s.write_record(echo(hello.value_or(call_head())));
    answer_one(s);
    EXPECT_TRUE(s.closed_by_client());
  });
  Handshakes h;
  Rig rig(quick_options(peer.port()), shaking(&h));
  auto started = start_on(rig.loop(), rig.transport().start());
  hello_received.get_future().wait();
  EXPECT_EQ(rig.status().state, TransportState::kHandshake);
  const uint64_t sent = call_on(rig.loop(), [&] { return rig.status().bytes_sent; });
  auto outcome = rig.call(words({1}));
  call_on(rig.loop(), [] {});
  call_on(rig.loop(), [] {});
  EXPECT_EQ(rig.status().bytes_sent, sent);
  called.set_value();
  EXPECT_TRUE(started.get());
  EXPECT_TRUE(outcome.get().reply);
}

TEST(TcpHandshake, ConnectionLostMeanwhile_ItsCallsEndWithReconnectAndItIsTriedAgain) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    answer_one(s);  // the first handshake
    answer_one(s);  // a call
    s.close();
    for (int i = 0; i < 3; ++i) {
      s = l.accept();
      EXPECT_TRUE(s.read_record());
      s.close();
    }
    s = l.accept();
    answer_one(s);
    answer_one(s);
    EXPECT_TRUE(s.closed_by_client());
  });
  Handshakes h;
  Rig rig(quick_options(peer.port()), shaking(&h));
  rig.must_start();
  EXPECT_TRUE(rig.call(words({1})).get().reply);
  EXPECT_TRUE(rig.call(words({2})).get().reply);
  EXPECT_EQ(h.begun, 5);
  EXPECT_EQ(h.failed, 3);
  EXPECT_EQ(h.recoveries, std::vector<Recovery>(3, Recovery::kReconnect));
}

TEST(TcpHandshake, LostDuringStart_StartReturnsTheErrorAndCanBeRepeated) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    EXPECT_TRUE(s.read_record());
    s.close();
    s = l.accept();
    answer_one(s);
    EXPECT_TRUE(s.closed_by_client());
  });
  Handshakes h;
  Rig rig(quick_options(peer.port()), shaking(&h));
  const Result<> first = rig.start();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().recovery, Recovery::kReconnect);
  EXPECT_EQ(rig.status().state, TransportState::kIdle);
  EXPECT_TRUE(rig.start());
  EXPECT_EQ(rig.status().state, TransportState::kReady);
}

Task<Result<>> refuse(std::atomic<int>* times, int good) {
  if ((*times)++ < good) co_return Result<>{};
  co_return fail({Layer::kNfs, Recovery::kPermanent, EACCES, 1, "EXCHANGE_ID", "refused"});
}

TEST(TcpHandshake, HookFailsForGoodDuringStart_StartReturnsItsError) {
  Peer peer([](Listener& l) { EXPECT_TRUE(l.accept().closed_by_client()); });
  std::atomic<int> times{0};
  rpc::TransportHooks hooks;
  hooks.on_connected = [&](rpc::RpcTransport&) { return refuse(&times, 0); };
  Rig rig(quick_options(peer.port()), std::move(hooks));
  const Result<> r = rig.start();
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().errnum, EACCES);
  EXPECT_EQ(std::string(r.error().op), "EXCHANGE_ID");
  EXPECT_EQ(rig.status().state, TransportState::kIdle);
}

TEST(TcpHandshake, HookFailsAfterAReconnect_BacksOffAndTriesAgain) {
  Peer peer([](Listener& l) {
    l.accept().close();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(l.accept().closed_by_client());
  });
  std::atomic<int> times{0};
  rpc::TransportHooks hooks;
  hooks.on_connected = [&](rpc::RpcTransport&) { return refuse(&times, 1); };
  Rig rig(quick_options(peer.port()), std::move(hooks));
  rig.must_start();
  peer.join();
  EXPECT_TRUE(eventually([&] { return times >= 4; }));
}

TEST(TcpHandshake, HandshakeCallWithoutAConnection_FailsAtOnce) {
  Rig rig(quick_options(1));
  const Outcome o = rig.call(words({1}), true).get();
  ASSERT_FALSE(o.reply);
  EXPECT_EQ(o.reply.error().recovery, Recovery::kReconnect);
  EXPECT_EQ(o.transmissions, 0u);
}

// ---------------------------------------------------------------------------------------------------------
// fail_pending(): the session is gone.

const Error kSessionGone{Layer::kSession, Recovery::kNewSession, EIO, 10052, "SEQUENCE", "bad session"};

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
  // Queued, but the turn of the loop is not over.
  std::future<Outcome> queued;
  call_on(rig.loop(), [&] {
    queued = rig.call(words({2}));
    rig.transport().fail_pending(kSessionGone);
  });
  EXPECT_EQ(queued.get().transmissions, 0u);
  EXPECT_TRUE(rig.call(words({3})).get().reply);
}

// The first bytes of a record are out when its call ends: the rest must follow, from memory that is still
// there.
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

// The destination belongs to the caller again once its call has ended.
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
  const Outcome o = co_await t->call(std::move(first));
  if (o.reply) co_return;
  rpc::Call second;
  second.head = call_head(words({2}));
  const Outcome p = co_await t->call(std::move(second));
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
// Silence.

TEST(TcpSilence, ReplyLaterThanTimeo_NotRespondingUntilItComes) {
  std::promise<void> stalled;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    stalled.get_future().wait();
    s.write_record(echo(call.value_or(call_head())));
    EXPECT_TRUE(s.closed_by_client());
  });
  tcp::TcpOptions options = quick_options(peer.port());
  options.timeo = std::chrono::milliseconds(20);
  options.retrans = 100'000;  // the connection is not given up
  Rig rig(options);
  rig.must_start();
  const TimePoint before = Clock::now();
  auto outcome = rig.call(words({1}));
  EXPECT_TRUE(eventually([&] { return !rig.status().responding; }));
  EXPECT_GE(rig.status().stalled_since, before);
  EXPECT_LE(rig.status().stalled_since, Clock::now() - options.timeo);
  stalled.set_value();
  EXPECT_TRUE(outcome.get().reply) << "a late reply is a reply";
  EXPECT_TRUE(rig.status().responding);
  EXPECT_EQ(rig.status().connects, 1u);
}

TEST(TcpSilence, NothingForTimeoTimesRetransPlusOne_NextConnection) {
  std::atomic<bool> done{false};
  Peer peer([&](Listener& l) {
    std::vector<PeerSocket> connections;
    connections.push_back(l.accept());
    const auto first = connections[0].read_record();
    // From now on every connection is answered; on a busy machine the client may give up some of those, too.
    while (!done) {
      if (l.quiet()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      connections.push_back(l.accept());
      const auto again = connections.back().read_record();
      if (!again) continue;
      EXPECT_EQ(first, again);
      connections.back().write_record(echo(*again));
    }
  });
  tcp::TcpOptions options = quick_options(peer.port());
  options.timeo = std::chrono::milliseconds(20);
  options.retrans = 1;
  Rig rig(options);
  rig.must_start();
  const Outcome o = rig.call(words({1})).get();
  done = true;
  EXPECT_TRUE(o.reply) << text(o);
  EXPECT_GE(o.transmissions, 2u);
  EXPECT_NE(rig.status().last_error.find("nothing received"), std::string::npos) << rig.status().last_error;
}

TEST(TcpSilence, ServerGone_NotRespondingWhileReconnecting) {
  auto listener = std::make_unique<Listener>();
  const uint16_t port = listener->port();
  tcp::TcpOptions options = quick_options(port);
  options.timeo = std::chrono::milliseconds(20);
  options.retrans = 100'000;  // a connection that is there is not given up
  Rig rig(options);
  auto started = start_on(rig.loop(), rig.transport().start());
  PeerSocket s = listener->accept();
  ASSERT_TRUE(started.get());
  listener.reset();
  s.reset();
  auto outcome = rig.call(words({1}));
  EXPECT_TRUE(eventually([&] { return !rig.status().responding; }));
  EXPECT_TRUE(eventually([&] { return rig.status().last_error.find("refused") != std::string::npos; }));
  Listener back("127.0.0.1", port);
  s = back.accept();
  answer_one(s);
  EXPECT_TRUE(outcome.get().reply);
  EXPECT_TRUE(rig.status().responding);
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
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    EXPECT_TRUE(s.read_record());
    EXPECT_TRUE(s.closed_by_client());
  });
  Handshakes h;
  Rig rig(quick_options(peer.port()), shaking(&h));
  auto started = start_on(rig.loop(), rig.transport().start());
  EXPECT_TRUE(rig.reaches(TransportState::kHandshake));
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
    outcomes.push_back(rig.call(pattern(1u << 20, 1)));  // sent, in part, not at all
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
  const Outcome o = co_await t->call(std::move(c));
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
  LoopThread warm;  // whatever the process opens once, it has now
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

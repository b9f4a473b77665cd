// SPDX-License-Identifier: Apache-2.0
// TcpTransport when connections break: cuts at every byte, calls sent again, the handshake, silence.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <semaphore>

#include "tests/unit/transport/support/handshakes.h"
#include "tests/unit/transport/support/rig.h"

namespace nfsrdma::test {
namespace {

using rpc::Outcome;
using rpc::TransportState;

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
      // The reply that is cut has other data: any byte of it that stays in the sink is detected.
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
    options.direct_receive_min_bytes = cut % 2 == 0 ? 1 : 4096;  // alternately received in place and copied
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

// RFC 6093: urgent data is not part of the stream here. splice(2) always stops before it, recvmsg(2) steps
// over it.
TEST(TcpRecovery, UrgentByteWithinAPipedReply_IsSteppedOver) {
  constexpr size_t kData = 300'000;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    const ByteVector bytes = record(reply(xid_of(*call), read_results(pattern(kData, 5), words({6}))));
    s.write(ConstBytes(bytes).first(100'000));
    EXPECT_EQ(::send(s.fd(), "!", 1, MSG_OOB | MSG_NOSIGNAL), 1);
    s.write(ConstBytes(bytes).subspan(100'000));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  BulkData data;
  data.slice = rig.pool().slice(kData);
  Outcome o = rig.read(data.slice, kReadDataOffset, &rig.pool().pipes()).get();
  ASSERT_TRUE(o.reply) << text(o);
  data.piped = o.reply->piped;
  data.pipe = std::move(o.reply->pipe);
  ASSERT_TRUE(data.land());
  const ByteVector want = pattern(kData, 5);
  EXPECT_TRUE(std::equal(want.begin(), want.end(), data.slice.bytes.begin()));
}

TEST(TcpRecovery, CutWithinAPipedReply_DataIsWhole) {
  constexpr size_t kData = 700'000;
  const std::vector<size_t> cuts = {0, 100, 40'000, 300'000, kData};
  Peer peer([&](Listener& l) {
    for (const size_t cut : cuts) {
      PeerSocket s = l.accept();
      auto call = s.read_record();
      ASSERT_TRUE(call);
      s.write(
          ConstBytes(record(reply(xid_of(*call), read_results(pattern(kData, 77), words({7}))))).first(cut));
      s.close();
      s = l.accept();
      call = s.read_record();
      ASSERT_TRUE(call);
      s.write_record(reply(xid_of(*call), read_results(pattern(kData, 5), words({6}))));
      EXPECT_TRUE(s.closed_by_client());
    }
  });
  for (const size_t cut : cuts) {
    Rig rig(quick_options(peer.port()));
    rig.must_start();
    if (rig.pool().pipes().get() == nullptr) GTEST_SKIP() << "the system gives no pipe";
    BulkData data;
    data.slice = rig.pool().slice(kData);
    Outcome o = rig.read(data.slice, kReadDataOffset, &rig.pool().pipes()).get();
    ASSERT_TRUE(o.reply) << text(o);
    EXPECT_EQ(o.reply->bulk_length, kData);
    EXPECT_GT(o.reply->piped.size(), kData / 4);
    ASSERT_NE(o.reply->pipe, nullptr);
    EXPECT_EQ(o.reply->pipe->size(), o.reply->piped.size());
    EXPECT_GE(rig.status().bytes_spliced, o.reply->piped.size());
    data.piped = o.reply->piped;
    data.pipe = std::move(o.reply->pipe);
    ASSERT_TRUE(data.land());
    const ByteVector want = pattern(kData, 5);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), data.slice.bytes.begin())) << cut;
    EXPECT_EQ(word_at(o.reply->head, o.reply->head.size() - 4), 6u);
  }
}

TEST(TcpRecovery, CutAtEveryByteOfACall_WholeCallOnTheNextConnection) {
  const size_t length = record(call_head(words({8, 9}))).size();
  std::counting_semaphore<> started(0);
  Peer peer([&](Listener& l) {
    for (size_t cut = 0; cut < length; ++cut) {
      PeerSocket s = l.accept();
      started.acquire();  // an earlier reset would be start()'s error
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
    started.release();
    const Outcome o = rig.call(words({8, 9})).get();
    ASSERT_TRUE(o.reply) << text(o);
    EXPECT_EQ(word_at(o.reply->head, o.reply->body + 4), 9u);
  }
}

// start() may see the reset as a failed connect, or may have returned before it: in the end there must be a
// connection.
TEST(TcpRecovery, ResetWhileItConnects_StartFailsOrTheConnectionIsMadeAgain) {
  for (int round = 0; round < 20; ++round) {
    Peer peer([](Listener& l) {
      l.accept().reset();
      PeerSocket s = l.accept();
      answer_one(s);
      EXPECT_TRUE(s.closed_by_client());
    });
    Rig rig(quick_options(peer.port()));
    if (const Result<> first = rig.start(); !first) {
      EXPECT_EQ(first.error().recovery, Recovery::kReconnect) << describe(first.error());
      EXPECT_EQ(rig.status().state, TransportState::kIdle);
      rig.must_start();
    }
    const Outcome o = rig.call(words({1})).get();
    EXPECT_TRUE(o.reply) << text(o);
  }
}

// The socket is full in the middle of a record when the connection breaks: the rest of the record must not
// reach the next connection.
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

// A waiter that a reply resumed asks for a reconnect while the same receive contains more replies.
Task<> call_and_reconnect(rpc::RpcTransport* t, std::atomic<unsigned>* transmissions, bool reconnects) {
  rpc::Call c;
  c.head = call_head();
  const Outcome o = co_await t->call(c);
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
    // If the other call had been sent, it would have arrived before: the records read so far are all.
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
  co_return fail({.layer = Layer::kNfs,
                  .recovery = Recovery::kPermanent,
                  .errnum = EACCES,
                  .status = 1,
                  .op = "EXCHANGE_ID",
                  .cause = "refused"});
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
  options.retrans = 100'000;  // the connection is not dropped
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
    // From now on every connection gets a reply. On a busy machine the client may drop some of those, too.
    while (!done) {
      EXPECT_TRUE(eventually([&] { return done || !l.quiet(); }));
      if (l.quiet()) continue;
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

// A link that takes several times timeo * (retrans + 1) for a call is slow, not silent.
TEST(TcpSilence, CallThatLeavesSlowly_IsNotGivenUp) {
  constexpr size_t kBytes = 1 << 20;
  std::promise<Loop*> loop;
  Peer peer([&](Listener& l) {
    Loop& clients = *loop.get_future().get();
    PeerSocket s = l.accept();
    const int small = 16 << 10;
    setsockopt(s.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    ByteVector message;
    for (int part = 0; part < 25; ++part) {
      let_pass(clients, std::chrono::milliseconds(100));  // by the clock that the client's timeout goes by
      const ByteVector bytes = s.read_bytes(kBytes / 25);
      message.insert(message.end(), bytes.begin(), bytes.end());
    }
    const ByteVector rest = s.read_bytes(4 + kCallHeaderBytes + kBytes - message.size());
    message.insert(message.end(), rest.begin(), rest.end());
    s.write_record(reply(load_be32(message.data() + 4), words({7})));
    EXPECT_TRUE(s.closed_by_client());
  });
  tcp::TcpOptions options = quick_options(peer.port());
  options.timeo = std::chrono::milliseconds(400);
  options.retrans = 1;
  Rig rig(options);
  loop.set_value(&rig.loop());
  rig.must_start();
  auto outcome = rig.call(ByteVector(kBytes));
  ASSERT_EQ(outcome.wait_for(kPatience), std::future_status::ready) << rig.status().last_error;
  const Outcome o = outcome.get();
  EXPECT_TRUE(o.reply) << text(o);
  EXPECT_EQ(o.transmissions, 1u);
  EXPECT_EQ(rig.status().connects, 1u) << rig.status().last_error;
}

TEST(TcpSilence, OneReplyThatNeverComesAmongOthers_IsAskedForOnANewConnection) {
  std::atomic<bool> done{false};
  Peer peer([&](Listener& l) {
    for (bool first = true; !done; first = false) {
      PeerSocket s = l.accept();
      if (first) {
        EXPECT_TRUE(s.read_record());  // and sends no reply
      }
      while (const auto call = s.read_record()) s.write_record(echo(*call));
    }
  });
  tcp::TcpOptions options = quick_options(peer.port());
  options.timeo = std::chrono::milliseconds(20);
  options.retrans = 1;
  Rig rig(options);
  rig.must_start();
  auto dropped = rig.call(words({1}));
  bool answered = true;
  ASSERT_TRUE(eventually([&] {
    answered = answered && rig.call(words({2})).get().reply;
    return !answered || dropped.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }));
  ASSERT_TRUE(answered);
  const Outcome o = dropped.get();
  ASSERT_TRUE(o.reply) << text(o);
  EXPECT_EQ(word_at(o.reply->head, o.reply->body), 1u);
  EXPECT_GE(o.transmissions, 2u);
  EXPECT_GE(rig.status().connects, 2u);
  done = true;
  rig.close();
}

TEST(TcpSilence, ServerGone_NotRespondingWhileReconnecting) {
  auto listener = std::make_unique<Listener>();
  const uint16_t port = listener->port();
  tcp::TcpOptions options = quick_options(port);
  options.timeo = std::chrono::milliseconds(20);
  options.retrans = 100'000;  // a connection that is up is not dropped
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

}  // namespace
}  // namespace nfsrdma::test

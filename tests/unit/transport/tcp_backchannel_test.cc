// SPDX-License-Identifier: Apache-2.0
// Calls from the server on the client's connection (RFC 8881 section 2.10.3.1: the back channel).
#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/transport/support/rig.h"
#include "transport/rpc/call_message.h"
#include "transport/rpc/client_transport.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::test {
namespace {

using rpc::Outcome;

ByteVector server_call(uint32_t xid, ConstBytes arguments = {}) {
  return concat({words({xid, 0, 2, 0x40000000, 1, 1, 0, 0, 0, 0}), arguments});
}

void answer_empty(PeerSocket& s) {
  const auto call = s.read_record();
  ASSERT_TRUE(call);
  s.write_record(reply(xid_of(*call)));
}

// Replies with the call's arguments.
Task<ByteVector> echo_later(ByteVector call) {
  ByteVector out;
  xdr::Encoder x(out);
  rpc::begin_reply(x, xid_of(call));
  x.raw(ConstBytes(call).subspan(kCallHeaderBytes));
  co_return out;
}

// Hooks that wait until the test releases them.
struct Dam {
  Mutex mutex;
  WaitQueue queue;
  std::atomic<size_t> waiting{0};
  bool open = false;

  static Task<ByteVector> hold(Dam* dam, ByteVector call) {
    ++dam->waiting;
    while (true) {
      MutexLock lock(dam->mutex);
      if (dam->open) break;
      co_await dam->queue.wait(lock);
    }
    co_return co_await echo_later(std::move(call));
  }
  void release() {
    MutexLock lock(mutex);
    open = true;
    queue.notify_all();
  }
  rpc::TransportHooks hooks() {
    rpc::TransportHooks h;
    h.on_call = [this](rpc::RpcTransport&, ByteVector call) { return hold(this, std::move(call)); };
    return h;
  }
};

TEST(TcpBackChannel, CallsFromTheServer_AreAnsweredAmongReplies) {
  Dam dam;
  Peer peer([&dam](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    // The same XID as the client's own call: the two directions are independent.
    s.write_record(server_call(xid_of(*call), words({3})), 5);
    s.write_record(server_call(xid_of(*call) + 1, words({0})));
    const auto quick = s.read_record();
    ASSERT_TRUE(quick);
    EXPECT_EQ(*quick, reply(xid_of(*call) + 1, words({0})));
    dam.release();
    const auto slow = s.read_record();
    ASSERT_TRUE(slow);
    EXPECT_EQ(*slow, reply(xid_of(*call), words({3})));
    s.write_record(reply(xid_of(*call), words({7})));
    EXPECT_TRUE(s.closed_by_client());
  });
  rpc::TransportHooks hooks;
  hooks.on_call = [&dam](rpc::RpcTransport&, ByteVector c) {
    return word_at(c, kCallHeaderBytes) == 0 ? echo_later(std::move(c)) : Dam::hold(&dam, std::move(c));
  };
  Rig rig(quick_options(peer.port()), std::move(hooks));
  rig.must_start();
  const Outcome o = rig.call(words({1})).get();
  ASSERT_TRUE(o.reply) << text(o);
  EXPECT_EQ(word_at(o.reply->head, o.reply->body), 7u);
  EXPECT_EQ(rig.status().bad_messages, 0u);
}

TEST(TcpBackChannel, NoHook_ProgramUnavailable) {
  std::promise<void> answered;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    s.write_record(server_call(55));
    EXPECT_EQ(s.read_record(), words({55, 1, 0, 0, 0, 1}));
    answered.set_value();
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  answered.get_future().wait();
}

Task<ByteVector> silent(ByteVector) {
  co_return ByteVector{};
}

TEST(TcpBackChannel, EmptyReply_DropsTheCallOnly) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    for (uint32_t i = 0; i < 100; ++i) s.write_record(server_call(i));
    answer_empty(s);  // the first message is a call, not a reply
    EXPECT_TRUE(s.closed_by_client());
  });
  rpc::TransportHooks hooks;
  hooks.on_call = [](rpc::RpcTransport&, ByteVector call) { return silent(std::move(call)); };
  Rig rig(quick_options(peer.port()), std::move(hooks));
  rig.must_start();
  EXPECT_TRUE(rig.call(words({1})).get().reply);
  EXPECT_EQ(rig.status().connects, 1u);
}

TEST(TcpBackChannel, Flood_AllowedNumberIsHeldOneMoreCostsTheConnection) {
  constexpr size_t kMax = rpc::ClientTransport::kMaxCallbacks;
  Dam dam;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    for (uint32_t i = 0; i < kMax; ++i) s.write_record(server_call(i));
    EXPECT_TRUE(eventually([&] { return dam.waiting == kMax; }));
    answer_empty(s);  // the connection still works
    s.write_record(server_call(1000));
    EXPECT_TRUE(s.closed_by_client());
    EXPECT_TRUE(l.accept().closed_by_client());
  });
  Rig rig(quick_options(peer.port()), dam.hooks());
  rig.must_start();
  EXPECT_TRUE(rig.call(words({1})).get().reply);
  EXPECT_TRUE(eventually([&] { return rig.status().connects == 2; }));
  EXPECT_EQ(dam.waiting, kMax);
  EXPECT_EQ(rig.status().bad_messages, 1u);
  dam.release();
}

// A server that sends calls and never reads: the replies must not accumulate in memory.
TEST(TcpBackChannel, ServerReadsNoReplies_CostsTheConnection) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    const ByteVector call = record(server_call(7, concat({words({0}), pattern(60'000, 1)})));
    while (s.write(call)) {
    }
    EXPECT_TRUE(l.accept().closed_by_client());
  });
  rpc::TransportHooks hooks;
  hooks.on_call = [](rpc::RpcTransport&, ByteVector call) { return echo_later(std::move(call)); };
  Rig rig(quick_options(peer.port()), std::move(hooks));
  rig.must_start();
  EXPECT_TRUE(eventually([&] { return rig.status().connects == 2; }));
}

// RFC 8881 section 2.9.2: "replies MUST be sent on the same connection from which the request was received".
TEST(TcpBackChannel, ConnectionGoneMeanwhile_ReplyIsNotSentOnTheNext) {
  Dam dam;
  std::promise<void> released;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    s.write_record(server_call(1));
    EXPECT_TRUE(eventually([&] { return dam.waiting == 1; }));
    s.close();
    s = l.accept();
    released.get_future().wait();
    answer_empty(s);  // the first message is the call
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()), dam.hooks());
  rig.must_start();
  EXPECT_TRUE(eventually([&] { return rig.status().connects == 2; }));
  dam.release();
  call_on(rig.loop(), [] {});
  released.set_value();
  EXPECT_TRUE(rig.call(words({1})).get().reply);
  EXPECT_EQ(rig.status().bad_messages, 0u);
}

TEST(TcpBackChannel, CloseWhileAnswering_WaitsForTheHook) {
  Dam dam;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    s.write_record(server_call(1));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()), dam.hooks());
  rig.must_start();
  EXPECT_TRUE(eventually([&] { return dam.waiting == 1; }));
  auto closed = start_on(rig.loop(), rig.transport().close());
  peer.join();  // the connection has ended
  EXPECT_EQ(closed.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  dam.release();
  closed.get();
}

}  // namespace
}  // namespace nfsrdma::test

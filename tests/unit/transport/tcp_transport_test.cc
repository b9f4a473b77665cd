// SPDX-License-Identifier: Apache-2.0
// TcpTransport and a scripted server on real loopback sockets: calls, replies, data in both directions.
#include "transport/tcp/tcp_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "tests/unit/transport/support/rig.h"
#include "tests/unit/transport/support/tcp_info.h"
#include "xdr/rpc.h"

namespace nfsrdma::test {
namespace {

using rpc::Outcome;
using rpc::TransportState;

TEST(TcpTransport, OneCall_ReplyWithBody) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    EXPECT_EQ(ByteVector(call->begin() + 4, call->end()),
              concat({ConstBytes(call_head()).subspan(4), words({5})}));
    s.write_record(reply(xid_of(*call), words({77})));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  const Outcome o = rig.call(words({5})).get();
  ASSERT_TRUE(o.reply) << text(o);
  EXPECT_EQ(o.reply->body, kReplyHeaderBytes);
  EXPECT_EQ(word_at(o.reply->head, o.reply->body), 77u);
  EXPECT_FALSE(o.reply->placed);
  EXPECT_EQ(o.transmissions, 1u);
  const rpc::TransportStatus s = rig.status();
  EXPECT_EQ(s.state, TransportState::kReady);
  EXPECT_EQ(s.protocol, "tcp");
  EXPECT_EQ(s.peer, "127.0.0.1:" + std::to_string(peer.port()));
  EXPECT_TRUE(s.local.starts_with("127.0.0.1:")) << s.local;
  EXPECT_EQ(s.calls, 1u);
  EXPECT_EQ(s.replies, 1u);
  EXPECT_EQ(s.connects, 1u);
  EXPECT_EQ(s.retransmissions, 0u);
  EXPECT_EQ(s.bytes_sent, 4 + kCallHeaderBytes + 4);
  EXPECT_EQ(s.bytes_received, 4 + kReplyHeaderBytes + 4);
  EXPECT_EQ(s.pending, 0u);
  EXPECT_TRUE(s.responding);
}

// RFC 5531 section 9: "the xid [...] is used [...] for matching reply messages with call messages".
TEST(TcpTransport, RepliesInAnyOrder_EachReachesItsCaller) {
  constexpr uint32_t kCalls = 20;
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    std::vector<ByteVector> calls;
    for (uint32_t i = 0; i < kCalls; ++i)
      calls.push_back(s.read_record().value_or(ByteVector(kCallHeaderBytes)));
    std::rotate(calls.begin(), calls.begin() + 7, calls.end());
    std::reverse(calls.begin(), calls.begin() + 11);
    for (const ByteVector& call : calls) s.write_record(echo(call));
    s.closed_by_client();
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  std::vector<std::future<Outcome>> outcomes;
  for (uint32_t i = 0; i < kCalls; ++i) outcomes.push_back(rig.call(words({i * 3})));
  for (uint32_t i = 0; i < kCalls; ++i) {
    const Outcome o = outcomes[i].get();
    ASSERT_TRUE(o.reply) << text(o);
    EXPECT_EQ(word_at(o.reply->head, o.reply->body), i * 3);
  }
}

Task<> detach_call(rpc::RpcTransport* t, std::atomic<int>* answered) {
  rpc::Call c;
  c.head = call_head();
  const Outcome o = co_await t->call(c);
  *answered += o.reply ? 1 : 0;
}

TEST(TcpTransport, CallsOfOneTurn_LeaveInOneSegment) {
  constexpr int kCalls = 12;
  std::atomic<uint32_t> segments{0};
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    std::vector<ByteVector> calls;
    for (int i = 0; i < kCalls; ++i) calls.push_back(s.read_record().value_or(ByteVector(kCallHeaderBytes)));
    segments = data_segments_received(s.fd());
    for (const ByteVector& call : calls) s.write_record(echo(call));
    s.closed_by_client();
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  std::atomic<int> answered{0};
  call_on(rig.loop(), [&] {
    for (int i = 0; i < kCalls; ++i) rig.loop().spawn(detach_call(&rig.transport(), &answered));
  });
  EXPECT_TRUE(eventually([&] { return answered == kCalls; }));
  EXPECT_EQ(segments, 1u);
}

// RFC 5531 section 11: "A record is composed of one or more record fragments."
TEST(TcpTransport, FragmentsBothWays_AreJoinedAndCut) {
  constexpr size_t kFragment = 100;
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    for (const size_t fragment : {size_t{1}, size_t{3}, size_t{4}, size_t{9}, size_t{64}, size_t{1000}}) {
      std::vector<size_t> fragments;
      const auto call = s.read_record(&fragments);
      ASSERT_TRUE(call);
      EXPECT_EQ(fragments, (std::vector<size_t>{100, 100, 100, 100, 40}));
      EXPECT_EQ(*call, concat({words({xid_of(*call)}), ConstBytes(call_head(pattern(400, 1))).subspan(4)}));
      s.write_record(echo(*call), fragment);
    }
    s.closed_by_client();
  });
  tcp::TcpOptions options = quick_options(peer.port());
  options.send_fragment_bytes = kFragment;
  Rig rig(options);
  rig.must_start();
  for (int i = 0; i < 6; ++i) {
    const Outcome o = rig.call(pattern(400, 1)).get();
    ASSERT_TRUE(o.reply) << text(o);
    EXPECT_EQ(ByteVector(o.reply->head.begin() + static_cast<ptrdiff_t>(o.reply->body), o.reply->head.end()),
              pattern(400, 1));
  }
}

// ---------------------------------------------------------------------------------------------------------
// Bulk data.

rpc::Call write_call(const std::vector<Slice>& items, ConstBytes trailer) {
  rpc::Call c;
  c.op = "WRITE";
  xdr::Encoder x(c.head, &c.bulks);
  x.raw(call_head());
  for (const Slice& item : items) x.bulk(item.bytes, 8u << 20);
  x.raw(trailer);
  c.keep = items;
  return c;
}

// The bytes of write_call() on the wire, from behind the XID.
ByteVector write_bytes(const std::vector<Slice>& items, ConstBytes trailer) {
  ByteVector out = call_head();
  for (const Slice& item : items) {
    out = concat(
        {out, words({static_cast<uint32_t>(item.size())}), item.bytes, ByteVector(xdr_padding(item.size()))});
  }
  out = concat({out, trailer});
  return {out.begin() + 4, out.end()};
}

Slice filled(BufferPool& pool, size_t size, uint32_t seed) {
  Slice s = pool.slice(size);
  const ByteVector bytes = pattern(size, seed);
  std::copy(bytes.begin(), bytes.end(), s.bytes.begin());
  return s;
}

TEST(TcpTransport, BulkItemsOfACall_AreGatheredWithPadding) {
  for (const size_t fragment : {size_t{0}, size_t{1}, size_t{50}, size_t{4096}}) {
    std::atomic<size_t> checked{0};
    std::vector<std::vector<size_t>> shapes = {
        {1}, {3, 5}, {4096}, {70001, 2, fragment == 1 ? 9u : 1u << 20}, {}};
    BufferPool pool;
    Peer peer([&](Listener& l) {
      PeerSocket s = l.accept();
      for (const auto& shape : shapes) {
        const auto call = s.read_record();
        ASSERT_TRUE(call);
        std::vector<Slice> items;
        for (const size_t n : shape) items.push_back(filled(pool, n, static_cast<uint32_t>(n)));
        EXPECT_TRUE(ByteVector(call->begin() + 4, call->end()) == write_bytes(items, words({1, 2, 3})));
        ++checked;
        s.write_record(reply(xid_of(*call)));
      }
      s.closed_by_client();
    });
    tcp::TcpOptions options = quick_options(peer.port());
    options.send_fragment_bytes = fragment;
    Rig rig(options);
    rig.must_start();
    for (const auto& shape : shapes) {
      std::vector<Slice> items;
      for (const size_t n : shape) items.push_back(filled(pool, n, static_cast<uint32_t>(n)));
      const Outcome o = rig.call(write_call(items, words({1, 2, 3}))).get();
      ASSERT_TRUE(o.reply) << text(o);
    }
    EXPECT_EQ(checked, shapes.size());
  }
}

// The server reads nothing before everything is queued: this gives every possible partial write.
TEST(TcpTransport, SocketFull_CallsGoOnWhereTheyStopped) {
  constexpr uint32_t kCalls = 24;
  std::promise<void> queued;
  BufferPool pool;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    queued.get_future().wait();
    for (uint32_t i = 0; i < kCalls; ++i) {
      const auto call = s.read_record();
      ASSERT_TRUE(call);
      EXPECT_TRUE(ByteVector(call->begin() + 4, call->end()) ==
                  write_bytes({filled(pool, (1u << 20) - i, i)}, words({i})));
      s.write_record(reply(xid_of(*call), words({i})));
    }
    s.closed_by_client();
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  std::vector<std::future<Outcome>> outcomes;
  for (uint32_t i = 0; i < kCalls; ++i) {
    outcomes.push_back(rig.call(write_call({filled(pool, (1u << 20) - i, i)}, words({i}))));
  }
  // Sending has begun and is not complete.
  EXPECT_TRUE(eventually([&] { return rig.status().bytes_sent > 0 && rig.status().pending == kCalls; }));
  queued.set_value();
  for (uint32_t i = 0; i < kCalls; ++i) {
    const Outcome o = outcomes[i].get();
    ASSERT_TRUE(o.reply) << text(o);
    EXPECT_EQ(word_at(o.reply->head, o.reply->body), i);
  }
}

TEST(TcpTransport, ReplyWithSink_LandsInItsDestination) {
  const std::vector<size_t> sizes = {0, 1, 5, 8191, 8192, 100001, 1u << 20};
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    for (const size_t n : sizes) {
      const auto call = s.read_record();
      ASSERT_TRUE(call);
      s.write_record(reply(xid_of(*call), read_results(pattern(n, 3), words({9, 8}))));
    }
    s.closed_by_client();
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  for (const size_t n : sizes) {
    const Slice destination = rig.pool().slice(1u << 20);
    const Outcome o = rig.read(destination).get();
    ASSERT_TRUE(o.reply) << text(o);
    EXPECT_TRUE(o.reply->placed);
    EXPECT_EQ(o.reply->bulk_length, n);
    const ByteVector want = pattern(n, 3);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), destination.bytes.begin())) << n;
    const ByteVector body(o.reply->head.begin() + static_cast<ptrdiff_t>(o.reply->body), o.reply->head.end());
    EXPECT_EQ(body, words({0, static_cast<uint32_t>(n), 9, 8}));
  }
  const rpc::TransportStatus s = rig.status();
  size_t total = 0;
  for (const size_t n : sizes) total += n;
  EXPECT_EQ(s.bytes_placed + s.bytes_copied, total);
  // One call at a time, so only its own reply was there to be read: no bulk byte was copied.
  EXPECT_EQ(s.bytes_copied, 0u);
}

TEST(TcpTransport, ErrorReplyToACallWithSink_IsTakenWhole) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    s.write_record(reply(xid_of(*call), words({13, 1, 2, 3})));
    s.closed_by_client();
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  const Outcome o = rig.read(rig.pool().slice(65536), 200).get();
  ASSERT_TRUE(o.reply) << text(o);
  EXPECT_FALSE(o.reply->placed);
  EXPECT_EQ(word_at(o.reply->head, o.reply->body), 13u);
  EXPECT_EQ(o.reply->head.size(), kReplyHeaderBytes + 16);
}

// ---------------------------------------------------------------------------------------------------------
// Replies that refuse the call (RFC 5531 section 9).

TEST(TcpTransport, RefusedCalls_SayWhoRefusedAndWhy) {
  using rpc::RpcStatus;
  const auto status = [](RpcStatus base, uint32_t n) { return static_cast<uint32_t>(base) + n; };
  struct Case {
    ByteVector behind_xid;
    int errnum;
    uint32_t status;
    const char* part;
  };
  const std::vector<Case> cases = {
      {words({1, 0, 0, 0, 1}), EPROTONOSUPPORT, status(RpcStatus::kAcceptStat, 1), "PROG_UNAVAIL"},
      {words({1, 0, 0, 0, 2, 3, 3}), EPROTONOSUPPORT, status(RpcStatus::kAcceptStat, 2), "versions 3 to 3"},
      {words({1, 0, 0, 0, 3}), EOPNOTSUPP, status(RpcStatus::kAcceptStat, 3), "PROC_UNAVAIL"},
      {words({1, 0, 0, 0, 4}), EIO, status(RpcStatus::kAcceptStat, 4), "GARBAGE_ARGS"},
      {words({1, 0, 0, 0, 5}), EIO, status(RpcStatus::kAcceptStat, 5), "SYSTEM_ERR"},
      {words({1, 1, 0, 2, 4}), EPROTONOSUPPORT, status(RpcStatus::kRpcMismatch, 0), "RPC_MISMATCH"},
      {words({1, 1, 1, 5}), EACCES, status(RpcStatus::kAuthStat, 5), "AUTH_TOOWEAK"},
      // Cannot be decoded: no status.
      {words({1, 0, 0, 0, 6}), EIO, 0, "accept_stat"},
      {words({1, 0, 0, 0}), EIO, 0, "truncated"},
      {words({1, 0, 0, 401, 0}), EIO, 0, "longer"},
      {words({1, 2}), EIO, 0, "reply_stat"},
      {words({1, 1, 2}), EIO, 0, "reject_stat"},
      {words({1}), EIO, 0, "truncated"},
  };
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    for (const Case& c : cases) {
      const auto call = s.read_record();
      ASSERT_TRUE(call);
      s.write_record(concat({words({xid_of(*call)}), c.behind_xid}));
    }
    const auto call = s.read_record();
    ASSERT_TRUE(call) << "the connection is still up";
    s.write_record(echo(*call));
    s.closed_by_client();
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  uint64_t undecodable = 0;
  for (const Case& c : cases) {
    const Outcome o = rig.call(ConstBytes()).get();
    ASSERT_FALSE(o.reply);
    const Error& e = o.reply.error();
    EXPECT_EQ(e.layer, Layer::kRpc);
    EXPECT_EQ(e.recovery, Recovery::kPermanent);
    EXPECT_EQ(e.errnum, c.errnum) << describe(e);
    EXPECT_EQ(e.status, c.status) << describe(e);
    EXPECT_NE(describe(e).find(c.part), std::string::npos) << describe(e);
    EXPECT_EQ(std::string(e.op), "TEST");
    undecodable += c.status == 0 ? 1 : 0;
  }
  EXPECT_TRUE(rig.call(ConstBytes()).get().reply);
  EXPECT_EQ(rig.status().bad_messages, undecodable);
  EXPECT_EQ(rig.status().connects, 1u);
}

}  // namespace
}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// Data of calls with a CallSecurity over TCP: it is where it is without security, and the tap sees what is on
// the wire.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "tests/unit/transport/support/sealed_calls.h"
#include "transport/rpc/message_tap.h"

namespace nfsrdma::test {
namespace {

using rpc::Outcome;

class TcpSecurityData : public Sealed {};
INSTANTIATE_TEST_SUITE_P(Services, TcpSecurityData, every_service(), name_of_service);

TEST_P(TcpSecurityData, WriteData_ReachesTheServerInItsPlace) {
  std::optional<OpenedCall> got;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    got = next_call(s);
    ASSERT_TRUE(got);
    s.write_record(seal_reply(*got, {}));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  const ByteVector data = pattern(100'001, 3);
  rpc::Call c;
  c.op = "WRITE";
  c.head = call_head(words({1, 2, 3}));
  c.bulks = {{kCallHeaderBytes + 8, data, kCallHeaderBytes + 8}};
  EXPECT_EQ(results_of(rig.call(FakeSecurity::protect(security, std::move(c))).get()), ByteVector());
  rig.close();
  peer.join();
  EXPECT_TRUE(same_bytes(got->arguments, concat({words({1, 2}), data, ByteVector(3), words({3})})));
}

TEST_P(TcpSecurityData, ReadData_IsInTheSink_ReceivedOrCopied) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    for (const size_t size : {1u, 4095u, 100'000u}) {
      const auto call = next_call(s);
      ASSERT_TRUE(call);
      s.write_record(seal_reply(*call, read_results(pattern(size, 9), words({11, 12}))));
    }
    EXPECT_TRUE(s.closed_by_client());
  });
  tcp::TcpOptions options = quick_options(peer.port());
  options.direct_receive_min_bytes = 1;
  Rig rig(options);
  rig.must_start();
  for (const size_t size : {1u, 4095u, 100'000u}) {
    SCOPED_TRACE(size);
    const Slice sink = rig.pool().slice(100'000);
    const Outcome o = rig.call(sealed_read_call(security, sink)).get();
    EXPECT_EQ(results_of(o), concat({words({0, static_cast<uint32_t>(size)}), words({11, 12})}));
    EXPECT_TRUE(o.reply->placed);
    EXPECT_EQ(o.reply->bulk_length, size);
    EXPECT_TRUE(same_bytes(sink.bytes.first(size), pattern(size, 9)));
  }
  // Wrapped data is copied once it is verified; in the clear, most of it is received where it belongs.
  if (wraps()) {
    EXPECT_EQ(rig.status().bytes_placed, 0u);
    EXPECT_EQ(rig.status().bytes_copied, 104'096u);
  } else {
    EXPECT_GT(rig.status().bytes_placed, 50'000u);
  }
}

TEST_P(TcpSecurityData, ReadWithoutData_LeavesTheSinkAlone) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    for (const ByteVector& results : {words({5, 1, 2}), words({0, 0, 8}), ByteVector()}) {
      const auto call = next_call(s);
      ASSERT_TRUE(call);
      s.write_record(seal_reply(*call, results));
    }
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  for (const ByteVector& results : {words({5, 1, 2}), words({0, 0, 8}), ByteVector()}) {
    const Slice sink = rig.pool().slice(64);
    std::ranges::fill(sink.bytes, std::byte{0x77});
    const Outcome o = rig.call(sealed_read_call(security, sink)).get();
    EXPECT_EQ(results_of(o), results);
    EXPECT_EQ(o.reply->bulk_length, 0u);
    EXPECT_TRUE(std::ranges::all_of(sink.bytes, [](std::byte b) { return b == std::byte{0x77}; }));
  }
}

// What a verified reply says may still be wrong.
TEST_P(TcpSecurityData, MoreDataThanTheSinkOrTheReplyHolds_IsEio) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    for (const ByteVector& results : {read_results(pattern(65, 1)), words({0, 60, 1, 2}), words({0, 5, 1})}) {
      const auto call = next_call(s);
      ASSERT_TRUE(call);
      s.write_record(seal_reply(*call, results));
    }
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  for (int i = 0; i < 3; ++i) {
    const Outcome o = rig.call(sealed_read_call(security, rig.pool().slice(64))).get();
    ASSERT_FALSE(o.reply);
    EXPECT_EQ(o.reply.error().errnum, EIO);
  }
  EXPECT_EQ(rig.status().connects, 1u);
}

// The data of a reply in the clear is in the sink before its verifier is known to be wrong. The reply that
// verifies overwrites it.
TEST_P(TcpSecurityData, DataOfAReplyThatDoesNotVerify_IsOverwritten) {
  constexpr size_t kData = 50'000;
  for (const bool piped : {false, true}) {
    SCOPED_TRACE(piped);
    Peer peer([](Listener& l) {
      for (const bool right : {false, true}) {
        PeerSocket s = l.accept();
        const auto call = next_call(s);
        ASSERT_TRUE(call);
        const ByteVector results = read_results(pattern(right ? kData : kData + 99, right ? 4 : 5));
        s.write_record(seal_reply(*call, results, right ? Flaw::kNone : Flaw::kVerifier));
        EXPECT_TRUE(s.closed_by_client());
      }
    });
    Rig rig(quick_options(peer.port()));
    rig.must_start();
    const Slice sink = rig.pool().slice(kData + 100);
    rpc::Call read = sealed_read_call(security, sink);
    if (piped) read.sink.pipes = &rig.pool().pipes();
    Outcome o = rig.call(std::move(read)).get();
    ASSERT_TRUE(o.reply) << text(o);
    EXPECT_EQ(o.reply->bulk_length, kData);
    EXPECT_EQ(o.transmissions, 2u);
    BulkData data{sink.first(kData), o.reply->piped, std::move(o.reply->pipe)};
    EXPECT_TRUE(data.land());
    EXPECT_TRUE(same_bytes(sink.bytes.first(kData), pattern(kData, 4)));
  }
}

class Recorder final : public rpc::MessageTap {
 public:
  Recorder() { turn(true); }
  void message(const rpc::TappedMessage& about, ByteVector message) override {
    const std::lock_guard lock(mutex_);
    (about.sent ? sent : received).push_back(std::move(message));
  }
  std::vector<ByteVector> sent;
  std::vector<ByteVector> received;

 private:
  std::mutex mutex_;
};

// The tap sees what is on the wire, also the reply that does not verify: it is what one looks for.
TEST_P(TcpSecurityData, Tap_SeesWhatIsOnTheWire) {
  std::vector<ByteVector> calls;
  std::vector<ByteVector> replies;
  Peer peer([&](Listener& l) {
    for (const Flaw flaw : {Flaw::kVerifier, Flaw::kNone}) {
      PeerSocket s = l.accept();
      calls.push_back(s.read_record().value_or(ByteVector()));
      const auto call = open_call(calls.back());
      ASSERT_TRUE(call);
      replies.push_back(seal_reply(*call, read_results(pattern(4097, 8)), flaw));
      s.write_record(replies.back());
      EXPECT_TRUE(s.closed_by_client());
    }
  });
  const auto tap = std::make_shared<Recorder>();
  rpc::TransportHooks hooks;
  hooks.tap = tap;
  tcp::TcpOptions options = quick_options(peer.port());
  options.direct_receive_min_bytes = 1;
  Rig rig(options, std::move(hooks));
  rig.must_start();
  const Slice sink = rig.pool().slice(8192);
  const Outcome o = rig.call(sealed_read_call(security, sink)).get();
  EXPECT_TRUE(o.reply) << text(o);
  EXPECT_TRUE(same_bytes(sink.bytes.first(4097), pattern(4097, 8)));
  rig.close();
  peer.join();
  EXPECT_EQ(tap->sent, calls);
  EXPECT_EQ(tap->received, replies);
}

}  // namespace
}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// Requirements for every fabric, part 1: connections and Sends.
#include <algorithm>

#include "tests/unit/fabric/support/fabrics.h"

namespace nfsrdma::test {
namespace {

using ConformanceSend = Conformance;

fabric::EndpointOptions with_private_data(ConstBytes data) {
  fabric::EndpointOptions o;
  o.private_data = [said = ByteVector(data.begin(), data.end())](bool) { return said; };
  return o;
}

bool begins_with(ConstBytes whole, ConstBytes beginning) {
  return whole.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), whole.begin());
}

TEST_P(ConformanceSend, PrivateData_ReachBothSides) {
  const ByteVector question = pattern(56, 1);
  const ByteVector answer = pattern(8, 2);
  pair.connect(with_private_data(question), with_private_data(answer));
  ASSERT_TRUE(pair.active.endpoint);
  EXPECT_TRUE(begins_with(pair.passive->peer_private_data(), question));
  EXPECT_TRUE(begins_with(pair.active->peer_private_data(), answer));
  EXPECT_EQ(pair.active->peer(), pair.passive->local());
  EXPECT_EQ(pair.active->local(), pair.passive->peer());
}

TEST_P(ConformanceSend, Messages_ArriveWholeAndInOrder_BothWays) {
  pair.connect();
  constexpr size_t kCount = 500;
  const auto size = [](size_t i) { return i * 977 % 8193; };
  for (size_t i = 0; i < kCount; ++i) {
    pair.send(pair.active, pattern(size(i), static_cast<uint32_t>(i)));
    pair.send(pair.passive, pattern(size(i + 7), static_cast<uint32_t>(i + 7)));
  }
  ASSERT_TRUE(pair.passive.receives(kCount));
  ASSERT_TRUE(pair.active.receives(kCount));
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(pair.passive.message(i), pattern(size(i), static_cast<uint32_t>(i))) << i;
    ASSERT_EQ(pair.active.message(i), pattern(size(i + 7), static_cast<uint32_t>(i + 7))) << i;
  }
  EXPECT_EQ(pair.on_loop([&] { return pair.active->counters().sends; }), kCount);
  EXPECT_EQ(pair.on_loop([&] { return pair.active->counters().receives; }), kCount);
}

TEST_P(ConformanceSend, Parts_AreOneMessage_AndMayBeReusedAtOnce) {
  pair.connect();
  ByteVector a = pattern(5, 1);
  ByteVector b = pattern(4000, 2);
  const ByteVector whole = concat({a, b, {}, a});
  pair.on_loop([&] {
    const ConstBytes parts[] = {a, b, {}, a};
    pair.active->send(parts);
    std::fill(a.begin(), a.end(), std::byte{0});
    std::fill(b.begin(), b.end(), std::byte{0});
  });
  ASSERT_TRUE(pair.passive.receives(1));
  EXPECT_EQ(pair.passive.message(0), whole);
}

TEST_P(ConformanceSend, EmptyMessage_Arrives) {
  pair.connect();
  pair.send(pair.active, {});
  pair.send(pair.active, pattern(1, 1));
  ASSERT_TRUE(pair.passive.receives(2));
  EXPECT_TRUE(pair.passive.message(0).empty());
}

TEST_P(ConformanceSend, PassiveSideFirst_Arrives) {
  pair.connect();
  pair.send(pair.passive, pattern(100, 1));
  ASSERT_TRUE(pair.active.receives(1));
  EXPECT_EQ(pair.active.message(0), pattern(100, 1));
}

TEST_P(ConformanceSend, MessageLongerThanTheReceive_CostsTheConnection) {
  fabric::EndpointOptions small;
  small.receive_bytes = 1000;
  pair.connect({}, small);
  pair.send(pair.active, pattern(1000, 1));
  pair.send(pair.active, pattern(1001, 2));
  EXPECT_TRUE(pair.passive.disconnects());
  EXPECT_TRUE(pair.active.disconnects());
  EXPECT_EQ(pair.passive.received(), 1u);
}

TEST_P(ConformanceSend, AnswerFromTheEvent_Arrives) {
  pair.passive.hook = [&](fabric::Received r) {
    const ConstBytes part = r.message;
    pair.passive->send({&part, 1});
  };
  pair.connect();
  for (uint32_t i = 0; i < 50; ++i) {
    pair.send(pair.active, pattern(200, i));
    ASSERT_TRUE(pair.active.receives(i + 1));
    ASSERT_EQ(pair.active.message(i), pattern(200, i));
  }
}

Task<Result<std::unique_ptr<fabric::Endpoint>>> refuse(fabric::Fabric* f, fabric::ConnectOptions to) {
  co_return co_await f->connect(std::move(to));
}

// The code that posts must limit what waits for a peer, and uses this value.
TEST_P(ConformanceSend, UnsentBytes_AreThoseThatHaveNotLeft) {
  pair.connect();
  ByteVector target(100'000);
  const auto segments = pair.expose(pair.passive, target, fabric::Access::kRemoteWrite);
  const auto source = std::make_shared<const ByteVector>(pattern(target.size(), 1));
  const ByteVector message = pattern(1000, 2);
  pair.on_loop([&] {
    EXPECT_EQ(pair.active->unsent_bytes(), 0u);
    pair.active->write(segments.at(0), *source, source, 1, true);
    const ConstBytes part = message;
    pair.active->send({&part, 1});
    EXPECT_EQ(pair.active->unsent_bytes(), source->size() + message.size());
  });
  ASSERT_TRUE(pair.passive.receives(1));
  EXPECT_TRUE(eventually([&] { return pair.on_loop([&] { return pair.active->unsent_bytes() == 0; }); }));
  pair.on_loop([&] {
    pair.active->write(segments.at(0), *source, source, 2, true);
    pair.active->disconnect({.layer = Layer::kTransport,
                             .recovery = Recovery::kReconnect,
                             .errnum = ECONNABORTED,
                             .op = "test",
                             .cause = "enough"});
  });
  ASSERT_TRUE(pair.active.disconnects());
  EXPECT_EQ(pair.on_loop([&] { return pair.active->unsent_bytes(); }), 0u);
}

// More messages than any send queue has room for, each answered from its event, in both directions at the
// same time.
TEST_P(ConformanceSend, ManyConversations_NoneStalls) {
  constexpr size_t kConversations = 60, kMessages = 6000;
  size_t begun = 0;
  const ByteVector text = pattern(200, 1);
  const auto speak = [&](Side& side) {
    const ConstBytes part = text;
    side->send({&part, 1});
  };
  pair.passive.hook = [&](fabric::Received) { speak(pair.passive); };
  pair.active.hook = [&](fabric::Received) {
    if (begun++ < kMessages) speak(pair.active);
  };
  pair.connect({8192, 64, {}}, {8192, 64, {}});
  pair.on_loop([&] {
    for (size_t i = 0; i < kConversations; ++i) speak(pair.active);
  });
  EXPECT_TRUE(pair.active.receives(kMessages + kConversations));
}

TEST_P(ConformanceSend, Refused_ConnectFails) {
  for (const bool explicitly : {true, false}) {
    auto listener = pair.on_loop([&] {
      return pair.fabric().listen(pair.address(), 0, [explicitly](std::unique_ptr<fabric::Incoming> i) {
        if (explicitly) i->refuse();
      });
    });
    ASSERT_TRUE(listener);
    fabric::ConnectOptions to;
    to.host = pair.address();
    to.port = (*listener)->port();
    const auto r = run_on(pair.loop(), refuse(&pair.fabric(), to));
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().recovery, Recovery::kReconnect) << describe(r.error());
    EXPECT_EQ(r.error().errnum, ECONNREFUSED) << describe(r.error());
    pair.on_loop([&] { listener->reset(); });
    const auto nobody = run_on(pair.loop(), refuse(&pair.fabric(), to));
    ASSERT_FALSE(nobody);
    EXPECT_EQ(nobody.error().recovery, Recovery::kReconnect) << describe(nobody.error());
  }
}

TEST_P(ConformanceSend, HostThatDoesNotExist_IsPermanent) {
  fabric::ConnectOptions to;
  to.host = "256.256.256.256";
  const auto r = run_on(pair.loop(), refuse(&pair.fabric(), to));
  ASSERT_FALSE(r);
  EXPECT_TRUE(r.error().recovery == Recovery::kPermanent || r.error().recovery == Recovery::kReconnect);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ConformanceSend, testing::ValuesIn(fabrics()), name_of);

}  // namespace
}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// Requirements for every fabric, part 3: the end of connections.
#include "tests/unit/fabric/support/fabrics.h"

namespace nfsrdma::test {
namespace {

using ConformanceEnd = Conformance;
using fabric::Access;

Error because(const char* cause) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kReconnect,
          .errnum = ECONNABORTED,
          .op = "test",
          .cause = cause};
}

TEST_P(ConformanceEnd, Disconnect_IsToldOnceOnEachSide_AndLater) {
  pair.connect();
  pair.send(pair.active, {});
  ASSERT_TRUE(pair.passive.receives(1));
  EXPECT_EQ(pair.on_loop([&] {
    pair.active->disconnect(because("enough"));
    pair.active->disconnect(because("again"));
    return pair.active.disconnected().size();
  }),
            0u)
      << "not from inside";
  ASSERT_TRUE(pair.active.disconnects());
  ASSERT_TRUE(pair.passive.disconnects());
  EXPECT_EQ(pair.active.disconnected()[0].cause, "enough");
  pair.on_loop([&] { pair.passive->disconnect(because("too late")); });
  pair.destroy(pair.active);
  pair.destroy(pair.passive);
  EXPECT_EQ(pair.active.disconnected().size(), 1u);
  EXPECT_EQ(pair.passive.disconnected().size(), 1u);
}

TEST_P(ConformanceEnd, AfterTheEnd_NothingHappens) {
  pair.connect();
  pair.on_loop([&] { pair.active->disconnect(because("enough")); });
  ASSERT_TRUE(pair.active.disconnects());
  ByteVector memory(1000);
  pair.on_loop([&] {
    const ConstBytes part = memory;
    pair.active->send({&part, 1});
    const auto exposed = pair.active->expose(memory, Access::kRemoteWrite);
    EXPECT_FALSE(exposed);
    const rpcrdma::segment segment{1, 1000, 0};
    auto owner = std::make_shared<int>(1);
    pair.active->write(segment, memory, owner, 1, true);
    pair.active->read(memory, segment, owner, 2);
    EXPECT_EQ(owner.use_count(), 1);
    EXPECT_TRUE(pair.active->invalidate({&segment, 1}, 0, 3));
  });
  EXPECT_TRUE(pair.active.completed().empty());
}

TEST_P(ConformanceEnd, DisconnectFromAnEvent_NothingIsDeliveredAfterwards) {
  pair.passive.hook = [&](fabric::Received) { pair.passive->disconnect(because("in the event")); };
  pair.connect();
  pair.on_loop([&] {
    const ByteVector m = pattern(100, 1);
    const ConstBytes part = m;
    for (int i = 0; i < 10; ++i) pair.active->send({&part, 1});
  });
  ASSERT_TRUE(pair.passive.disconnects());
  ASSERT_TRUE(pair.active.disconnects());
  EXPECT_EQ(pair.passive.received(), 1u);
}

// An endpoint is destroyed while the peer writes into its memory and reads from it: the memory is not touched
// afterwards (the sanitizer checks that), and the peer gets an event.
TEST_P(ConformanceEnd, DestroyedInTheMiddle_MemoryMayGo_PeerIsTold) {
  // The delay varies how much is done; no outcome depends on it.
  for (int delay_us = 0; delay_us < 4000; delay_us += 200) {
    FabricPair fresh(GetParam().make, GetParam().address);
    constexpr size_t kBytes = 8u << 20;
    auto written = std::make_unique<ByteVector>(kBytes);
    auto read = std::make_unique<ByteVector>(kBytes);
    auto data = std::make_shared<ByteVector>(kBytes);
    const std::weak_ptr<ByteVector> still_used = data;
    fresh.connect();
    const auto writable = fresh.expose(fresh.active, *written, Access::kRemoteWrite);
    const auto readable = fresh.expose(fresh.active, *read, Access::kRemoteRead);
    fresh.send(fresh.active, {});
    ASSERT_TRUE(fresh.passive.receives(1));
    fresh.on_loop([&] {
      const MutableBytes bytes = *data;
      fresh.passive->write(writable[0], bytes, data, 1, true);
      fresh.passive->read(bytes, readable[0], std::move(data), 2);
    });
    let_pass(fresh.loop(), std::chrono::microseconds(delay_us));
    fresh.on_loop([&] {
      fresh.active.endpoint.reset();
      written.reset();
      read.reset();
    });
    ASSERT_TRUE(fresh.passive.disconnects());
    EXPECT_TRUE(still_used.expired());
    EXPECT_TRUE(fresh.active.disconnected().empty()) << "no event comes any more";
    EXPECT_EQ(fresh.passive.disconnected().size(), 1u);
  }
}

// Memory is revoked while the peer uses it.
TEST_P(ConformanceEnd, RevokedInTheMiddle_MemoryMayGo) {
  // The delay varies how much is done; no outcome depends on it.
  for (int delay_us = 0; delay_us < 4000; delay_us += 200) {
    for (const Access access : {Access::kRemoteWrite, Access::kRemoteRead}) {
      FabricPair fresh(GetParam().make, GetParam().address);
      constexpr size_t kBytes = 8u << 20;
      auto memory = std::make_unique<ByteVector>(kBytes);
      auto data = std::make_shared<ByteVector>(kBytes);
      fresh.connect();
      const auto segments = fresh.expose(fresh.active, *memory, access);
      fresh.send(fresh.active, {});
      ASSERT_TRUE(fresh.passive.receives(1));
      fresh.on_loop([&] {
        const MutableBytes bytes = *data;
        if (access == Access::kRemoteWrite) {
          fresh.passive->write(segments[0], bytes, data, 1, true);
        } else {
          fresh.passive->read(bytes, segments[0], data, 1);
        }
      });
      let_pass(fresh.loop(), std::chrono::microseconds(delay_us));
      ASSERT_TRUE(fresh.revoke(fresh.active, segments));
      fresh.on_loop([&] { memory.reset(); });
      // Whether the peer's operation was complete or not, the next use comes too late.
      fresh.on_loop(
          [&] { fresh.passive->write(segments[0], ConstBytes(*data).first(10), nullptr, 3, true); });
      ASSERT_TRUE(fresh.active.disconnects());
      ASSERT_TRUE(fresh.passive.disconnects());
    }
  }
}

TEST_P(ConformanceEnd, NeverStarted_MayBeDestroyed) {
  pair.connect_only({}, {});
  ASSERT_TRUE(pair.passive.endpoint);
  pair.destroy(pair.passive);
  pair.on_loop([&] { pair.active->start(pair.active); });
  EXPECT_TRUE(pair.active.disconnects());
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ConformanceEnd, testing::ValuesIn(fabrics()), name_of);

}  // namespace
}  // namespace nfsrdma::test

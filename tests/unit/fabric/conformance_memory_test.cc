// SPDX-License-Identifier: Apache-2.0
// Requirements for every fabric, part 2: exposed memory, RDMA Write, RDMA Read, invalidation.
#include <algorithm>

#include "tests/unit/fabric/support/fabrics.h"

namespace nfsrdma::test {
namespace {

using ConformanceMemory = Conformance;
using fabric::Access;

constexpr std::byte kUntouched{0xa5};

// Memory to expose, between two guards that must not change.
struct Guarded {
  explicit Guarded(size_t n) : bytes(n + 2 * kGuard, kUntouched) {}
  static constexpr size_t kGuard = 256;
  MutableBytes inner() { return MutableBytes(bytes).subspan(kGuard, bytes.size() - 2 * kGuard); }
  bool guards_hold() const {
    const auto untouched = [](std::byte b) { return b == kUntouched; };
    return std::all_of(bytes.begin(), bytes.begin() + kGuard, untouched) &&
           std::all_of(bytes.end() - kGuard, bytes.end(), untouched);
  }
  bool untouched() const {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kUntouched; });
  }
  ByteVector bytes;
};

ByteVector copy(ConstBytes b) {
  return {b.begin(), b.end()};
}

TEST_P(ConformanceMemory, Write_IsThereWhenTheSendAfterItArrives) {
  Guarded target((1u << 20) + 13);
  bool complete = false;
  const ByteVector data = pattern(target.inner().size(), 3);
  pair.active.hook = [&](fabric::Received) {
    complete = std::equal(data.begin(), data.end(), target.inner().begin());
  };
  pair.connect();
  for (int round = 0; round < 5; ++round) {
    complete = false;
    std::fill(target.inner().begin(), target.inner().end(), kUntouched);
    const auto segments = pair.expose(pair.active, target.inner(), Access::kRemoteWrite);
    ASSERT_EQ(segments.size(), 1u);
    EXPECT_EQ(segments[0].length, data.size());
    pair.send(pair.active, pattern(10, 1));
    pair.on_loop([&] {
      pair.passive->write(segments[0], data, nullptr, 1, false);
      const ConstBytes done = data;
      const ConstBytes part = done.first(20);
      pair.passive->send({&part, 1});
    });
    ASSERT_TRUE(pair.active.receives(static_cast<size_t>(round) + 1));
    EXPECT_TRUE(pair.on_loop([&] { return complete; }));
    EXPECT_TRUE(pair.invalidate(pair.active, segments));
  }
  EXPECT_TRUE(target.guards_hold());
  EXPECT_TRUE(pair.passive.completed().empty()) << "nobody asked for one";
}

TEST_P(ConformanceMemory, WriteToTheBeginningOfASegment_LeavesTheRest) {
  Guarded target(5000);
  pair.connect();
  const auto segments = pair.expose(pair.active, target.inner(), Access::kRemoteWrite);
  pair.send(pair.active, {});
  const ByteVector data = pattern(1001, 1);
  pair.on_loop([&] { pair.passive->write(segments[0], data, nullptr, 1, true); });
  ASSERT_TRUE(pair.passive.completes(1));
  pair.send(pair.passive, pattern(1, 1));
  ASSERT_TRUE(pair.active.receives(1));
  EXPECT_EQ(copy(target.inner().first(1001)), data);
  EXPECT_EQ(target.inner()[1001], kUntouched);
}

TEST_P(ConformanceMemory, Write_CompletesOnceAndLetsTheOwnerGo) {
  Guarded target(300'000);
  pair.connect();
  const auto segments = pair.expose(pair.active, target.inner(), Access::kRemoteWrite);
  pair.send(pair.active, {});
  std::vector<std::weak_ptr<const ByteVector>> owners;
  for (Cookie i = 0; i < 20; ++i) {
    auto data = std::make_shared<const ByteVector>(pattern(target.inner().size(), static_cast<uint32_t>(i)));
    owners.push_back(data);
    pair.on_loop([&, data = std::move(data)]() mutable {
      const ConstBytes bytes = *data;
      pair.passive->write(segments[0], bytes, std::move(data), i, i % 2 == 0);
    });
  }
  ASSERT_TRUE(pair.passive.completes(10));
  EXPECT_EQ(pair.passive.completed(), (std::vector<Cookie>{0, 2, 4, 6, 8, 10, 12, 14, 16, 18}));
  EXPECT_TRUE(eventually(
      [&] { return std::all_of(owners.begin(), owners.end(), [](const auto& o) { return o.expired(); }); }));
  pair.send(pair.passive, {});
  ASSERT_TRUE(pair.active.receives(1)) << "what has left has arrived: the target may go";
}

TEST_P(ConformanceMemory, Reads_FetchWhatIsExposed_MoreOfThemThanMayBeOutstanding) {
  constexpr size_t kReads = 200;
  constexpr size_t kBytes = 20'011;
  ByteVector source = pattern(kReads * kBytes, 4);
  Guarded target(kReads * kBytes);
  pair.connect();
  const auto segments = pair.expose(pair.active, source, Access::kRemoteRead);
  pair.send(pair.active, {});
  pair.on_loop([&] {
    for (size_t i = 0; i < kReads; ++i) {
      rpcrdma::segment part = segments[0];
      part.offset += i * kBytes;
      part.length = kBytes;
      pair.passive->read(target.inner().subspan(i * kBytes, kBytes), part, nullptr, i);
    }
  });
  ASSERT_TRUE(pair.passive.completes(kReads));
  EXPECT_EQ(copy(target.inner()), source);
  EXPECT_TRUE(target.guards_hold());
  const auto completed = pair.passive.completed();
  EXPECT_TRUE(std::is_sorted(completed.begin(), completed.end()));
}

TEST_P(ConformanceMemory, LargeReadAndWritesAndSends_DoNotDisturbEachOther) {
  ByteVector source = pattern(3u << 20, 4);
  Guarded fetched(source.size());
  Guarded written(1u << 20);
  const ByteVector data = pattern(written.inner().size(), 9);
  pair.connect();
  const auto readable = pair.expose(pair.active, source, Access::kRemoteRead);
  const auto writable = pair.expose(pair.active, written.inner(), Access::kRemoteWrite);
  pair.send(pair.active, {});
  pair.on_loop([&] {
    pair.passive->read(fetched.inner(), readable[0], nullptr, 1);
    pair.passive->write(writable[0], data, nullptr, 2, true);
  });
  for (uint32_t i = 0; i < 100; ++i) {
    pair.send(pair.active, pattern(1000, i));
    pair.send(pair.passive, pattern(1000, i));
  }
  ASSERT_TRUE(pair.passive.completes(2));
  ASSERT_TRUE(pair.active.receives(100));
  ASSERT_TRUE(pair.passive.receives(101));
  EXPECT_EQ(copy(fetched.inner()), source);
  EXPECT_EQ(copy(written.inner()), data);
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(pair.passive.message(i + 1), pattern(1000, i));
}

TEST_P(ConformanceMemory, SendWithInvalidate_ClosesTheMemoryAndSaysSo) {
  Guarded target(1000);
  pair.connect();
  if (!pair.active->limits().remote_invalidation) GTEST_SKIP() << "this fabric has no remote invalidation";
  const auto segments = pair.expose(pair.active, target.inner(), Access::kRemoteWrite);
  pair.send(pair.active, {});
  pair.send(pair.passive, pattern(10, 1), segments[0].handle);
  ASSERT_TRUE(pair.active.receives(1));
  EXPECT_EQ(pair.active.invalidated(0), segments[0].handle);
  EXPECT_TRUE(pair.on_loop([&] { return pair.active->invalidate(segments, segments[0].handle, 1); }));
  const ByteVector late = pattern(10, 2);
  pair.on_loop([&] { pair.passive->write(segments[0], late, nullptr, 1, false); });
  EXPECT_TRUE(pair.active.disconnects());
  EXPECT_TRUE(pair.passive.disconnects());
  EXPECT_TRUE(target.untouched());
}

// An operation of the peer that must be refused.
struct Offence {
  const char* name;
  Access access;
  // The target is not changed, and both sides are disconnected.
  std::function<void(fabric::Endpoint&, rpcrdma::segment, ByteVector&)> attempt;
  bool invalidated_before = false;
  bool begins_inside = false;  // the bytes inside the range may have been written, which was allowed
};

std::vector<Offence> offences() {
  using fabric::Endpoint;
  using rpcrdma::segment;
  const auto write = [](Endpoint& e, segment s, ByteVector& b) {
    s.length = static_cast<uint32_t>(b.size());
    e.write(s, b, nullptr, 1, true);
  };
  const auto read = [](Endpoint& e, segment s, ByteVector& b) {
    s.length = static_cast<uint32_t>(b.size());
    e.read(b, s, nullptr, 1);
  };
  const auto shifted = [](auto attempt, uint64_t by) {
    return [=](Endpoint& e, segment s, ByteVector& b) {
      s.offset += by;
      attempt(e, s, b);
    };
  };
  const auto of_other = [](auto attempt, uint32_t bits) {
    return [=](Endpoint& e, segment s, ByteVector& b) {
      s.handle ^= bits;
      attempt(e, s, b);
    };
  };
  return {
      {"WriteToWhatMayBeRead", Access::kRemoteRead, write},
      {"ReadOfWhatMayBeWritten", Access::kRemoteWrite, read},
      {"WriteBehindTheEnd", Access::kRemoteWrite, shifted(write, 1), false, true},
      {"ReadBehindTheEnd", Access::kRemoteRead, shifted(read, 1)},
      {"WriteBeforeTheBeginning", Access::kRemoteWrite, shifted(write, ~uint64_t{0})},
      {"ReadBeforeTheBeginning", Access::kRemoteRead, shifted(read, ~uint64_t{0})},
      {"WriteFarAway", Access::kRemoteWrite, shifted(write, uint64_t{1} << 62)},
      {"WriteToAnotherHandle", Access::kRemoteWrite, of_other(write, 0x5a5a0000)},
      {"ReadOfAnotherHandle", Access::kRemoteRead, of_other(read, 0x5a5a0000)},
      {"LateWrite", Access::kRemoteWrite, write, true},
      {"LateRead", Access::kRemoteRead, read, true},
  };
}

TEST_P(ConformanceMemory, Offences_CostTheConnectionAndNothingElse) {
  for (const Offence& offence : offences()) {
    SCOPED_TRACE(offence.name);
    FabricPair fresh(GetParam().make, GetParam().address);
    Guarded target(4000);
    ByteVector own = pattern(4000, 1);
    const ByteVector before = own;
    fresh.connect();
    const auto segments = fresh.expose(fresh.active, target.inner(), offence.access);
    fresh.send(fresh.active, {});
    ASSERT_TRUE(fresh.passive.receives(1));
    if (offence.invalidated_before) {
      EXPECT_TRUE(fresh.invalidate(fresh.active, segments));
    }
    fresh.on_loop([&] { offence.attempt(*fresh.passive.endpoint, segments[0], own); });
    fresh.send(fresh.passive, pattern(1, 1));
    EXPECT_TRUE(fresh.active.disconnects());
    EXPECT_TRUE(fresh.passive.disconnects());
    EXPECT_TRUE(target.guards_hold());
    EXPECT_TRUE(target.untouched() || offence.begins_inside);
    EXPECT_EQ(own, before);
    EXPECT_EQ(fresh.active.received(), 0u) << "nothing is delivered behind an offence";
    ASSERT_FALSE(fresh.active.disconnected().empty());
    EXPECT_EQ(fresh.active.disconnected()[0].recovery, Recovery::kReconnect);
    fresh.destroy(fresh.active);
    EXPECT_EQ(fresh.active.disconnected().size(), 1u);
  }
}

TEST_P(ConformanceMemory, InvalidatedHandlesAreIgnored_OthersStay) {
  Guarded one(1000);
  Guarded two(1000);
  pair.connect();
  const auto first = pair.expose(pair.active, one.inner(), Access::kRemoteWrite);
  const auto second = pair.expose(pair.active, two.inner(), Access::kRemoteWrite);
  EXPECT_NE(first[0].handle, second[0].handle);
  EXPECT_TRUE(pair.invalidate(pair.active, first));
  EXPECT_TRUE(pair.invalidate(pair.active, first));
  pair.send(pair.active, {});
  const ByteVector data = pattern(1000, 5);
  pair.on_loop([&] { pair.passive->write(second[0], data, nullptr, 1, false); });
  pair.send(pair.passive, {});
  ASSERT_TRUE(pair.active.receives(1));
  EXPECT_EQ(copy(two.inner()), data);
  EXPECT_TRUE(one.untouched());
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ConformanceMemory, testing::ValuesIn(fabrics()), name_of);

}  // namespace
}  // namespace nfsrdma::test

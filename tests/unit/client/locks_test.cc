// SPDX-License-Identifier: Apache-2.0
// The record of byte-range locks: POSIX rules, compared with a record of single bytes.
#include "client/nfs4/state/locks.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>

namespace nfsrdma::test {
namespace {

using client::LockType;
using client::nfs4::LockRange;

// The bytes that the property checks: both ends of the file, where overflow is possible.
constexpr size_t kPoints = 48;
uint64_t point(size_t i) {
  return i < kPoints / 2 ? i : UINT64_MAX - (kPoints - 1 - i);
}

using ByteMap = std::array<LockType, kPoints>;

LockType type_at(const std::vector<LockRange>& ranges, uint64_t byte) {
  for (const LockRange& r : ranges) {
    if (r.start <= byte && byte <= r.end) return r.type;
  }
  return LockType::kUnlock;
}

rc::Gen<LockRange> any_range() {
  const auto points =
      rc::gen::pair(rc::gen::inRange<size_t>(0, kPoints), rc::gen::inRange<size_t>(0, kPoints));
  const auto type = rc::gen::element(LockType::kRead, LockType::kWrite, LockType::kUnlock);
  return rc::gen::map(rc::gen::pair(points, type), [](const auto& v) {
    const auto [a, b] = v.first;
    return LockRange{point(std::min(a, b)), point(std::max(a, b)), v.second};
  });
}

// From any state, taking a range and going back restores the state.
TEST(WayBack, AfterAnyLock_LeavesWhatWasHeld) {
  const bool ok = rc::check([] {
    std::vector<LockRange> held;
    for (const LockRange& step : *rc::gen::container<std::vector<LockRange>>(any_range()))
      client::nfs4::record_lock(held, step);
    LockRange taken = *any_range();
    if (taken.type == LockType::kUnlock) taken.type = LockType::kWrite;
    std::vector<LockRange> ranges = held;
    client::nfs4::record_lock(ranges, taken);
    for (const LockRange& step : client::nfs4::steps_back(held, taken)) {
      RC_ASSERT(taken.start <= step.start && step.start <= step.end && step.end <= taken.end);
      client::nfs4::record_lock(ranges, step);
    }
    for (size_t i = 0; i < kPoints; ++i) RC_ASSERT(type_at(ranges, point(i)) == type_at(held, point(i)));
  });
  EXPECT_TRUE(ok);
}

// What the server may hold and nobody owns.
TEST(NotHeld, IsWhatTheOtherHasNotInAnyWay) {
  const bool ok = rc::check([] {
    std::vector<LockRange> ranges, held;
    for (auto* book : {&ranges, &held}) {
      for (const LockRange& r : *rc::gen::container<std::vector<LockRange>>(any_range()))
        client::nfs4::record_lock(*book, r);
    }
    const auto gone = client::nfs4::not_held(ranges, held);
    for (size_t i = 0; i < kPoints; ++i) {
      const bool expected =
          type_at(ranges, point(i)) != LockType::kUnlock && type_at(held, point(i)) == LockType::kUnlock;
      const bool found = std::ranges::any_of(
          gone, [&](const LockRange& r) { return r.start <= point(i) && point(i) <= r.end; });
      RC_ASSERT(found == expected);
    }
  });
  EXPECT_TRUE(ok);
}

TEST(RecordLock, AnySequence_EqualsAMapOfBytes) {
  const bool ok = rc::check([] {
    const auto steps = *rc::gen::container<std::vector<LockRange>>(any_range());
    std::vector<LockRange> ranges;
    ByteMap bytes{};
    bytes.fill(LockType::kUnlock);
    for (const LockRange& step : steps) {
      client::nfs4::record_lock(ranges, step);
      for (size_t i = 0; i < kPoints; ++i) {
        if (step.start <= point(i) && point(i) <= step.end) bytes[i] = step.type;
      }
      for (size_t i = 0; i < kPoints; ++i) RC_ASSERT(type_at(ranges, point(i)) == bytes[i]);
      // Ascending, disjoint, and all adjacent ranges of one type are merged.
      for (size_t i = 0; i < ranges.size(); ++i) {
        RC_ASSERT(ranges[i].start <= ranges[i].end);
        RC_ASSERT(ranges[i].type != LockType::kUnlock);
        if (i == 0) continue;
        RC_ASSERT(ranges[i - 1].end < ranges[i].start);
        RC_ASSERT(ranges[i - 1].type != ranges[i].type || ranges[i - 1].end + 1 < ranges[i].start);
      }
    }
  });
  EXPECT_TRUE(ok);
}

TEST(RecordLock, UnlockInTheMiddle_SplitsTheRange) {
  std::vector<LockRange> ranges;
  client::nfs4::record_lock(ranges, {0, UINT64_MAX, LockType::kWrite});
  client::nfs4::record_lock(ranges, {100, 199, LockType::kUnlock});
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].end, 99u);
  EXPECT_EQ(ranges[1].start, 200u);
  EXPECT_EQ(ranges[1].end, UINT64_MAX);
}

TEST(RecordLock, NeighbourOfTheSameType_Merges) {
  std::vector<LockRange> ranges;
  client::nfs4::record_lock(ranges, {0, 9, LockType::kRead});
  client::nfs4::record_lock(ranges, {20, 29, LockType::kRead});
  client::nfs4::record_lock(ranges, {10, 19, LockType::kRead});
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].start, 0u);
  EXPECT_EQ(ranges[0].end, 29u);
}

// RFC 8881 section 18.10.3: "A length with all bits set to one (1) [...] specifies a lock to the end of the
// file."
TEST(LockLength, ToTheEnd_IsAllOnes) {
  EXPECT_EQ(client::nfs4::lock_length(0, UINT64_MAX), nfs4::NFS4_UINT64_MAX);
  EXPECT_EQ(client::nfs4::lock_length(4711, UINT64_MAX), nfs4::NFS4_UINT64_MAX);
  EXPECT_EQ(client::nfs4::lock_length(5, 5), 1u);
  EXPECT_EQ(client::nfs4::lock_length(0, UINT64_MAX - 1), UINT64_MAX)
      << "every byte but the last cannot be said otherwise";
}

TEST(LockEnd, OfWhatAServerMaySay_StaysInRange) {
  EXPECT_EQ(client::nfs4::lock_end(0, nfs4::NFS4_UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(client::nfs4::lock_end(10, 5), 14u);
  EXPECT_EQ(client::nfs4::lock_end(UINT64_MAX - 3, 4), UINT64_MAX);
  EXPECT_EQ(client::nfs4::lock_end(UINT64_MAX - 3, 400), UINT64_MAX) << "past the end: hostile";
  EXPECT_EQ(client::nfs4::lock_end(10, 0), UINT64_MAX) << "nfs-ganesha 4.3: to the end of the file";
}

TEST(LockEnd, OfALength_IsTheEndItWasMadeFrom) {
  EXPECT_TRUE(rc::check([](uint64_t a, uint64_t b) {
    const auto [start, end] = std::minmax(a, b);
    RC_ASSERT(client::nfs4::lock_end(start, client::nfs4::lock_length(start, end)) == end);
  }));
}

client::nfs4::OpenStateRef open_state() {
  auto open = std::make_shared<client::nfs4::OpenState>();
  open->stateid.other.fill(std::byte{1});
  open->stateid.seqid = 4;
  return open;
}

// Section 18.10.3: new_lock_owner is for the first lock of a lock-owner, made from the open stateid.
TEST(LockArgs, FirstLockOfAnOwner_IsMadeFromTheOpen) {
  const client::nfs4::OpenStateRef open = open_state();
  client::nfs4::LockState owner;
  owner.owner = client::nfs4::posix_owner(0xabc);
  const nfs4::LOCK4args args = client::nfs4::lock_args(77, *open, owner, {10, 19, LockType::kWrite}, false);
  EXPECT_TRUE(args.locker.new_lock_owner);
  EXPECT_EQ(args.locker.stateid, open->stateid);
  EXPECT_EQ(args.locker.lock_owner.owner, client::nfs4::posix_owner(0xabc));
  EXPECT_EQ(args.locker.lock_owner.clientid, 77u);
  EXPECT_EQ(args.locktype, nfs4::WRITE_LT);
  EXPECT_EQ(args.offset, 10u);
  EXPECT_EQ(args.length, 10u);
  EXPECT_FALSE(args.reclaim);
}

TEST(LockArgs, LaterLocks_AreMadeFromTheLockStateid) {
  client::nfs4::LockState owner;
  owner.established = true;
  owner.stateid.other.fill(std::byte{2});
  owner.stateid.seqid = 9;
  const nfs4::LOCK4args args =
      client::nfs4::lock_args(77, *open_state(), owner, {0, UINT64_MAX, LockType::kRead}, false);
  EXPECT_FALSE(args.locker.new_lock_owner);
  EXPECT_EQ(args.locker.stateid, owner.stateid);
  EXPECT_EQ(args.locktype, nfs4::READ_LT);
  EXPECT_EQ(args.length, nfs4::NFS4_UINT64_MAX);
}

TEST(LockArgs, Waiting_AsksForABlockingType) {
  const client::nfs4::LockState owner;
  EXPECT_EQ(client::nfs4::lock_args(1, *open_state(), owner, {0, 0, LockType::kRead}, true).locktype,
            nfs4::READW_LT);
  EXPECT_EQ(client::nfs4::lock_args(1, *open_state(), owner, {0, 0, LockType::kWrite}, true).locktype,
            nfs4::WRITEW_LT);
}

TEST(LockOwners, OfAProcessAndADescriptor_AreNeverTheSame) {
  EXPECT_NE(client::nfs4::posix_owner(5), client::nfs4::flock_owner(5));
  EXPECT_NE(client::nfs4::posix_owner(5), client::nfs4::posix_owner(6));
  EXPECT_NE(client::nfs4::flock_owner(5), client::nfs4::flock_owner(6));
}

}  // namespace
}  // namespace nfsrdma::test

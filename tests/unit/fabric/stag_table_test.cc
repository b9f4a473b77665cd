// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/stag_table.h"

#include <gtest/gtest.h>

#include <set>

namespace nfsrdma::fabric::iwarp {
namespace {

using StagFault = StagTable::Fault;

TEST(StagTable, Find_ChecksEverything) {
  StagTable t;
  ByteVector memory(1000);
  const auto tag = t.add(memory, TagUse::kRemoteWrite);
  ASSERT_TRUE(tag);
  const auto fault = [&](uint32_t stag, uint64_t offset, size_t n, TagUse use = TagUse::kRemoteWrite) {
    return t.find(stag, offset, n, use).fault;
  };
  EXPECT_EQ(t.find(tag->stag, tag->offset, 1000, TagUse::kRemoteWrite).at, memory.data());
  EXPECT_EQ(t.find(tag->stag, tag->offset + 999, 1, TagUse::kRemoteWrite).at, memory.data() + 999);
  EXPECT_EQ(fault(tag->stag, tag->offset + 999, 2), StagFault::kBounds);
  EXPECT_EQ(fault(tag->stag, tag->offset + 1000, 1), StagFault::kBounds);
  EXPECT_EQ(fault(tag->stag, tag->offset - 1, 1), StagFault::kBounds);
  EXPECT_EQ(fault(tag->stag, 0, 1), StagFault::kBounds);
  EXPECT_EQ(fault(tag->stag, ~uint64_t{0}, 1), StagFault::kWrap);
  EXPECT_EQ(fault(tag->stag, ~uint64_t{0} - 10, 100), StagFault::kWrap);
  EXPECT_EQ(fault(tag->stag, tag->offset, SIZE_MAX / 2), StagFault::kBounds);
  EXPECT_EQ(fault(tag->stag, tag->offset, 1, TagUse::kRemoteRead), StagFault::kAccess);
  EXPECT_EQ(fault(tag->stag, tag->offset, 1, TagUse::kReadSink), StagFault::kAccess);
  EXPECT_EQ(fault(tag->stag ^ 0x80000000, tag->offset, 1), StagFault::kInvalid);
  EXPECT_EQ(fault(tag->stag ^ 1, tag->offset, 1), StagFault::kInvalid);
  EXPECT_EQ(fault(0, tag->offset, 1), StagFault::kInvalid);
}

TEST(StagTable, RemovedTag_IsInvalid_AndItsIndexGetsAnotherKey) {
  StagTable t;
  ByteVector memory(10);
  const auto old = t.add(memory, TagUse::kRemoteWrite);
  EXPECT_TRUE(t.remove(old->stag));
  EXPECT_FALSE(t.remove(old->stag));
  EXPECT_EQ(t.find(old->stag, old->offset, 1, TagUse::kRemoteWrite).fault, StagFault::kInvalid);
  std::set<uint32_t> keys;
  std::set<uint64_t> offsets;
  for (int i = 0; i < 1000; ++i) {
    const auto next = t.add(memory, TagUse::kRemoteWrite);
    keys.insert(next->stag);
    offsets.insert(next->offset);
    t.remove(next->stag);
  }
  EXPECT_GT(keys.size(), 990u);  // 2^19 keys: two equal ones are rare
  EXPECT_EQ(offsets.size(), 1000u);
}

TEST(StagTable, RevokedTag_IsRememberedOnceAndReachesNothing) {
  StagTable t;
  ByteVector memory(10);
  const auto tag = t.add(memory, TagUse::kRemoteWrite);
  EXPECT_FALSE(t.take_revoked(tag->stag));
  EXPECT_TRUE(t.revoke(tag->stag));
  EXPECT_FALSE(t.revoke(tag->stag));
  EXPECT_EQ(t.find(tag->stag, tag->offset, 1, TagUse::kRemoteWrite).fault, StagFault::kInvalid);
  const auto next = t.add(memory, TagUse::kRemoteWrite);  // at the same index
  EXPECT_TRUE(t.take_revoked(tag->stag));
  EXPECT_FALSE(t.take_revoked(tag->stag));
  EXPECT_FALSE(t.take_revoked(0));
  EXPECT_TRUE(t.remove(next->stag));
  EXPECT_FALSE(t.take_revoked(next->stag)) << "was not revoked";
}

TEST(StagTable, IsFullAtItsLimit_AndAllTagsDiffer) {
  StagTable t;
  ByteVector memory(1);
  std::set<uint32_t> tags;
  for (size_t i = 0; i < StagTable::kMaxTags; ++i) tags.insert(t.add(memory, TagUse::kRemoteRead)->stag);
  EXPECT_EQ(tags.size(), StagTable::kMaxTags);
  EXPECT_FALSE(tags.contains(0));
  EXPECT_FALSE(t.add(memory, TagUse::kRemoteRead));
  EXPECT_TRUE(t.remove(*tags.begin()));
  EXPECT_TRUE(t.add(memory, TagUse::kRemoteRead));
  t.clear();
  EXPECT_EQ(t.size(), 0u);
  EXPECT_EQ(t.find(*tags.rbegin(), 0, 1, TagUse::kRemoteRead).fault, StagFault::kInvalid);
}

}  // namespace
}  // namespace nfsrdma::fabric::iwarp

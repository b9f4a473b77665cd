// SPDX-License-Identifier: Apache-2.0
// KernelState: what the kernel may have cached after each reply; for a directory's listing, every order in
// which two readers of two versions begin and end it.
#include "client/core/nodes/kernel_view.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace nfsrdma::test {
namespace {

using client::Attributes;
using client::KernelState;

Attributes attributes(uint64_t change, uint64_t size, time_t mtime = 0) {
  Attributes a;
  a.change = change;
  a.size = size;
  a.mtime = {mtime, 0};
  return a;
}
constexpr Duration kSecond = std::chrono::seconds(1);

TEST(KernelState, AttributesWithoutTtl_AreNotBelieved) {
  KernelState kernel;
  kernel.told(attributes(7, 100), Duration::zero());
  EXPECT_FALSE(kernel.knows());
  EXPECT_FALSE(kernel.knows_other_than(8));
  kernel.told(attributes(7, 100), kSecond);
  EXPECT_TRUE(kernel.knows());
  EXPECT_TRUE(kernel.knows_other_than(8));
  EXPECT_FALSE(kernel.knows_other_than(7));
}

TEST(KernelState, OwnChange_MovesWhatItKnows) {
  KernelState kernel;
  kernel.told(attributes(7, 100), kSecond);
  kernel.follow(8);
  EXPECT_FALSE(kernel.knows_other_than(8));
}

TEST(KernelState, SizeGrowsByWrites_AndFollowsAttributes) {
  KernelState kernel;
  kernel.told(attributes(7, 100), kSecond);
  kernel.wrote_to(50);
  EXPECT_EQ(kernel.size(), 100u);
  kernel.wrote_to(300);
  EXPECT_EQ(kernel.size(), 300u);
  kernel.told(attributes(8, 10), kSecond);
  EXPECT_EQ(kernel.size(), 10u);
}

TEST(KernelState, DropsPagesByItself_WhereSizeOrMtimeMoved) {
  KernelState kernel;
  kernel.told(attributes(7, 100, 5), kSecond);
  EXPECT_FALSE(kernel.drops_pages_for(attributes(8, 100, 5)));
  EXPECT_TRUE(kernel.drops_pages_for(attributes(8, 101, 5)));
  EXPECT_TRUE(kernel.drops_pages_for(attributes(8, 100, 6)));
}

TEST(KernelState, Drops_AreCounted) {
  KernelState kernel;
  kernel.told(attributes(7, 100), kSecond);
  kernel.drop_begins();
  kernel.drop_begins();
  EXPECT_FALSE(kernel.knows());
  kernel.drop_ended();
  EXPECT_TRUE(kernel.dropping());
  kernel.drop_ended();
  EXPECT_FALSE(kernel.dropping());
}

// A listing is complete only if it began after the last drop, and the reader that reached its end read the
// version with which it began.
RC_GTEST_PROP(KernelState, ListingIsWhole_WhenTheVersionItBeganWithEnds,
              (std::vector<std::pair<uint8_t, uint8_t>> events)) {
  KernelState kernel;
  bool begun = false, whole = false;
  uint64_t version = 0;
  for (const auto& [what, which] : events) {
    const uint64_t change = which % 2;
    switch (what % 3) {
      case 0:
        kernel.listing_begins(change);
        if (!begun) version = change;
        begun = true;
        whole = whole && version == change;
        break;
      case 1:
        kernel.listing_ends(change);
        whole = begun && version == change;
        break;
      default: kernel.drop_listing(); begun = whole = false;
    }
    RC_ASSERT(kernel.has_listing() == whole);
    RC_ASSERT(kernel.has_listing_of(version) == whole);
    RC_ASSERT(!kernel.has_listing_of(version + 1));
  }
}

}  // namespace
}  // namespace nfsrdma::test

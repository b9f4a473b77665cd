// SPDX-License-Identifier: Apache-2.0
// ExtentMap compared with a plain map of bytes.
#include "client/core/write/write_extents.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

namespace nfsrdma::test {
namespace {

using client::ExtentMap;
using client::WriteExtent;

constexpr uint64_t kSpace = 64;

WriteExtent extent_of(BufferPool& pool, uint64_t offset, size_t size, uint8_t fill) {
  WriteExtent extent;
  extent.offset = offset;
  extent.data = pool.slice(size);
  std::fill(extent.data.bytes.begin(), extent.data.bytes.end(), std::byte{fill});
  return extent;
}

using Model = std::array<uint8_t, kSpace>;  // 0: nothing

Model bytes_of(ExtentMap& map) {
  Model bytes{};
  for (const auto& [offset, extent] : map) {
    EXPECT_EQ(offset, extent.offset);
    EXPECT_NE(extent.data.size(), 0u);
    for (size_t i = 0; i < extent.data.size(); ++i) {
      EXPECT_EQ(bytes[offset + i], 0) << "two extents overlap";
      bytes[offset + i] = std::to_integer<uint8_t>(extent.data.bytes[i]);
    }
  }
  return bytes;
}

uint64_t count(const Model& m, uint64_t offset, uint64_t end) {
  return static_cast<uint64_t>(std::count_if(m.begin() + static_cast<std::ptrdiff_t>(offset),
                                             m.begin() + static_cast<std::ptrdiff_t>(end),
                                             [](uint8_t b) { return b != 0; }));
}

RC_GTEST_PROP(ExtentMap, CutOutAndInsert_AgreeWithBytes, ()) {
  BufferPool pool;
  {
    ExtentMap map;
    Model model{};
    const auto steps = *rc::gen::inRange<unsigned>(1, 40);
    for (unsigned step = 1; step <= steps; ++step) {
      const uint64_t offset = *rc::gen::inRange<uint64_t>(0, kSpace);
      const uint64_t end = *rc::gen::inRange<uint64_t>(offset, kSpace + 1);
      RC_ASSERT(map.overlaps(offset, end) == (count(model, offset, end) != 0));
      RC_ASSERT(map.cut_out(offset, end) == count(model, offset, end));
      std::fill(model.begin() + static_cast<std::ptrdiff_t>(offset),
                model.begin() + static_cast<std::ptrdiff_t>(end), uint8_t{0});
      if (offset < end && *rc::gen::arbitrary<bool>()) {
        const auto fill = static_cast<uint8_t>(step);
        map.insert(extent_of(pool, offset, end - offset, fill));
        std::fill(model.begin() + static_cast<std::ptrdiff_t>(offset),
                  model.begin() + static_cast<std::ptrdiff_t>(end), fill);
      }
      RC_ASSERT(bytes_of(map) == model);
      RC_ASSERT(map.bytes() == count(model, 0, kSpace));
    }
  }
  RC_ASSERT(pool.outstanding_bytes() == 0u);
}

TEST(ExtentMap, Take_MovesTheExtentInPlace) {
  BufferPool pool;
  ExtentMap from, to;
  WriteExtent* there = &from.insert(extent_of(pool, 10, 5, 1))->second;
  const auto entry = to.take(from, from.overlapping(12, 13));
  EXPECT_TRUE(from.empty());
  EXPECT_EQ(&entry->second, there);
  EXPECT_EQ(to.end_offset(), 15u);
  EXPECT_EQ(from.end_offset(), 0u);
}

TEST(ExtentMap, EmptyRange_OverlapsNothing) {
  BufferPool pool;
  ExtentMap map;
  map.insert(extent_of(pool, 0, 10, 1));
  EXPECT_FALSE(map.overlaps(5, 5));
  EXPECT_EQ(map.cut_out(5, 5), 0u);
  EXPECT_FALSE(map.overlaps(10, 20));
}

}  // namespace
}  // namespace nfsrdma::test

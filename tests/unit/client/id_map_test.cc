// SPDX-License-Identifier: Apache-2.0
// Owner strings (RFC 8881 section 5.9).
#include "client/nfs4/id_map.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/support/run_on.h"

namespace nfsrdma::test {
namespace {

using client::IdMapping;
using client::nfs4::IdMap;

// Declare the loop before the IdMap, as in a mount: the IdMap's thread resumes callers on their loop.
uint32_t resolve(LoopThread& loop, IdMap& map, const std::string& name) {
  return run_on(*loop, map.resolve(IdMap::Kind::kUser, name));
}

// "owner and owner_group strings that consist of decimal numeric values with no leading zeros can be given a
// special interpretation".
TEST(IdMap, Numbers_AreThemselvesWithoutAsking) {
  IdMap map(IdMapping::kNumeric);
  for (const uint32_t id : {0u, 1u, 1000u, 65534u, 4294967294u}) {
    EXPECT_EQ(map.known(IdMap::Kind::kUser, std::to_string(id)), id);
    EXPECT_EQ(map.known(IdMap::Kind::kGroup, std::to_string(id)), id);
  }
}

TEST(IdMap, WhatIsNoNumber_IsNobody) {
  LoopThread loop;
  IdMap map(IdMapping::kNumeric);
  for (const char* name : {"", "root", "root@example.net", "12x", "x12", " 12", "12 ", "-1", "+1",
                           "4294967295", "4294967296", "99999999999999999999", "0x10", "1.0"}) {
    EXPECT_EQ(map.known(IdMap::Kind::kUser, name), client::kNobody) << name;
    EXPECT_EQ(resolve(loop, map, name), client::kNobody) << name;
  }
}

TEST(IdMap, NumberWithANul_IsNobody) {
  IdMap map(IdMapping::kNumeric);
  EXPECT_EQ(map.known(IdMap::Kind::kUser, std::string("12\0", 3)), client::kNobody);
}

TEST(IdMap, Numeric_SendsNumbers) {
  LoopThread loop;
  IdMap map(IdMapping::kNumeric);
  EXPECT_EQ(run_on(*loop, map.name_of(IdMap::Kind::kUser, 0)), "0");
  EXPECT_EQ(run_on(*loop, map.name_of(IdMap::Kind::kGroup, 4294967295u)), "4294967295");
}

// With the library, or without it where it is not installed: these names are unknown to both.
TEST(IdMap, NfsidmapAndNobodyKnows_IsNobodyAndANumber) {
  LoopThread loop;
  IdMap map(IdMapping::kNfsidmap);
  EXPECT_EQ(resolve(loop, map, "no-such-user-4711@no.such.domain.invalid"), client::kNobody);
  EXPECT_EQ(resolve(loop, map, "1000"), 1000u);
  EXPECT_EQ(run_on(*loop, map.name_of(IdMap::Kind::kUser, 3999999999u)), "3999999999");
}

TEST(IdMap, AnswerOfTheLibrary_IsKnownAfterwards) {
  LoopThread loop;
  IdMap map(IdMapping::kNfsidmap);
  const std::string name = "no-such-user-4712@no.such.domain.invalid";
  EXPECT_EQ(resolve(loop, map, name), client::kNobody);
  EXPECT_EQ(map.known(IdMap::Kind::kUser, name), client::kNobody);
}

}  // namespace
}  // namespace nfsrdma::test

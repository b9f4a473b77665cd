// SPDX-License-Identifier: Apache-2.0
#include "xdr/support/box.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace nfsrdma {
namespace {

TEST(Box, Absent_ReadsAsADefault) {
  const Box<std::string> box;
  EXPECT_FALSE(box);
  EXPECT_TRUE(box->empty());
}

TEST(Box, Edited_IsPresent) {
  Box<std::string> box;
  box.edit() = "here";
  EXPECT_TRUE(box);
  EXPECT_EQ(*box, "here");
  box.reset();
  EXPECT_FALSE(box);
}

TEST(Box, Copied_IsAValueOfItsOwn) {
  Box<std::string> a;
  a.edit() = "a";
  Box<std::string> b = a;
  b.edit() = "b";
  EXPECT_EQ(*a, "a");
  a = b;
  EXPECT_EQ(*a, "b");
  const Box<std::string>& self = a;
  a = self;
  EXPECT_EQ(*a, "b");
  b = Box<std::string>{};
  EXPECT_FALSE(b);
}

TEST(Box, Moved_LeavesAnAbsentOne) {
  Box<std::string> a;
  a.edit() = "a";
  const Box<std::string> b = std::move(a);
  EXPECT_EQ(*b, "a");
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): Box promises to be absent then
}

TEST(Box, AbsentAndDefault_AreEqual) {
  Box<std::string> a;
  const Box<std::string> b;
  a.edit();
  EXPECT_EQ(a, b);
  a.edit() = "x";
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace nfsrdma

// SPDX-License-Identifier: Apache-2.0
// The kernel's limit on requests: which of its two settings applies.
#include "fuse/request_timeout.h"

#include <gtest/gtest.h>

namespace nfsrdma::fuse::test {
namespace {

TEST(RequestTimeout, OfAKernelWithoutIt_IsNone) {
  EXPECT_EQ(request_timeout("", ""), 0u);
}

TEST(RequestTimeout, Zero_IsNone) {
  EXPECT_EQ(request_timeout("0\n", "0\n"), 0u);
}

// The kernel applies the maximum to a mount that requested no timeout.
TEST(RequestTimeout, EachSettingCounts_TheSmallerWhereThereAreBoth) {
  EXPECT_EQ(request_timeout("600\n", "0\n"), 600u);
  EXPECT_EQ(request_timeout("0\n", "900\n"), 900u);
  EXPECT_EQ(request_timeout("600\n", "300\n"), 300u);
  EXPECT_EQ(request_timeout("300\n", "600\n"), 300u);
}

}  // namespace
}  // namespace nfsrdma::fuse::test

// SPDX-License-Identifier: Apache-2.0
// A mount's limits from the server's (RFC 8881 sections 5.8.2.18, 5.8.2.20, 5.8.2.21).
#include <gtest/gtest.h>

#include "client/core/io_limits.h"

namespace nfsrdma::client {
namespace {

TEST(IoSize, IsTheLeastOfTheThree_InWholePages) {
  EXPECT_EQ(io_size(0, 0, 1u << 30), 1u << 20);
  EXPECT_EQ(io_size(0, 70'000, 1u << 30), 69'632u);
  EXPECT_EQ(io_size(0, 1u << 20, 10'000), 8192u);
  EXPECT_EQ(io_size(5000, 1u << 20, 1u << 30), 5000u) << "as asked";
}

// One request per byte would overload both sides. After a short READ or WRITE the client continues where it
// ended.
TEST(IoSize, OfAServerThatTakesNextToNothing_IsAPage) {
  EXPECT_EQ(io_size(0, 1, 1u << 30), 4096u);
  EXPECT_EQ(io_size(0, 1023, 1u << 30), 4096u);
  EXPECT_EQ(io_size(0, 1024, 1u << 30), 1024u);
}

TEST(FileSizeLimit, IsBelieved_ButNoLessThanAnyFileSystemHas) {
  EXPECT_EQ(file_size_limit(0), uint64_t{INT64_MAX});
  EXPECT_EQ(file_size_limit(UINT64_MAX), uint64_t{INT64_MAX});
  EXPECT_EQ(file_size_limit(1), kLeastFileLimit);
}

}  // namespace
}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// The bounds hold for replies of real servers to calls of real clients.
#include "client/nfs4/session/reply_bounds.h"

#include <gtest/gtest.h>

#include "tests/golden/golden.h"

namespace nfsrdma::client::nfs4 {
namespace {

size_t bound_of(const golden::Call& call) {
  size_t bytes = kReplyHeadBytes;
  for (const nfs4::nfs_argop4& op : call.body.argarray)
    std::visit([&](const auto& args) { bytes += max_result_bytes(args); }, op.op);
  return bytes;
}

TEST(ReplyBounds, CapturedReplies_AreNotLonger) {
  size_t compared = 0;
  for (const golden::Message& m : golden::messages()) {
    if (m.kind != golden::Kind::kCall || m.name.find("secinfo") != std::string::npos) continue;
    const std::string stem = m.name.substr(0, m.name.size() - std::string("_call").size());
    for (const golden::Message& reply : golden::messages()) {
      if (reply.name != stem + "_reply") continue;
      golden::Call call;
      ASSERT_TRUE(golden::decode(m.bytes, call));
      EXPECT_LE(reply.bytes.size(), bound_of(call)) << stem;
      ++compared;
    }
  }
  EXPECT_GE(compared, 19U);
}

TEST(ReplyBounds, EveryAttribute_IsPartOfTheSum) {
  nfs4::bitmap4 few = nfs4::bitmap4::of({nfs4::FATTR4_TYPE});
  nfs4::bitmap4 more = few;
  more.set(nfs4::FATTR4_OWNER);
  EXPECT_GT(reply_bounds::attributes(more), reply_bounds::attributes(few) + 256);
  more.set(nfs4::FATTR4_ACL);
  EXPECT_GT(reply_bounds::attributes(more), size_t{64} << 10);
}

TEST(ReplyBounds, Listing_IsAsLongAsItIsAsked) {
  nfs4::READDIR4args args;
  args.maxcount = 65536;
  EXPECT_EQ(max_result_bytes(args), 65536U + 8);
}

}  // namespace
}  // namespace nfsrdma::client::nfs4

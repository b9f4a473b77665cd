// SPDX-License-Identifier: Apache-2.0
// Credentials and RPC messages, byte by byte.
#include "transport/rpc/call_message.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/support/rpc_bytes.h"

namespace nfsrdma::test {
namespace {

ByteVector bytes_of(ConstBytes b) {
  return {b.begin(), b.end()};
}

// RFC 5531 appendix A: struct authsys_parms { stamp, machinename<255>, uid, gid, gids<16> }.
TEST(Credential, AuthSys_EncodedAsTheRfcSays) {
  const rpc::Credential c("host5", 1000, 100, {4, 24});
  EXPECT_EQ(bytes_of(c.encoded()),
            concat({words({1, 4 + 4 + 8 + 4 + 4 + 4 + 8, 0, 5}), as_const_bytes("host5"), ByteVector(3),
                    words({1000, 100, 2, 4, 24})}));
  EXPECT_EQ(c.uid(), 1000u);
  EXPECT_EQ(c.gid(), 100u);
}

TEST(Credential, MoreThanSixteenGroups_FirstSixteenAreSent) {
  std::vector<uint32_t> groups(40);
  for (uint32_t i = 0; i < groups.size(); ++i) groups[i] = i;
  const rpc::Credential c("h", 1, 2, groups);
  ASSERT_EQ(c.groups().size(), 16u);
  EXPECT_EQ(c.groups().back(), 15u);
  EXPECT_EQ(word_at(c.encoded(), c.encoded().size() - 17 * 4), 16u);
}

TEST(Credential, LongestMachineNameAndGroups_WithinTheLimitOfOpaqueAuth) {
  const rpc::Credential c(std::string(1000, 'x'), 1, 2, std::vector<uint32_t>(16, 7));
  EXPECT_EQ(word_at(c.encoded(), 12), 255u);
  EXPECT_LE(word_at(c.encoded(), 4), 400u);
  EXPECT_EQ(c.encoded().size() % 4, 0u);
}

TEST(CallMessage, Call_HeaderThenArgumentsAtTheirPositions) {
  const rpc::Credential credential("h", 5, 6, {});
  ByteVector head;
  std::vector<xdr::Bulk> bulks;
  xdr::Encoder x(head, &bulks);
  ASSERT_TRUE(rpc::begin_call(x, 100003, 4, 1, credential));
  const ByteVector data = pattern(10, 1);
  ASSERT_TRUE(x.bulk(data, 100));
  EXPECT_EQ(head, concat({words({0, 0, 2, 100003, 4, 1}), credential.encoded(), words({0, 0}), words({10})}));
  ASSERT_EQ(bulks.size(), 1u);
  EXPECT_EQ(bulks[0].position, head.size());
}

TEST(CallMessage, NullCall_WithoutCredential) {
  ByteVector head;
  xdr::Encoder x(head);
  ASSERT_TRUE(rpc::begin_call(x, 100003, 4, 0));
  EXPECT_EQ(head, words({0, 0, 2, 100003, 4, 0, 0, 0, 0, 0}));
}

TEST(CallMessage, NotAtPositionZero_Fails) {
  ByteVector head;
  xdr::Encoder x(head);
  x(uint32_t{1});
  EXPECT_FALSE(rpc::begin_call(x, 100003, 4, 0));
  EXPECT_FALSE(x.ok());
}

// RFC 5531 section 9: union reply_body.
TEST(CallMessage, Replies_EveryArm) {
  ByteVector success;
  xdr::Encoder x(success);
  EXPECT_TRUE(rpc::begin_reply(x, 9));
  EXPECT_TRUE(x(uint32_t{77}));
  EXPECT_EQ(success, words({9, 1, 0, 0, 0, 0, 77}));
  EXPECT_EQ(rpc::reply_prog_unavail(9), words({9, 1, 0, 0, 0, 1}));
  EXPECT_EQ(rpc::reply_prog_mismatch(9, 1, 4), words({9, 1, 0, 0, 0, 2, 1, 4}));
  EXPECT_EQ(rpc::reply_proc_unavail(9), words({9, 1, 0, 0, 0, 3}));
  EXPECT_EQ(rpc::reply_garbage_args(9), words({9, 1, 0, 0, 0, 4}));
  EXPECT_EQ(rpc::reply_system_err(9), words({9, 1, 0, 0, 0, 5}));
  EXPECT_EQ(rpc::reply_rpc_mismatch(9), words({9, 1, 1, 0, 2, 2}));
}

}  // namespace
}  // namespace nfsrdma::test

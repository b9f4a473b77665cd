// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/support/kept_contexts.h"

#include <gtest/gtest.h>

#include "tests/golden/hex.h"
#include "tests/unit/security/messages.h"

namespace nfsrdma::gss {
namespace {

class KeptContexts : public testing::Test {
 protected:
  void SetUp() override {
    auto kept = test::kept_contexts();
    if (!kept) GTEST_SKIP() << "this version of libgssapi-krb5 exports contexts in another form";
    ends_.emplace(*std::move(kept));
  }
  std::optional<test::KeptContexts> ends_;
};

TEST_F(KeptContexts, WorkWithoutAKdc) {
  const ByteVector message = pattern(500);
  const ConstBytes pieces[] = {message};
  EXPECT_TRUE(ends_->acceptor.verify(pieces, *ends_->initiator.sign(pieces)));
  EXPECT_TRUE(ends_->initiator.verify(pieces, *ends_->acceptor.sign(pieces)));
  ByteVector token = wrapped(ends_->acceptor, pieces);
  const auto plain = ends_->initiator.unwrap(token);
  ASSERT_TRUE(plain);
  EXPECT_TRUE(std::ranges::equal(*plain, message));
  EXPECT_EQ(ends_->acceptor.initiator()->text(), "alice@NFSRDMA.TEST");
  EXPECT_GT(ends_->acceptor.lifetime(), std::chrono::hours(24));
}

// RFC 4121 section 4.2.6.1: TOK_ID 04 04, flags (acceptor's subkey), five bytes of FF, SND_SEQ, SGN_CKSUM.
TEST_F(KeptContexts, SignInTheFormOfTheRfc) {
  const ConstBytes pieces[] = {as_const_bytes("seq_num")};
  const auto mic = ends_->initiator.sign(pieces);
  ASSERT_TRUE(mic);
  EXPECT_EQ(mic->size(), 28u);
  EXPECT_EQ(ByteVector(mic->begin(), mic->begin() + 8), golden::from_hex("040404ff ffffffff"));
  const auto other = ends_->acceptor.sign(pieces);
  ASSERT_TRUE(other);
  EXPECT_EQ(ByteVector(other->begin(), other->begin() + 8), golden::from_hex("040405ff ffffffff"));
}

// Section 4.2.6.2: TOK_ID 05 04, flags (sealed, acceptor's subkey), FF, EC, RRC, SND_SEQ; then 16 bytes of
// confounder, the data, the encrypted header and 12 bytes of HMAC.
TEST_F(KeptContexts, WrapInTheFormOfTheRfc) {
  const ByteVector message = pattern(100);
  const ConstBytes pieces[] = {message};
  const ByteVector token = wrapped(ends_->initiator, pieces);
  EXPECT_EQ(token.size(), 16u + 16 + 100 + 16 + 12);
  EXPECT_EQ(ByteVector(token.begin(), token.begin() + 8), golden::from_hex("050406ff 00000000"));
}

}  // namespace
}  // namespace nfsrdma::gss

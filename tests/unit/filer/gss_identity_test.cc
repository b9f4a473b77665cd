// SPDX-License-Identifier: Apache-2.0
// Who a context's user is on this host, from its first call to its last, and when that is.
#include "filer/security/identity.h"

#include "tests/unit/filer/gss_fixture.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::filer::test {
namespace {

using security::Account;
using security::Identities;
using security::Verdict;
using std::chrono::minutes;

class GssIdentityTest : public GssTest {
 protected:
  void SetUp() override {
    GssTest::SetUp();
    if (IsSkipped()) return;
    open_contexts({}, [this](const std::string&) -> Result<std::optional<Account>> {
      ++lookups;
      if (fails) return fail(Error{.recovery = Recovery::kRetry, .errnum = EIO, .op = "look up"});
      return Account{1001, 1001, {group}};
    });
  }
  // Whom the server takes the peer for.
  tree::Principal taken_for(GssPeer& peer, Duration later = {}) {
    const Verdict verdict = judge(peer.encode(peer.data()), later);
    EXPECT_EQ(verdict.kind, Verdict::Kind::kExecute);
    return verdict.call ? verdict.call->who() : tree::Principal{};
  }

  bool fails = false;
  uint32_t group = 7;
  int lookups = 0;
};

TEST_F(GssIdentityTest, WhileTheNameServiceFails_NobodyIsTakenForNobody) {
  fails = true;
  const std::string ccache = alice();
  for (int i = 0; i < 2; ++i) {
    const ByteVector reply = answered(peer_of(ccache).init_call());
    const auto res = init_results(reply);
    ASSERT_TRUE(res);
    EXPECT_GT(res->gss_major, rpc::kGssContinueNeeded);
  }
  EXPECT_EQ(lookups, 2) << "the failure is not kept";
  EXPECT_EQ(contexts().size(), 0u);
  fails = false;
  GssPeer peer = peer_of(ccache);
  ASSERT_TRUE(peer.establish(by_judge()));
  EXPECT_EQ(taken_for(peer).uid, 1001u);
}

TEST_F(GssIdentityTest, NewGroups_CountAfterFiveMinutes) {
  GssPeer peer = peer_of(alice());
  ASSERT_TRUE(peer.establish(by_judge()));
  group = 8;
  EXPECT_TRUE(taken_for(peer, minutes(4)).in_group(7));
  EXPECT_EQ(lookups, 1);
  EXPECT_TRUE(taken_for(peer, minutes(6)).in_group(8));
  EXPECT_TRUE(taken_for(peer, minutes(7)).in_group(8));
  EXPECT_EQ(lookups, 2);
}

TEST_F(GssIdentityTest, WhenTheNameServiceFailsLater_TheUserStaysAndIsLookedUpSoon) {
  GssPeer peer = peer_of(alice());
  ASSERT_TRUE(peer.establish(by_judge()));
  group = 8;
  fails = true;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(taken_for(peer, minutes(6)).in_group(7));
  EXPECT_EQ(lookups, 2) << "not for each call";
  fails = false;
  EXPECT_TRUE(taken_for(peer, minutes(8)).in_group(8));
}

// A suspended machine: the ticket ends by the wall clock, and the server's clock has stood still.
TEST_F(GssIdentityTest, TicketThatEndsWhileTheClockStands_EndsTheContext) {
  kdc().set_clock_skew(std::chrono::seconds(1));
  std::optional<GssPeer> peer;
  ASSERT_TRUE(with_a_short_ticket([&](const std::string& ccache) {
    peer.emplace(peer_of(ccache));
    return peer->establish([this](ByteVector call) { return judge(std::move(call), minutes(60)).reply; });
  }));
  EXPECT_TRUE(
      nfsrdma::test::eventually([&] { return peer->context->lifetime() == std::chrono::seconds(0); }));
  const auto allowed = Clock::now() + std::chrono::seconds(2);  // what the server allows for the clocks
  EXPECT_TRUE(nfsrdma::test::eventually([&] { return Clock::now() > allowed; }));
  EXPECT_EQ(judge(peer->encode(peer->data()), minutes(50)).why, rpc::RPCSEC_GSS_CTXPROBLEM);
  kdc().set_clock_skew(std::chrono::seconds(300));
}

TEST(Accounts, OfThisHost_AreFoundOrNot) {
  const auto root = security::account_of("root");
  ASSERT_TRUE(root && *root);
  EXPECT_EQ((*root)->uid, 0u);
  const auto nobody = security::account_of("there-is-no-such-user");
  ASSERT_TRUE(nobody) << describe(nobody.error());
  EXPECT_FALSE(*nobody);
}

}  // namespace
}  // namespace nfsrdma::filer::test

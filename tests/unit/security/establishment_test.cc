// SPDX-License-Identifier: Apache-2.0
// Establishing a context with a real KDC: who may, who may not, and what each failure is called.
#include "transport/security/gss/establishment.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>

#include "tests/unit/security/realm.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::gss {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class Establishment : public Realm {};

TEST_F(Establishment, OfAUserAndAService_NamesBothAtBothEnds) {
  const Ends ends = establish(alice());
  EXPECT_EQ(ends.initiator.initiator()->text(), "alice@NFSRDMA.TEST");
  EXPECT_EQ(ends.acceptor.initiator()->text(), "alice@NFSRDMA.TEST");
  EXPECT_EQ(ends.acceptor.acceptor()->text(), "nfs/localhost@NFSRDMA.TEST");
  // The client leaves the realm to the KDC.
  EXPECT_TRUE(ends.initiator.acceptor()->text().starts_with("nfs/localhost@"));
}

TEST_F(Establishment, OfAContext_LastsAsLongAsTheTicket) {
  const Ends ends = establish(kdc().kinit("alice", {.lifetime = "2h"}));
  for (const Context* end : {&ends.initiator, &ends.acceptor}) {
    ASSERT_TRUE(end->lifetime());
    EXPECT_GT(*end->lifetime(), hours(1));
    EXPECT_LE(*end->lifetime(), hours(2) + seconds(300));  // the acceptor allows for the clocks
  }
}

// One exchange: the server's token completes the client, as rpc_gss_init_res with GSS_S_COMPLETE wants it.
TEST_F(Establishment, WithMutualAuthentication_TakesOneTokenEachWay) {
  Initiator initiator(user(alice()), server());
  Acceptor acceptor(service());
  const Step asked = initiator.step({});
  EXPECT_FALSE(asked.done);
  EXPECT_EQ(asked.major, 1u);  // GSS_S_CONTINUE_NEEDED
  const Step answered = acceptor.step(asked.token);
  EXPECT_TRUE(answered.done);
  EXPECT_EQ(answered.major, 0u);
  EXPECT_FALSE(answered.token.empty());
  EXPECT_FALSE(initiator.done());
  const Step last = initiator.step(answered.token);
  EXPECT_TRUE(last.done);
  EXPECT_TRUE(last.token.empty());
}

TEST_F(Establishment, OfTwoUsers_GivesContextsThatDoNotVerifyEachOther) {
  const Ends first = establish(alice());
  const Ends second = establish(kdc().kinit("bob"));
  EXPECT_EQ(second.acceptor.initiator()->text(), "bob@NFSRDMA.TEST");
  const ByteVector message(64);
  const ConstBytes pieces[] = {message};
  const auto mic = first.initiator.sign(pieces);
  ASSERT_TRUE(mic);
  EXPECT_TRUE(first.acceptor.verify(pieces, *mic));
  EXPECT_FALSE(second.acceptor.verify(pieces, *mic));
}

TEST_F(Establishment, WithAServiceThatTheKdcDoesNotKnow_SaysSo) {
  Initiator initiator(user(alice()), server("nfs", "elsewhere.test"));
  const Step step = initiator.step({});
  EXPECT_EQ(failure_in(step), "unknown server");
  EXPECT_EQ(step.error->errnum, EACCES);
  EXPECT_EQ(step.error->recovery, Recovery::kPermanent);
  EXPECT_NE(describe(*step.error).find("nfs@elsewhere.test"), std::string::npos) << describe(*step.error);
  EXPECT_TRUE(step.token.empty());
  EXPECT_NE(step.major, 0u);
}

TEST_F(Establishment, WithoutAKdc_MaySucceedLater) {
  const auto credential = user(alice());
  kdc().stop();
  Initiator initiator(credential, server());
  const Step step = initiator.step({});
  EXPECT_EQ(failure_in(step), "KDC unreachable");
  EXPECT_EQ(step.error->errnum, EHOSTUNREACH);
  EXPECT_EQ(step.error->recovery, Recovery::kRetry);
  kdc().start();
  Initiator again(credential, server());
  EXPECT_EQ(failure_in(again.step({})), "none");
}

TEST_F(Establishment, WithASilentKdc_EndsAsWithout) {
  const auto credential = user(alice());
  kdc().fall_silent();
  Initiator initiator(credential, server());
  const Step step = initiator.step({});
  kdc().speak_again();
  EXPECT_EQ(failure_in(step), "KDC unreachable");
}

TEST_F(Establishment, WithATicketInTheCache_NeedsNoKdc) {
  const std::string ccache = alice();
  (void)first_token(ccache);
  kdc().stop();
  const Ends ends = establish(ccache);
  EXPECT_EQ(ends.acceptor.initiator()->text(), "alice@NFSRDMA.TEST");
  kdc().start();
}

TEST_F(Establishment, WithATicketThatExpiresAtTheClient_SaysSo) {
  const std::string ccache = alice();
  const auto credential = user(ccache);
  test::Kdc::shift_clock(ccache, hours(11));
  Initiator initiator(credential, server());
  const Step step = initiator.step({});
  EXPECT_EQ(failure_in(step), "ticket expired");
  EXPECT_EQ(step.error->errnum, EKEYEXPIRED);
  EXPECT_NE(describe(*step.error).find("kinit"), std::string::npos) << describe(*step.error);
}

TEST_F(Establishment, WithATicketThatExpiresOnItsWay_IsRefusedByTheServer) {
  kdc().set_clock_skew(seconds(1));
  ByteVector token;
  ASSERT_TRUE(with_a_short_ticket([&](const std::string& ccache) {
    token = first_token(ccache);
    return true;
  }));
  const auto credential = service();
  std::string failure;
  EXPECT_TRUE(test::eventually([&] {
    Acceptor acceptor(credential);
    failure = failure_in(acceptor.step(token));
    return failure == "ticket expired";
  })) << failure;
  kdc().set_clock_skew(seconds(300));
}

TEST_F(Establishment, WithAPostdatedTicket_SaysThatItIsNotYetValid) {
  const std::string ccache = kdc().kinit("alice", {.lifetime = "10h", .starts_in = "1h"});
  const auto credential = Credential::from_ccache(ccache);
  if (!credential) {
    EXPECT_EQ(failure_in(credential), "ticket not yet valid") << describe(credential.error());
    return;
  }
  Initiator initiator(user(ccache), server());
  const Step step = initiator.step({});
  EXPECT_EQ(failure_in(step), "ticket not yet valid");
}

TEST_F(Establishment, WithAClockThatIsAhead_IsRefusedByTheServer) {
  const std::string ccache = alice();
  (void)first_token(ccache);  // the service's ticket, by the right clock
  test::Kdc::shift_clock(ccache, hours(1));
  Acceptor acceptor(service());
  const Step step = acceptor.step(first_token(ccache));
  ASSERT_EQ(failure_in(step), "clock skew");
  EXPECT_EQ(step.error->errnum, EACCES);
  EXPECT_NE(describe(*step.error).find("synchronize"), std::string::npos) << describe(*step.error);
}

TEST_F(Establishment, WithAClockThatIsLate_IsRefusedByTheKdc) {
  const std::string ccache = alice();
  const auto credential = user(ccache);
  test::Kdc::shift_clock(ccache, -hours(1));
  Initiator initiator(credential, server());
  EXPECT_EQ(failure_in(initiator.step({})), "clock skew");
}

// The ticket, which is in the cache already, begins in what this client takes for the future.
TEST_F(Establishment, WithAClockThatIsLateAndATicket_IsRefusedByTheClient) {
  const std::string ccache = alice();
  const auto credential = user(ccache);
  (void)first_token(ccache);
  test::Kdc::shift_clock(ccache, -hours(1));
  Initiator initiator(credential, server());
  const Step step = initiator.step({});
  ASSERT_EQ(failure_in(step), "ticket not yet valid");
  EXPECT_NE(describe(*step.error).find("clock"), std::string::npos) << describe(*step.error);
}

TEST_F(Establishment, WithinTheClocksAllowance_Succeeds) {
  const std::string ccache = alice();
  (void)first_token(ccache);
  test::Kdc::shift_clock(ccache, seconds(200));
  Acceptor acceptor(service());
  EXPECT_EQ(failure_in(acceptor.step(first_token(ccache))), "none");
}

TEST_F(Establishment, AfterTheServicesKeyChanged_NeedsTheNewKeytab) {
  const std::string old = kdc().keytab({"nfs/changing"});
  kdc().change_key("nfs/changing");
  Initiator initiator(user(alice()), server("nfs", "changing"));
  const Step asked = initiator.step({});
  ASSERT_EQ(failure_in(asked), "none");
  Acceptor with_old(service({.keytab = old}));
  const Step refused = with_old.step(asked.token);
  EXPECT_EQ(failure_in(refused), "no keytab entry") << describe(*refused.error);
  Acceptor with_new(service({.keytab = kdc().keytab({"nfs/changing"})}));
  EXPECT_EQ(failure_in(with_new.step(asked.token)), "none");
}

// The keytab has the name and the version, and another key: a realm that was made anew.
TEST_F(Establishment, WithAnotherKeyOfTheSameVersion_SaysThatTheKeyChanged) {
  const std::string old = kdc().keytab({"nfs/reborn"});
  kdc().remove("nfs/reborn");
  (void)kdc().keytab({"nfs/reborn"});
  Initiator initiator(user(alice()), server("nfs", "reborn"));
  const Step asked = initiator.step({});
  ASSERT_EQ(failure_in(asked), "none");
  Acceptor acceptor(service({.keytab = old}));
  const Step step = acceptor.step(asked.token);
  EXPECT_EQ(failure_in(step), "key changed") << describe(*step.error);
}

TEST_F(Establishment, WithATicketForAnotherService_IsRefused) {
  const std::string both = kdc().keytab({"nfs/localhost", "host/localhost"});
  Initiator initiator(user(alice()), server("host"));
  const Step asked = initiator.step({});
  ASSERT_EQ(failure_in(asked), "none");
  Acceptor nfs(service({.keytab = both}));
  EXPECT_EQ(failure_in(nfs.step(asked.token)), "no keytab entry");
  Acceptor any(service({.keytab = both, .service = ""}));
  EXPECT_EQ(failure_in(any.step(asked.token)), "none");
}

TEST_F(Establishment, OfAMachineByItsKeytab_NeedsNoUser) {
  const std::string machine = kdc().keytab({"host/client.test"});
  const auto name = Name::principal("host/client.test");
  ASSERT_TRUE(name);
  auto credential = Credential::from_keytab(machine, *name, "MEMORY:by-its-keytab");
  ASSERT_TRUE(credential) << describe(credential.error());
  const Ends ends = establish(Initiator(std::make_shared<const Credential>(*std::move(credential)), server()),
                              Acceptor(service()));
  EXPECT_EQ(ends.acceptor.initiator()->text(), "host/client.test@NFSRDMA.TEST");
}

TEST_F(Establishment, AfterItsEnd_TakesNoFurtherToken) {
  const ByteVector token = first_token(alice());
  Acceptor acceptor(service());
  ASSERT_TRUE(acceptor.step(token).done);
  EXPECT_EQ(failure_in(acceptor.step(token)), "bad token");
  Acceptor failed(service());
  ASSERT_NE(failure_in(failed.step(ByteVector(20))), "none");
  EXPECT_EQ(failure_in(failed.step(token)), "bad token");
}

}  // namespace
}  // namespace nfsrdma::gss

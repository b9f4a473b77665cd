// SPDX-License-Identifier: Apache-2.0
// Credentials and names with a real KDC: where tickets and keys are found, and what is said where they are
// not.
#include "transport/security/gss/credential.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "tests/unit/security/realm.h"
#include "tests/unit/support/library_leak.h"

namespace nfsrdma::gss {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class Credentials : public Realm {
 protected:
  static std::string file(const std::string& name) { return (kdc().directory() / name).string(); }
};

TEST_F(Credentials, OfACache_NameTheUserAndTheTicketsTime) {
  const auto credential = Credential::from_ccache(kdc().kinit("alice", {.lifetime = "2h"}));
  ASSERT_TRUE(credential) << describe(credential.error());
  EXPECT_EQ(credential->use(), Credential::Use::kInitiate);
  EXPECT_EQ(credential->name()->text(), "alice@NFSRDMA.TEST");
  const auto lifetime = credential->lifetime();
  ASSERT_TRUE(lifetime && *lifetime);
  EXPECT_GT(**lifetime, hours(1));
  EXPECT_LE(**lifetime, hours(2));
}

// The tests' own KDC: whoever took its port while it was down is not taken for it.
TEST_F(Credentials, OfAKdcWhosePortIsTaken_ComeFromAnotherPort) {
  kdc().stop();
  const uint16_t before = kdc().port();
  const Fd foreign(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(foreign.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(before);
  ASSERT_EQ(::bind(foreign.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(foreign.get(), 8), 0);
  kdc().start();
  EXPECT_NE(kdc().port(), before);
  EXPECT_TRUE(Credential::from_ccache(alice()));
}

TEST_F(Credentials, OfTheDefaultCache_FollowTheEnvironment) {
  EXPECT_EQ(failure_in(Credential::from_ccache("")), "no ticket");
  const std::string ccache = kdc().kinit("bob");
  const std::string before = std::getenv("KRB5CCNAME");
  ::setenv("KRB5CCNAME", ccache.c_str(), 1);
  const auto credential = Credential::from_ccache("");
  ::setenv("KRB5CCNAME", before.c_str(), 1);
  ASSERT_TRUE(credential) << describe(credential.error());
  EXPECT_EQ(credential->name()->text(), "bob@NFSRDMA.TEST");
}

TEST_F(Credentials, WithoutACache_SayWhichAndWhatToDo) {
  const auto credential = Credential::from_ccache("FILE:" + file("absent"));
  EXPECT_EQ(failure_in(credential), "no ticket");
  EXPECT_EQ(credential.error().errnum, EACCES);
  const std::string text = describe(credential.error());
  EXPECT_NE(text.find(file("absent")), std::string::npos) << text;
  EXPECT_NE(text.find("run kinit"), std::string::npos) << text;
}

TEST_F(Credentials, OfAFileThatIsNoCache_AreNoTicket) {
  std::ofstream(file("noise")) << "neither a cache nor a keytab";
  std::ofstream(file("empty")).flush();
  EXPECT_EQ(failure_in(Credential::from_ccache("FILE:" + file("noise"))), "no ticket");
  EXPECT_EQ(failure_in(Credential::from_ccache("FILE:" + file("empty"))), "no ticket");
  EXPECT_EQ(failure_in(Credential::from_ccache("FILE:" + kdc().directory().string())), "no ticket");
  EXPECT_EQ(failure_in(Credential::from_ccache("NOSUCHTYPE:x")), "no ticket");
}

TEST_F(Credentials, OfAnExpiredTicket_SaySo) {
  const std::string ccache = alice();
  test::Kdc::shift_clock(ccache, hours(11));
  const auto credential = Credential::from_ccache(ccache);
  EXPECT_EQ(failure_in(credential), "ticket expired");
  EXPECT_EQ(credential.error().errnum, EKEYEXPIRED);
  EXPECT_NE(describe(credential.error()).find("run kinit"), std::string::npos);
}

TEST_F(Credentials, AfterAnotherKinit_AreGoodAgain) {
  const std::string ccache = alice();
  test::Kdc::shift_clock(ccache, hours(11));
  ASSERT_FALSE(Credential::from_ccache(ccache));
  std::filesystem::rename(alice().substr(5), ccache.substr(5));
  EXPECT_TRUE(Credential::from_ccache(ccache));
}

TEST_F(Credentials, OfAKeytab_GetTicketsByThemselves) {
  const auto name = Name::principal("nfs/machine.test");
  ASSERT_TRUE(name);
  const std::string keys = kdc().keytab({"nfs/machine.test"});
  const auto credential = Credential::from_keytab(keys, *name, "MEMORY:by-keytab");
  ASSERT_TRUE(credential) << describe(credential.error());
  EXPECT_EQ(credential->name()->text(), "nfs/machine.test@NFSRDMA.TEST");
  EXPECT_GT(**credential->lifetime(), minutes(1));
}

TEST_F(Credentials, OfAKeytabWithoutTheName_SaySo) {
  const test::LibraryLeak of_krb5;
  const auto name = Name::principal("nfs/other.test");
  ASSERT_TRUE(name);
  const auto credential = Credential::from_keytab(keytab(), *name, "MEMORY:other");
  EXPECT_EQ(failure_in(credential), "no keytab entry") << describe(credential.error());
  EXPECT_NE(describe(credential.error()).find("nfs/other.test"), std::string::npos);
}

TEST_F(Credentials, OfAKeytabThatIsNotThere_SaySo) {
  const test::LibraryLeak of_krb5;
  const auto name = Name::principal("nfs/other.test");
  ASSERT_TRUE(name);
  const auto credential = Credential::from_keytab("FILE:" + file("absent"), *name, "MEMORY:absent");
  EXPECT_EQ(failure_in(credential), "no keytab");
  EXPECT_NE(describe(credential.error()).find(file("absent")), std::string::npos);
}

TEST_F(Credentials, OfAMachineThatTheKdcForgot_SaySo) {
  const std::string keys = kdc().keytab({"host/gone.test"});
  kdc().remove("host/gone.test");
  const auto name = Name::principal("host/gone.test");
  ASSERT_TRUE(name);
  const auto credential = Credential::from_keytab(keys, *name, "MEMORY:gone");
  EXPECT_EQ(failure_in(credential), "unknown client");
  EXPECT_NE(describe(credential.error()).find("host/gone.test"), std::string::npos);
}

TEST_F(Credentials, OfAMachineWithoutAKdc_MayWorkLater) {
  const std::string keys = kdc().keytab({"host/late.test"});
  const auto name = Name::principal("host/late.test");
  ASSERT_TRUE(name);
  kdc().stop();
  const auto credential = Credential::from_keytab(keys, *name, "MEMORY:late");
  kdc().start();
  EXPECT_EQ(failure_in(credential), "KDC unreachable");
  EXPECT_EQ(credential.error().recovery, Recovery::kRetry);
}

TEST_F(Credentials, OfAServer_HaveNoEnd) {
  const auto credential = Credential::accepting({.keytab = keytab()});
  ASSERT_TRUE(credential) << describe(credential.error());
  EXPECT_EQ(credential->use(), Credential::Use::kAccept);
  EXPECT_EQ(*credential->lifetime(), std::nullopt);
}

TEST_F(Credentials, OfAServerWithoutAKeytab_SayWhichAndWhatToDo) {
  const test::LibraryLeak of_krb5;
  const auto absent = Credential::accepting({.keytab = "FILE:" + file("absent")});
  ASSERT_EQ(failure_in(absent), "no keytab");
  EXPECT_NE(describe(absent.error()).find(file("absent")), std::string::npos) << describe(absent.error());
  std::ofstream(file("noise-keytab")) << "neither a cache nor a keytab";
  EXPECT_EQ(failure_in(Credential::accepting({.keytab = "FILE:" + file("noise-keytab")})), "no keytab");
}

TEST_F(Credentials, OfAServerWhoseKeytabHasOtherServices_SaySo) {
  const test::LibraryLeak of_krb5;
  const auto credential = Credential::accepting({.keytab = kdc().keytab({"host/localhost"})});
  EXPECT_EQ(failure_in(credential), "no keytab entry") << describe(credential.error());
  EXPECT_NE(describe(credential.error()).find("ktadd"), std::string::npos);
}

// FIPS, smart cards and hosts of several names: any nfs/ key of the keytab is good.
TEST_F(Credentials, OfAServerWithSeveralNames_TakeEach) {
  const auto credential = service({.keytab = kdc().keytab({"nfs/one.test", "nfs/two.test"})});
  for (const char* host : {"one.test", "two.test"}) {
    const Ends ends = establish(Initiator(user(alice()), server("nfs", host)), Acceptor(credential));
    EXPECT_EQ(ends.acceptor.acceptor()->text(), std::string("nfs/") + host + "@NFSRDMA.TEST");
  }
}

TEST_F(Credentials, OfAServer_SeeANewKeytabAtOnce) {
  const std::string keys = kdc().keytab({"nfs/rotating.test"});
  const auto credential = service({.keytab = keys});
  (void)establish(Initiator(user(alice()), server("nfs", "rotating.test")), Acceptor(credential));
  kdc().change_key("nfs/rotating.test");
  std::filesystem::rename(kdc().keytab({"nfs/rotating.test"}).substr(5), keys.substr(5));
  (void)establish(Initiator(user(alice()), server("nfs", "rotating.test")), Acceptor(credential));
}

class Names : public Realm {};

TEST_F(Names, OfPrincipals_GetTheDefaultRealm) {
  EXPECT_EQ(Name::principal("alice")->text(), "alice@NFSRDMA.TEST");
  EXPECT_EQ(Name::principal("nfs/h.test@OTHER.TEST")->text(), "nfs/h.test@OTHER.TEST");
  EXPECT_EQ(Name::service("nfs", "h.test")->text(), "nfs@h.test");
}

TEST_F(Names, ThatAreNoPrincipals_AreErrors) {
  for (const char* text : {"a@b@c", "a\\", "@", ""}) {
    const auto name = Name::principal(text);
    if (name) {
      EXPECT_NE(name->text().find('@'), std::string::npos) << text;
    }
  }
  EXPECT_FALSE(Name::principal("a@b@c"));
}

TEST_F(Names, OfTheDefaultRealm_AreLocalUsers) {
  EXPECT_EQ(*Name::principal("alice")->local_user(), "alice");
  const auto foreign = Name::principal("alice@OTHER.TEST");
  ASSERT_TRUE(foreign);
  const auto user = foreign->local_user();
  EXPECT_EQ(failure_in(user), "no local user");
  EXPECT_EQ(user.error().errnum, EACCES);
  EXPECT_FALSE(Name::principal("nfs/localhost")->local_user()) << "two components";
}

TEST_F(Names, FollowTheRulesOfKrb5Conf) {
  kdc().set_realm_lines(
      "  auth_to_local = RULE:[2:$1;$2](^host;.*$)s/^.*$/root/\n"
      "  auth_to_local = RULE:[1:$1@$0](^.*@OTHER.TEST$)s/@.*$//\n"
      "  auth_to_local = DEFAULT\n");
  EXPECT_EQ(*Name::principal("host/client.test")->local_user(), "root");
  EXPECT_EQ(*Name::principal("carol@OTHER.TEST")->local_user(), "carol");
  EXPECT_EQ(*Name::principal("alice")->local_user(), "alice");
  EXPECT_FALSE(Name::principal("nfs/client.test")->local_user());
  kdc().set_realm_lines("");
}

}  // namespace
}  // namespace nfsrdma::gss

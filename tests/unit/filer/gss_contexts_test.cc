// SPDX-License-Identifier: Apache-2.0
// Control calls of RPCSEC_GSS at the server: INIT, CONTINUE_INIT, DESTROY (RFC 2203 sections 5.2, 5.4).
#include "filer/security/gss_contexts.h"

#include "tests/unit/filer/gss_fixture.h"

namespace nfsrdma::filer::test {
namespace {

using security::ContextTable;
using security::GssContexts;
using security::Verdict;

class GssContextsTest : public GssTest {};

TEST_F(GssContextsTest, Init_MakesAContextAndProvesTheServer) {
  GssPeer peer = peer_of(alice());
  ASSERT_TRUE(peer.establish(by_judge()));
  EXPECT_EQ(peer.handle.size(), ContextTable::kHandleBytes);
  EXPECT_EQ(peer.seq_window, security::kSequenceWindow);
  EXPECT_EQ(contexts().size(), 1u);
  const Verdict verdict = judge(peer.encode(peer.data()));
  ASSERT_EQ(verdict.kind, Verdict::Kind::kExecute);
  EXPECT_EQ(verdict.call->who().name, "alice@NFSRDMA.TEST");
}

// "if gss_major is not one of GSS_S_COMPLETE or GSS_S_CONTINUE_NEEDED, the context setup has failed; in this
// case handle and gss_token must be set to NULL by the server." "For all other values of gss_major, a NULL
// verifier ... is used."
TEST_F(GssContextsTest, TokensCutAnywhere_MakeNoContext) {
  const ByteVector token = first_token(alice());
  for (size_t length = 0; length < token.size(); ++length) {
    const ByteVector reply = answered(GssPeer::init_call(ConstBytes(token).first(length)));
    const auto res = init_results(reply);
    ASSERT_TRUE(res) << length;
    EXPECT_GT(res->gss_major, rpc::kGssContinueNeeded) << length;
    EXPECT_TRUE(res->handle.empty() && res->gss_token.empty()) << length;
    EXPECT_EQ(verifier_of(reply).flavor, rpc::AUTH_NONE);
  }
  EXPECT_EQ(contexts().size(), 0u);
}

// A change is refused, or it is in a byte that no checksum covers, for example of the token's outer lengths.
// Then the context is the one that the unchanged token makes.
TEST_F(GssContextsTest, TokensWithOneOtherByte_MakeNoContextOfAnotherUser) {
  const std::string ccache = alice();
  size_t refused = 0;
  bool unchanged = false;  // the last time
  for (size_t at = GssPeer::init_call(ConstBytes()).size(); !unchanged; at += 3) {
    GssPeer peer = peer_of(ccache);
    ByteVector init = peer.init_call();
    unchanged = at + 3 >= init.size();
    if (!unchanged) init[at] ^= std::byte{0x40};
    const ByteVector reply = answered(init);
    const auto res = init_results(reply);
    ASSERT_TRUE(res) << at;
    if (res->gss_major != rpc::kGssComplete) {
      EXPECT_FALSE(unchanged);
      ++refused;
      continue;
    }
    const bool taken = peer.take_init_reply(reply);
    EXPECT_TRUE(taken || !unchanged);
    if (!taken) continue;
    const Verdict verdict = judge(peer.encode(peer.data()));
    ASSERT_EQ(verdict.kind, Verdict::Kind::kExecute) << at;
    EXPECT_EQ(verdict.call->who().name, "alice@NFSRDMA.TEST") << at;
  }
  EXPECT_GT(refused, 100u);
}

// Who replays a token that he has heard gets a context that he cannot use: he does not know its key.
TEST_F(GssContextsTest, ReplayedInit_IsOfNoUseWithoutTheKey) {
  GssPeer peer = peer_of(alice());
  const ByteVector init = peer.init_call();
  ASSERT_TRUE(peer.take_init_reply(answered(init)));
  const ByteVector again = answered(init);
  const auto res = init_results(again);
  ASSERT_TRUE(res);
  GssPeer thief = peer_of(bob());
  ASSERT_TRUE(thief.establish(by_judge()));
  thief.handle.assign(res->handle.begin(), res->handle.end());
  EXPECT_EQ(judge(thief.encode(thief.data())).why, rpc::RPCSEC_GSS_CREDPROBLEM);
}

// "RPCSEC_GSS_CREDPROBLEM and RPCSEC_GSS_CTXPROBLEM ... neither of these two can be returned in responses to
// context creation requests."
TEST_F(GssContextsTest, MalformedCreation_IsRefusedByTheUsualStatuses) {
  const ByteVector token = first_token(alice());
  const auto changed = [&](const std::function<void(rpc::call_header&, rpc::rpc_gss_cred_t&)>& change) {
    rpc::call_header header;
    header.prog = nfs4::NFS4_PROGRAM;
    header.vers = nfs4::NFS_V4;
    rpc::rpc_gss_cred_t cred;
    cred.v1.gss_proc = rpc::RPCSEC_GSS_INIT;
    change(header, cred);
    return judge(encode_init(header, cred, token));
  };
  const ByteVector some_handle(16);
  EXPECT_EQ(changed([](auto&, auto& cred) { cred.version = 2; }).why, rpc::AUTH_REJECTEDCRED);
  EXPECT_EQ(changed([](auto& header, auto&) { header.proc = 1; }).why, rpc::AUTH_BADCRED);
  EXPECT_EQ(changed([&](auto&, auto& cred) { cred.v1.handle = some_handle; }).why, rpc::AUTH_BADCRED);
  EXPECT_EQ(changed([&](auto&, auto& cred) {
              cred.v1.gss_proc = rpc::RPCSEC_GSS_CONTINUE_INIT;
              cred.v1.handle = some_handle;
            }).why,
            rpc::AUTH_BADCRED);
  EXPECT_EQ(changed([&](auto& header, auto&) {
              header.verf = {rpc::RPCSEC_GSS, some_handle};
            }).why,
            rpc::AUTH_BADVERF);
  // "the seq_num and service fields are undefined and both must be ignored by the server".
  const Verdict odd = changed([](auto&, auto& cred) {
    cred.v1.seq_num = UINT32_MAX;
    cred.v1.service = static_cast<rpc::rpc_gss_service_t>(77);
  });
  ASSERT_EQ(odd.kind, Verdict::Kind::kAnswer);
  ASSERT_TRUE(init_results(odd.reply));
  EXPECT_EQ(init_results(odd.reply)->gss_major, rpc::kGssComplete);
}

TEST_F(GssContextsTest, ArgumentsOfInitThatAreNone_AreGarbage) {
  ByteVector call = GssPeer::init_call(first_token(alice()));
  ByteVector longer = call;
  longer.resize(longer.size() + 4);
  EXPECT_EQ(accepted_as(answered(longer)), rpc::GARBAGE_ARGS);
  call.resize(call.size() - 4);
  EXPECT_EQ(accepted_as(answered(call)), rpc::GARBAGE_ARGS);
}

// An established context takes no further token.
TEST_F(GssContextsTest, ContinueAfterTheEnd_IsRefused) {
  GssPeer peer = peer_of(alice());
  ASSERT_TRUE(peer.establish(by_judge()));
  rpc::call_header header;
  header.prog = nfs4::NFS4_PROGRAM;
  header.vers = nfs4::NFS_V4;
  rpc::rpc_gss_cred_t cred;
  cred.v1.gss_proc = rpc::RPCSEC_GSS_CONTINUE_INIT;
  cred.v1.handle = peer.handle;
  EXPECT_EQ(judge(encode_init(header, cred, first_token(alice()))).why, rpc::AUTH_BADCRED);
  EXPECT_EQ(judge(peer.encode(peer.data())).kind, Verdict::Kind::kExecute);
}

TEST_F(GssContextsTest, Destroyed_IsGoneForEverybody) {
  for (const auto service : kServices) {
    GssPeer peer = peer_of(alice(), service);
    ASSERT_TRUE(peer.establish(by_judge()));
    const GssCall destroy = peer.destroy();
    const ByteVector reply = answered(peer.encode(destroy));
    ASSERT_TRUE(peer.open(destroy, reply)) << "the reply is verified like that to a data request";
    EXPECT_EQ(contexts().size(), 0u);
    EXPECT_EQ(judge(peer.encode(peer.data())).why, rpc::RPCSEC_GSS_CREDPROBLEM);
    EXPECT_EQ(judge(peer.encode(peer.destroy())).why, rpc::RPCSEC_GSS_CREDPROBLEM);
  }
}

// "The sequence number in the request must be valid, and the header checksum in the verifier must be valid,
// for the server to accept the message."
TEST_F(GssContextsTest, DestroyByAnother_DestroysNothing) {
  GssPeer peer = peer_of(alice());
  ASSERT_TRUE(peer.establish(by_judge()));
  GssPeer thief = peer_of(bob());
  ASSERT_TRUE(thief.establish(by_judge()));
  thief.handle = peer.handle;
  EXPECT_EQ(judge(thief.encode(thief.destroy())).why, rpc::RPCSEC_GSS_CREDPROBLEM);
  const GssCall data = peer.data();
  EXPECT_EQ(judge(peer.encode(data)).kind, Verdict::Kind::kExecute);
  GssCall replayed = peer.destroy();
  replayed.cred.v1.seq_num = data.cred.v1.seq_num;
  EXPECT_EQ(judge(peer.encode(replayed)).kind, Verdict::Kind::kDrop);
  GssCall of_a_procedure = peer.destroy();
  of_a_procedure.proc = nfs4::NFSPROC4_COMPOUND;
  EXPECT_EQ(judge(peer.encode(of_a_procedure)).why, rpc::AUTH_BADCRED);
  EXPECT_EQ(judge(peer.encode(peer.data())).kind, Verdict::Kind::kExecute);
}

// "if security credentials become stale while in use (due to ticket expiry ...) the failures which result
// cause the RPCSEC_GSS_CTXPROBLEM reason to be returned."
TEST_F(GssContextsTest, WhenTheTicketEnds_TheContextEnds) {
  GssPeer peer = peer_of(kdc().kinit("alice", {.lifetime = "2h"}));
  ASSERT_TRUE(peer.establish(by_judge()));
  EXPECT_EQ(judge(peer.encode(peer.data()), std::chrono::hours(1)).kind, Verdict::Kind::kExecute);
  EXPECT_EQ(judge(peer.encode(peer.data()), std::chrono::hours(3)).why, rpc::RPCSEC_GSS_CTXPROBLEM);
  EXPECT_EQ(judge(peer.encode(peer.data())).why, rpc::RPCSEC_GSS_CREDPROBLEM) << "it is forgotten";
}

// A restarted server has no contexts.
TEST_F(GssContextsTest, Forgotten_AreCredentialProblems) {
  GssPeer peer = peer_of(alice());
  ASSERT_TRUE(peer.establish(by_judge()));
  contexts().forget();
  EXPECT_EQ(judge(peer.encode(peer.data())).why, rpc::RPCSEC_GSS_CREDPROBLEM);
}

// A call that is executed keeps its context, whoever else comes meanwhile.
TEST_F(GssContextsTest, BeyondTheLimit_CallsUnderWayAreStillAnswered) {
  open_contexts({.all = 8, .of_principal = 2, .incomplete = 1});
  GssPeer peer = peer_of(alice(), rpc::rpc_gss_svc_privacy);
  ASSERT_TRUE(peer.establish(by_judge()));
  const GssCall call = peer.data();
  const Verdict under_way = judge(peer.encode(call));
  ASSERT_EQ(under_way.kind, Verdict::Kind::kExecute);
  for (int i = 0; i < 5; ++i) {
    GssPeer another = peer_of(alice());
    ASSERT_TRUE(another.establish(by_judge()));
  }
  EXPECT_EQ(contexts().size(), 2u);
  EXPECT_EQ(judge(peer.encode(peer.data())).why, rpc::RPCSEC_GSS_CREDPROBLEM);
  ByteVector reply(under_way.call->front());
  ASSERT_TRUE(under_way.call->seal({.xid = rpc::Xid{call.xid}}, reply));
  EXPECT_TRUE(peer.open(call, reply));
}

TEST_F(GssContextsTest, WithoutAKey_ThereAreNone) {
  EXPECT_FALSE(GssContexts::open("FILE:" + (kdc().directory() / "absent").string()));
  EXPECT_FALSE(GssContexts::open(kdc().keytab({"host/localhost"}))) << "it has no key of nfs/HOST";
}

// --- who it is

TEST_F(GssContextsTest, Principals_AreTheUsersThatAuthToLocalNames) {
  open_contexts({}, [](const std::string& name) -> std::optional<security::Account> {
    if (name == "alice") return security::Account{1001, 100, {100, 0, 2000}};
    if (name == "root") return security::Account{0, 0, {0}};
    return std::nullopt;
  });
  for (const char* principal : {"root", "host/one.test", "host/two.test"}) kdc().add(principal);
  const auto who = [&](const std::string& principal) {
    GssPeer peer = peer_of(kdc().kinit(principal));
    EXPECT_TRUE(peer.establish(by_judge()));
    const Verdict verdict = judge(peer.encode(peer.data()));
    return verdict.call ? verdict.call->who() : tree::Principal{};
  };
  const tree::Principal alice = who("alice");
  EXPECT_EQ(alice.flavor, rpc::RPCSEC_GSS);
  EXPECT_EQ(alice.uid, 1001u);
  EXPECT_EQ(alice.gid, 100u);
  EXPECT_TRUE(alice.in_group(2000));
  ASSERT_NE(alice.squashed, nullptr) << "she is in group 0";
  EXPECT_FALSE(alice.squashed->in_group(0));
  EXPECT_EQ(alice.squashed->name, alice.name);
  EXPECT_TRUE(who("root").root());
  const tree::Principal machine = who("host/one.test");
  EXPECT_EQ(machine.uid, tree::Principal::kAnonymous);
  EXPECT_EQ(machine.name, "host/one.test@NFSRDMA.TEST");
  const tree::Principal other = who("host/two.test");
  EXPECT_EQ(other.uid, tree::Principal::kAnonymous);
  EXPECT_FALSE(machine.same_user(other)) << "all machines must not be one nobody";
  EXPECT_EQ(who("bob").uid, tree::Principal::kAnonymous) << "no account";
}

TEST_F(GssContextsTest, Service_IsTheFlavorOfTheCall) {
  GssPeer peer = peer_of(alice());
  ASSERT_TRUE(peer.establish(by_judge()));
  const std::pair<rpc::rpc_gss_service_t, tree::Flavor> flavors[] = {
      {rpc::rpc_gss_svc_none, tree::Flavor::kKrb5},
      {rpc::rpc_gss_svc_integrity, tree::Flavor::kKrb5i},
      {rpc::rpc_gss_svc_privacy, tree::Flavor::kKrb5p}};
  for (const auto& [service, flavor] : flavors) {
    peer.service = service;
    const Verdict verdict = judge(peer.encode(peer.data()));
    ASSERT_EQ(verdict.kind, Verdict::Kind::kExecute);
    EXPECT_EQ(verdict.call->who().security, flavor);
  }
}

}  // namespace
}  // namespace nfsrdma::filer::test

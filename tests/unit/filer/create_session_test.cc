// SPDX-License-Identifier: Apache-2.0
// CREATE_SESSION, and the properties of the new session (RFC 8881 sections 18.36, 18.46): cases that are not
// in session_test.cc and sequence_test.cc.

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

// --- CREATE_SESSION ---

class CreateSessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server = start_server({.manual_clock = true});
    client = std::make_unique<RawClient>(*server);
    ASSERT_EQ(client->exchange_id().status, NFS4_OK);
  }
  CREATE_SESSION4args request() {
    client->session_request.csa_clientid = client->clientid;
    client->session_request.csa_sequence = client->create_sequence;
    return client->session_request;
  }
  CREATE_SESSION4res send(const CREATE_SESSION4args& args) {
    return at<CREATE_SESSION4res>(client->call(ops(args)), 0);
  }

  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
};

// "records a contrived CREATE_SESSION result with a "cached" result of NFS4ERR_SEQ_MISORDERED."
TEST_F(CreateSessionTest, BeforeTheFirst_AReplayIsMisordered) {
  CREATE_SESSION4args args = request();
  --args.csa_sequence;
  EXPECT_EQ(send(args).status, NFS4ERR_SEQ_MISORDERED);
  EXPECT_EQ(client->create_session().status, NFS4_OK);
}

// A list may be as long as a message allows, and a session is kept as long as its client renews its lease.
TEST_F(CreateSessionTest, OfManyCallbackCredentials_OneIsKept) {
  CREATE_SESSION4args args = request();
  args.csa_sec_parms.assign(1000, {});
  args.csa_sec_parms.front().cb_secflavor = rpc::RPCSEC_GSS;
  args.csa_sec_parms[1].cb_secflavor = rpc::AUTH_SYS;
  const CREATE_SESSION4res made = send(args);
  ASSERT_EQ(made.status, NFS4_OK);
  server->with_core([&](nfs::Core& core) {
    const state::Session* session = core.clients.find(made.resok4.csr_sessionid);
    ASSERT_TRUE(session != nullptr && session->cb_security);
    EXPECT_EQ(session->cb_security->cb_secflavor, rpc::AUTH_SYS) << "the first that can be used";
  });
}

// "the client MAY send a retry in a COMPOUND that either has no preceding SEQUENCE, or has a preceding
// SEQUENCE that refers to a different session".
TEST_F(CreateSessionTest, Replay_MayComeInOrOutOfAnySession) {
  ASSERT_EQ(client->create_session().status, NFS4_OK);
  const CREATE_SESSION4args second = request();
  const CREATE_SESSION4res alone = send(second);
  ASSERT_EQ(alone.status, NFS4_OK);
  EXPECT_EQ(alone.resok4.csr_sequence, second.csa_sequence);
  EXPECT_NE(alone.resok4.csr_sessionid, client->session);
  EXPECT_EQ(at<CREATE_SESSION4res>(client->run(ops(second)), 0), alone);
  ++client->create_sequence;
  const CREATE_SESSION4args third = request();
  const CREATE_SESSION4res within = at<CREATE_SESSION4res>(client->run(ops(third)), 0);
  ASSERT_EQ(within.status, NFS4_OK);
  EXPECT_EQ(send(third), within);
  EXPECT_EQ(send(second).status, NFS4ERR_SEQ_MISORDERED) << "only the last one is kept";
  EXPECT_EQ(server->clients().at(0).sessions.size(), 3u);
}

// "any session created by CREATE_SESSION has no direct relation to the session specified in the SEQUENCE".
TEST_F(CreateSessionTest, InASessionOfAnother_Works) {
  RawClient other(*server, "another");
  ASSERT_TRUE(other.establish());
  const CREATE_SESSION4res res = at<CREATE_SESSION4res>(other.run(ops(request())), 0);
  ASSERT_EQ(res.status, NFS4_OK);
  client->session = res.resok4.csr_sessionid;
  EXPECT_EQ(client->run(ops(PUTROOTFH4args{})).status, NFS4_OK);
  EXPECT_EQ(other.run(ops(PUTROOTFH4args{})).status, NFS4_OK);
}

// The same refused request is refused again (its reply is "cached"). Clients written for Linux' server send
// better arguments with the same sequence ID; the RFC expects the next one.
TEST_F(CreateSessionTest, AfterARefusal_TheSameAndTheNextSequenceWork) {
  CREATE_SESSION4args bad = request();
  bad.csa_fore_chan_attrs.ca_maxresponsesize = 20;
  EXPECT_EQ(send(bad).status, NFS4ERR_TOOSMALL);
  EXPECT_EQ(send(bad).status, NFS4ERR_TOOSMALL);
  EXPECT_EQ(client->create_session().status, NFS4_OK) << "the same";
  bad.csa_sequence = client->create_sequence;
  EXPECT_EQ(send(bad).status, NFS4ERR_TOOSMALL);
  ++client->create_sequence;
  EXPECT_EQ(client->create_session().status, NFS4_OK) << "the next";
  EXPECT_EQ(server->clients().at(0).sessions.size(), 2u);
}

TEST_F(CreateSessionTest, SizesThatCannotWork_AreTooSmall) {
  const auto with = [&](auto change) {
    CREATE_SESSION4args args = request();
    change(args.csa_fore_chan_attrs, args.csa_back_chan_attrs, args.csa_flags);
    return send(args).status;
  };
  using Attrs = channel_attrs4;
  EXPECT_EQ(with([](Attrs& f, Attrs&, uint32_t&) { f.ca_maxresponsesize = 0; }), NFS4ERR_TOOSMALL);
  EXPECT_EQ(with([](Attrs&, Attrs& b, uint32_t&) { b.ca_maxresponsesize = 0; }), NFS4ERR_TOOSMALL);
  EXPECT_EQ(with([](Attrs&, Attrs& b, uint32_t&) { b.ca_maxoperations = 1; }), NFS4ERR_TOOSMALL);
  // Checked too if the back channel is to be bound later. A client that offers no slots does not want one.
  EXPECT_EQ(with([](Attrs&, Attrs& b, uint32_t& flags) { b.ca_maxresponsesize = 10, flags = 0; }),
            NFS4ERR_TOOSMALL);
  EXPECT_EQ(with([](Attrs&, Attrs& b, uint32_t& flags) { b = {}, flags = 0; }), NFS4_OK);
}

// "if the client selects a value for ca_maxresponsesize such that a replier on a channel could never send a
// response, the server SHOULD return NFS4ERR_TOOSMALL" (section 18.36.3). About the request's size the RFC
// says only "If a requester sends a request that exceeds ca_maxrequestsize, the error NFS4ERR_REQ_TOO_BIG
// will be returned".
TEST_F(CreateSessionTest, ShortRequests_AreTheClientsToMake) {
  CREATE_SESSION4args args = request();
  args.csa_fore_chan_attrs.ca_maxrequestsize = 400;
  const CREATE_SESSION4res made = send(args);
  ASSERT_EQ(made.status, NFS4_OK);
  EXPECT_EQ(made.resok4.csr_fore_chan_attrs.ca_maxrequestsize, 400u);
  client->session = made.resok4.csr_sessionid;
  client->sequences.clear();
  EXPECT_EQ(client->run({}).status, NFS4_OK);
  EXPECT_EQ(client->call(ops(client->next_sequence(), LOOKUP4args{std::string(400, 'x')})).status,
            NFS4ERR_REQ_TOO_BIG);
}

// The back channel is too small for a CB_RECALL: the client gets its session without a back channel.
TEST_F(CreateSessionTest, ShortCallbacks_AreNoBackChannel) {
  CREATE_SESSION4args args = request();
  args.csa_back_chan_attrs.ca_maxrequestsize = 100;
  args.csa_flags = CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
  const CREATE_SESSION4res made = send(args);
  ASSERT_EQ(made.status, NFS4_OK);
  EXPECT_EQ(made.resok4.csr_flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN, 0u);
  EXPECT_FALSE(server->clients().at(0).back_channel);
}

// "For each channel, the server MAY decrease this value, but MUST NOT increase it"; "For the backchannel, the
// server MUST NOT change the value the client offers" (operations and requests).
TEST_F(CreateSessionTest, HugeWishes_AreCutToWhatTheServerHas) {
  CREATE_SESSION4args args = request();
  for (channel_attrs4* attrs : {&args.csa_fore_chan_attrs, &args.csa_back_chan_attrs}) {
    attrs->ca_headerpadsize = 4096;
    attrs->ca_maxrequestsize = attrs->ca_maxresponsesize = attrs->ca_maxresponsesize_cached = UINT32_MAX;
    attrs->ca_maxoperations = attrs->ca_maxrequests = UINT32_MAX;
    attrs->ca_rdma_ird = {57};
  }
  const CREATE_SESSION4res res = send(args);
  ASSERT_EQ(res.status, NFS4_OK);
  const channel_attrs4& fore = res.resok4.csr_fore_chan_attrs;
  EXPECT_LE(fore.ca_maxrequestsize, 16u << 20);
  EXPECT_LE(fore.ca_maxresponsesize, 16u << 20);
  EXPECT_LE(fore.ca_maxresponsesize_cached, fore.ca_maxresponsesize);
  EXPECT_LT(fore.ca_maxrequests, 500u);
  EXPECT_LE(fore.ca_maxoperations, kMaxOperations);
  EXPECT_EQ(res.resok4.csr_back_chan_attrs.ca_maxoperations, UINT32_MAX);
  EXPECT_EQ(res.resok4.csr_back_chan_attrs.ca_maxrequests, UINT32_MAX);
}

// "If the server does not or cannot provide a persistent reply cache, the server MUST NOT set
// CREATE_SESSION4_FLAG_PERSIST"; a flag that the client did not request "MUST NOT be set".
TEST_F(CreateSessionTest, Flags_AreGrantedOnlyIfAskedForAndThere) {
  for (const uint32_t flags :
       {0u, uint32_t{CREATE_SESSION4_FLAG_PERSIST}, uint32_t{CREATE_SESSION4_FLAG_CONN_BACK_CHAN},
        uint32_t{CREATE_SESSION4_FLAG_CONN_RDMA}, 7u}) {
    client->session_request.csa_flags = flags;
    const CREATE_SESSION4res res = client->create_session();
    ASSERT_EQ(res.status, NFS4_OK) << flags;
    EXPECT_EQ(res.resok4.csr_flags, flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN) << flags;
  }
  for (const uint32_t flags : {8u, 15u, 0x80000000u}) {
    CREATE_SESSION4args args = request();
    args.csa_flags = flags;
    EXPECT_EQ(send(args).status, NFS4ERR_INVAL) << flags;
  }
}

// "The field csa_sec_parms is an array of acceptable security credentials": one that can be used is enough.
// "If the RPCSEC_GSS handle ... does not exist on the server, the server will return NFS4ERR_NOENT."
TEST_F(CreateSessionTest, CallbackCredentials_OneThatWorksIsEnough) {
  const callback_sec_parms4 none;
  callback_sec_parms4 as_user;
  as_user.cb_secflavor = rpc::AUTH_SYS;
  as_user.cbsp_sys_cred = {.stamp = 5, .machinename = "machine", .uid = 7, .gid = 11, .gids = {13, 17}};
  callback_sec_parms4 gss;
  gss.cb_secflavor = rpc::RPCSEC_GSS;
  for (const auto& list : std::vector<std::vector<callback_sec_parms4>>{
           {none}, {as_user}, {none, as_user, gss}, {none, gss, as_user}, {gss, as_user}}) {
    client->session_request.csa_sec_parms = list;
    EXPECT_EQ(client->create_session().resok4.csr_flags, CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  }
  client->session_request.csa_sec_parms = {};
  EXPECT_EQ(client->create_session().resok4.csr_flags, 0u) << "nothing that would do";
  CREATE_SESSION4args args = request();
  args.csa_sec_parms = {gss};
  EXPECT_EQ(send(args).status, NFS4ERR_NOENT);
}

// Sessions of one client ID are independent of each other (section 2.10.5: trunking).
TEST_F(CreateSessionTest, TwoSessions_HaveTheirOwnSlots) {
  ASSERT_EQ(client->create_session().status, NFS4_OK);
  ASSERT_EQ(client->run({}).status, NFS4_OK);
  RawClient twin(*server);
  twin.clientid = client->clientid;
  twin.create_sequence = client->create_sequence;
  ASSERT_EQ(twin.create_session().status, NFS4_OK);
  EXPECT_EQ(twin.run({}).status, NFS4_OK);
  EXPECT_EQ(client->run({}).status, NFS4_OK);
  EXPECT_EQ(client->call(ops(DESTROY_SESSION4args{client->session})).status, NFS4_OK);
  EXPECT_EQ(client->run({}).status, NFS4ERR_BADSESSION);
  EXPECT_EQ(twin.run({}).status, NFS4_OK);
}

// --- SEQUENCE ---

// "If the reply exceeds ca_maxresponsesize_cached (and sa_cachethis ... is TRUE), then the server MUST return
// NFS4ERR_REP_TOO_BIG_TO_CACHE". This applies to the result of SEQUENCE itself too, and then "the sequence ID
// of the slot MUST NOT change".
TEST(SequenceSize, ACacheTooSmallForSequence_IsSaidBySequence) {
  const auto server = start_server();
  RawClient client(*server);
  client.session_request.csa_fore_chan_attrs.ca_maxresponsesize_cached = 10;
  ASSERT_TRUE(client.establish(false));
  EXPECT_EQ(client.run({}, 0, true).status, NFS4ERR_REP_TOO_BIG_TO_CACHE);
  EXPECT_EQ(client.run({}, 0, false).status, NFS4_OK);
  EXPECT_EQ(client.run(ops(PUTROOTFH4args{}, GETFH4args{}), 0, false).status, NFS4_OK);
}

// With sa_cachethis the reply of a failed request is cached too, even if it contains an illegal operation.
TEST(SequenceRetry, FailedRequests_AreCachedToo) {
  const auto server = start_server();
  server->make_file("/export/f", "content");
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  const Ops requests[] = {ops(PUTROOTFH4args{}, LOOKUP4args{""}), ops(ILLEGAL4args{}),
                          path_ops("/export") + ops(SAVEFH4args{}, RENAME4args{"", "x"}),
                          path_ops("/export") + ops(SAVEFH4args{}, RENAME4args{"f", "g"})};
  uint64_t replays = 0;
  for (const Ops& request : requests) {
    const Ops all = ops(client.next_sequence()) + request;
    const COMPOUND4res first = client.call(all);
    EXPECT_EQ(client.call(all), first);
    EXPECT_EQ(server->replays(), ++replays);
  }
}

// "The sr_sessionid result MUST equal sa_sessionid. The sr_slotid result MUST equal sa_slotid. The
// sr_sequenceid result MUST equal sa_sequenceid."
TEST(SequenceResult, RepeatsWhatWasAsked) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  const COMPOUND4res reply = client.call(ops(SEQUENCE4args{client.session, 1, 2, 3, true}));
  const SEQUENCE4resok& res = at<SEQUENCE4res>(reply, 0).resok4;
  EXPECT_EQ(res.sr_sessionid, client.session);
  EXPECT_EQ(res.sr_sequenceid, 1u);
  EXPECT_EQ(res.sr_slotid, 2u);
  EXPECT_EQ(res.sr_highest_slotid, 7u);
}

}  // namespace
}  // namespace nfsrdma::filer::test

// SPDX-License-Identifier: Apache-2.0
// EXCHANGE_ID, CREATE_SESSION, and the end of sessions and client IDs (RFC 8881 sections 18.34 to 18.37,
// 18.50, 18.51).

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

TEST(Session, FirstContact_LeadsToTheRoot) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  const COMPOUND4res reply = client.run(ops(PUTROOTFH4args{}, GETATTR4args{bitmap4::of({FATTR4_TYPE})}));
  ASSERT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(at<GETATTR4res>(reply, 1).resok4.obj_attributes.type, NF4DIR);
  EXPECT_EQ(client.last_flags, 0u);
}

// --- EXCHANGE_ID, section 18.35.4: the numbered cases ---

// "1. New Owner ID ... a new shorthand client ID ... is generated, and the following unconfirmed record is
// added".
TEST(ExchangeId, NewOwner_IsUnconfirmed) {
  const auto server = start_server();
  RawClient client(*server);
  const EXCHANGE_ID4res res = client.exchange_id();
  ASSERT_EQ(res.status, NFS4_OK);
  EXPECT_EQ(res.resok4.eir_flags & EXCHGID4_FLAG_CONFIRMED_R, 0u);
  // "The server MUST set one of the acceptable combinations of these bits (roles) in eir_flags".
  EXPECT_EQ(res.resok4.eir_flags & EXCHGID4_FLAG_MASK_PNFS, EXCHGID4_FLAG_USE_NON_PNFS);
}

// "2. Non-Update on Existing Client ID ... the server returns the same result it did".
TEST(ExchangeId, ConfirmedOwnerAgain_ReturnsTheSameClientId) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  const clientid4 before = client.clientid;
  RawClient again(*server);
  const EXCHANGE_ID4res res = again.exchange_id();
  ASSERT_EQ(res.status, NFS4_OK);
  EXPECT_EQ(res.resok4.eir_clientid, before);
  EXPECT_NE(res.resok4.eir_flags & EXCHGID4_FLAG_CONFIRMED_R, 0u);
}

// "3. Client Collision ... If old_clientid_ret has an unexpired lease with state ... NFS4ERR_CLID_INUSE".
TEST(ExchangeId, OtherPrincipalWhileStateIsHeld_IsInUse) {
  const auto server = start_server();
  server->make_file("/export/f", "x", 0666);
  RawClient client(*server, "shared", {.uid = 1000, .gid = 1000});
  ASSERT_TRUE(client.establish());
  client.open("/export/f");
  RawClient other(*server, "shared", {.uid = 2000, .gid = 2000});
  EXPECT_EQ(other.exchange_id().status, NFS4ERR_CLID_INUSE);
  EXPECT_EQ(client.run({}).status, NFS4_OK);
}

// "...or if there is state but the lease has expired, then this case is effectively equivalent to the New
// Owner ID case".
TEST(ExchangeId, OtherPrincipalAfterTheLease_ReplacesTheClient) {
  const auto server = start_server({.manual_clock = true});
  server->make_file("/export/f", "x", 0666);
  RawClient client(*server, "shared", {.uid = 1000, .gid = 1000});
  ASSERT_TRUE(client.establish());
  client.open("/export/f");
  server->advance_clock(std::chrono::seconds(91));
  RawClient other(*server, "shared", {.uid = 2000, .gid = 2000});
  ASSERT_TRUE(other.establish());
  EXPECT_NE(other.clientid, client.clientid);
  EXPECT_EQ(client.run({}).status, NFS4ERR_BADSESSION);
}

// "4. Replacement of Unconfirmed Record ... the server deletes the unconfirmed record, generates a new client
// ID".
TEST(ExchangeId, UnconfirmedOwnerAgain_GetsANewClientId) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_EQ(client.exchange_id().status, NFS4_OK);
  const clientid4 first = client.clientid;
  ASSERT_EQ(client.exchange_id().status, NFS4_OK);
  EXPECT_NE(client.clientid, first);
  client.clientid = first;
  EXPECT_EQ(client.create_session().status, NFS4ERR_STALE_CLIENTID);
}

// "5. Client Restart ... once the new client ID is confirmed by CREATE_SESSION, byte-range locks and share
// reservations should be released immediately".
TEST(ExchangeId, NewVerifier_ReleasesTheOldInstanceAtCreateSession) {
  const auto server = start_server();
  server->make_file("/export/f", "x");
  RawClient old(*server);
  ASSERT_TRUE(old.establish());
  old.open("/export/f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_BOTH);

  RawClient restarted(*server);
  restarted.verifier = verifier4::of(2);
  ASSERT_EQ(restarted.exchange_id().status, NFS4_OK);
  EXPECT_NE(restarted.clientid, old.clientid);
  EXPECT_EQ(old.run({}).status, NFS4_OK) << "the confirmed record continues to exist";
  ASSERT_EQ(restarted.create_session().status, NFS4_OK);
  EXPECT_EQ(old.run({}).status, NFS4ERR_BADSESSION);
  ASSERT_EQ(restarted.run(ops(RECLAIM_COMPLETE4args{})).status, NFS4_OK);
  restarted.open("/export/f", OPEN4_SHARE_ACCESS_BOTH);
}

// Cases 6 to 9: EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
TEST(ExchangeId, Updates_FollowTheRecord) {
  const auto server = start_server();
  RawClient client(*server);
  EXPECT_EQ(client.exchange_id(EXCHGID4_FLAG_UPD_CONFIRMED_REC_A).status, NFS4ERR_NOENT);  // 7
  ASSERT_TRUE(client.establish());
  const EXCHANGE_ID4res update = client.exchange_id(EXCHGID4_FLAG_UPD_CONFIRMED_REC_A);  // 6
  ASSERT_EQ(update.status, NFS4_OK);
  EXPECT_NE(update.resok4.eir_flags & EXCHGID4_FLAG_CONFIRMED_R, 0u);
  EXPECT_EQ(update.resok4.eir_flags & EXCHGID4_FLAG_UPD_CONFIRMED_REC_A, 0u) << "always off in eir_flags";
  RawClient other_user(*server, "raw client", {.uid = 7, .gid = 7});
  EXPECT_EQ(other_user.exchange_id(EXCHGID4_FLAG_UPD_CONFIRMED_REC_A).status, NFS4ERR_PERM);  // 9
  client.verifier = verifier4::of(99);
  EXPECT_EQ(client.exchange_id(EXCHGID4_FLAG_UPD_CONFIRMED_REC_A).status, NFS4ERR_NOT_SAME);  // 8
}

// "Bits not defined above cannot be set in the eia_flags field. If they are, the server MUST reject the
// operation".
TEST(ExchangeId, UndefinedFlag_IsInvalid) {
  const auto server = start_server();
  RawClient client(*server);
  EXPECT_EQ(client.exchange_id(0x8).status, NFS4ERR_INVAL);
  EXPECT_EQ(client.exchange_id(EXCHGID4_FLAG_CONFIRMED_R).status, NFS4ERR_INVAL);
}

// --- CREATE_SESSION, section 18.36.4 ---

TEST(CreateSession, UnknownClientId_IsStale) {
  const auto server = start_server();
  RawClient client(*server);
  client.clientid = 0x123456789;
  EXPECT_EQ(client.create_session().status, NFS4ERR_STALE_CLIENTID);
}

// "If csa_sequenceid is equal to the sequence ID in the client ID's slot, then this is a replay".
TEST(CreateSession, SameSequenceAgain_IsReplayed) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  const sessionid4 first = client.session;
  --client.create_sequence;
  const CREATE_SESSION4res replay = client.create_session();
  ASSERT_EQ(replay.status, NFS4_OK);
  EXPECT_EQ(replay.resok4.csr_sessionid, first);
  const CREATE_SESSION4res second = client.create_session();
  ASSERT_EQ(second.status, NFS4_OK);
  EXPECT_NE(second.resok4.csr_sessionid, first);
}

// "records a contrived CREATE_SESSION result with a 'cached' result of NFS4ERR_SEQ_MISORDERED".
TEST(CreateSession, WrongSequence_IsMisordered) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_EQ(client.exchange_id().status, NFS4_OK);
  const sequenceid4 right = client.create_sequence;
  for (const sequenceid4 wrong : {right - 1, right + 1, right + 100}) {
    client.create_sequence = wrong;
    EXPECT_EQ(client.create_session().status, NFS4ERR_SEQ_MISORDERED) << wrong;
  }
  client.create_sequence = right;
  EXPECT_EQ(client.create_session().status, NFS4_OK);
}

// "Unsuccessful Confirmation ... NFS4ERR_CLID_INUSE is returned ... No changes are made".
TEST(CreateSession, OtherPrincipal_CannotConfirm) {
  const auto server = start_server();
  RawClient client(*server, "owner", {.uid = 1, .gid = 1});
  ASSERT_EQ(client.exchange_id().status, NFS4_OK);
  client.user = {.uid = 2, .gid = 2};
  EXPECT_EQ(client.create_session().status, NFS4ERR_CLID_INUSE);
  client.user = {.uid = 1, .gid = 1};
  EXPECT_EQ(client.create_session().status, NFS4_OK);
}

// "the server MAY decrease this value but MUST NOT increase it"; back channel counts "MUST NOT change".
TEST(CreateSession, Attributes_AreGrantedWithinLimits) {
  nfs::Options options;
  options.limits.max_slots = 4;
  options.limits.max_request_bytes = 100'000;
  const auto server = start_server(options);
  RawClient client(*server);
  client.session_request.csa_fore_chan_attrs.ca_headerpadsize = 64;
  client.session_request.csa_back_chan_attrs.ca_maxrequests = 100;
  ASSERT_TRUE(client.establish());
  const CREATE_SESSION4resok& r = client.session_attributes;
  EXPECT_EQ(r.csr_fore_chan_attrs.ca_maxrequests, 4u);
  EXPECT_EQ(r.csr_fore_chan_attrs.ca_maxrequestsize, 100'000u);
  EXPECT_EQ(r.csr_fore_chan_attrs.ca_maxresponsesize_cached, 64u << 10);
  EXPECT_EQ(r.csr_fore_chan_attrs.ca_headerpadsize, 0u);
  EXPECT_EQ(r.csr_back_chan_attrs.ca_maxrequests, 100u);
  EXPECT_EQ(r.csr_back_chan_attrs.ca_maxoperations, 8u);
  EXPECT_EQ(r.csr_flags, CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
}

// The session's attributes promise memory for cached replies: an eighth of what is left.
TEST(CreateSession, ReplyCache_IsSharedOut) {
  nfs::Options options;
  options.limits.reply_cache_bytes = 1u << 20;
  const auto server = start_server(options);
  uint32_t before = 16u << 10;  // 8 slots
  for (const char* owner : {"one", "two", "three"}) {
    RawClient client(*server, owner);
    ASSERT_TRUE(client.establish());
    const channel_attrs4& fore = client.session_attributes.csr_fore_chan_attrs;
    EXPECT_EQ(fore.ca_maxrequests, 8u);
    EXPECT_EQ(fore.ca_maxresponsesize_cached, before);
    before = before / 8 * 7;
  }
}

// "a replier on a channel could never send a response, the server SHOULD return NFS4ERR_TOOSMALL".
TEST(CreateSession, TinyMessages_AreTooSmall) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_EQ(client.exchange_id().status, NFS4_OK);
  client.session_request.csa_fore_chan_attrs.ca_maxresponsesize = 20;
  EXPECT_EQ(client.create_session().status, NFS4ERR_TOOSMALL);
  ++client.create_sequence;  // phase 2 has set the slot's sequence ID
  client.session_request.csa_fore_chan_attrs.ca_maxresponsesize = 1 << 20;
  client.session_request.csa_back_chan_attrs.ca_maxresponsesize = 10;
  EXPECT_EQ(client.create_session().status, NFS4ERR_TOOSMALL);
}

// "If CREATE_SESSION is sent without a preceding SEQUENCE, then it MUST be the only operation".
TEST(CreateSession, WithCompanionAndNoSequence_IsNotOnlyOp) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_EQ(client.exchange_id().status, NFS4_OK);
  client.session_request.csa_clientid = client.clientid;
  client.session_request.csa_sequence = client.create_sequence;
  EXPECT_EQ(client.call(ops(client.session_request, PUTROOTFH4args{})).status, NFS4ERR_NOT_ONLY_OP);
}

// --- BIND_CONN_TO_SESSION, section 18.34 ---

TEST(BindConnToSession, NewConnection_GetsWhatItAsksFor) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  const auto bind = [&](channel_dir_from_client4 dir) {
    const COMPOUND4res reply = client.call(ops(BIND_CONN_TO_SESSION4args{client.session, dir, false}));
    return at<BIND_CONN_TO_SESSION4res>(reply, 0);
  };
  client.reconnect();
  EXPECT_EQ(bind(CDFC4_FORE).resok4.bctsr_dir, CDFS4_FORE);
  // "unless the client is demanding changes to the set of channels ... the server MUST return NFS4ERR_INVAL".
  EXPECT_EQ(bind(CDFC4_BACK).status, NFS4ERR_INVAL);
  EXPECT_EQ(bind(CDFC4_FORE).status, NFS4_OK) << "already associated: has no effect";
  client.reconnect();
  EXPECT_EQ(bind(CDFC4_FORE_OR_BOTH).resok4.bctsr_dir, CDFS4_BOTH);
  client.reconnect();
  EXPECT_EQ(bind(CDFC4_BACK).resok4.bctsr_dir, CDFS4_BACK);
  client.reconnect();
  client.session.data[3] ^= std::byte{1};
  EXPECT_EQ(bind(CDFC4_FORE).status, NFS4ERR_BADSESSION);
}

// "It MUST be the only operation in the COMPOUND procedure."
TEST(BindConnToSession, BehindSequence_IsNotOnlyOp) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  EXPECT_EQ(client.run(ops(BIND_CONN_TO_SESSION4args{client.session, CDFC4_FORE, false})).status,
            NFS4ERR_NOT_ONLY_OP);
}

// "This bit remains set ... until at least one backchannel is available".
TEST(BackChannel, LostConnection_IsReportedUntilBound) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  client.reconnect();
  ASSERT_TRUE(server->wait_until([](nfs::Core& core) {
    bool gone = true;
    core.clients.each_session([&](state::Session& s) { gone = gone && s.back_links.empty(); });
    return gone;
  }));
  ASSERT_EQ(client.run({}).status, NFS4_OK);
  EXPECT_EQ(client.last_flags, SEQ4_STATUS_CB_PATH_DOWN);
  // SEQUENCE has bound the connection to the fore channel; OR_BOTH adds the back channel.
  const COMPOUND4res reply =
      client.call(ops(BIND_CONN_TO_SESSION4args{client.session, CDFC4_FORE_OR_BOTH, false}));
  EXPECT_EQ(at<BIND_CONN_TO_SESSION4res>(reply, 0).resok4.bctsr_dir, CDFS4_BOTH);
  ASSERT_EQ(client.run({}).status, NFS4_OK);
  EXPECT_EQ(client.last_flags, 0u);
}

// "connection association enforcement is enabled ... NFS4ERR_CONN_NOT_BOUND_TO_SESSION".
TEST(Sequence, UnboundConnectionUnderEnforcement_IsRefused) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  server->configure([](nfs::Switches& s) { s.enforce_connection_binding = true; });
  EXPECT_EQ(client.run({}).status, NFS4_OK) << "bound by CREATE_SESSION";
  client.reconnect();
  EXPECT_EQ(client.run({}).status, NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  client.call(ops(BIND_CONN_TO_SESSION4args{client.session, CDFC4_FORE, false}));
  EXPECT_EQ(client.run({}).status, NFS4_OK);
}

// A client that restarts through a session of its old instance ends that session within its own COMPOUND.
TEST(CreateSession, EndingItsOwnSession_LeavesTheRestDead) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  RawClient restarted(*server);
  restarted.verifier = verifier4::of(2);
  ASSERT_EQ(restarted.exchange_id().status, NFS4_OK);
  restarted.session_request.csa_clientid = restarted.clientid;
  restarted.session_request.csa_sequence = restarted.create_sequence;
  const COMPOUND4res reply = client.run(ops(restarted.session_request, PUTROOTFH4args{}));
  ASSERT_EQ(reply.resarray.size(), 2u);
  EXPECT_EQ(at<CREATE_SESSION4res>(reply, 0).status, NFS4_OK);
  EXPECT_EQ(at<PUTROOTFH4res>(reply, 1).status, NFS4ERR_DEADSESSION);
}

// "replaces the backchannel's callback program number".
TEST(BackchannelCtl, NewProgram_IsUsedForCallbacks) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  callback_sec_parms4 as_user;
  as_user.cb_secflavor = rpc::AUTH_SYS;
  as_user.cbsp_sys_cred.uid = 42;
  ASSERT_EQ(client.run(ops(BACKCHANNEL_CTL4args{0x40000099, {as_user}})).status, NFS4_OK);
  client.session_request.csa_cb_program = 0x40000099;  // what serve_callback expects
  nfs::Callback callback;
  callback.ops.push_back({CB_RECALL_ANY4args{0, {}}});
  const auto id = server->call_back(callback);
  ASSERT_TRUE(id && client.serve_callback());
  EXPECT_EQ(server->wait_callback(*id).state, nfs::CallbackResult::State::kAnswered);
  // "If the RPCSEC_GSS handle identified by gcbp_handle_from_server does not exist on the server, ...
  // NFS4ERR_NOENT."
  callback_sec_parms4 gss;
  gss.cb_secflavor = rpc::RPCSEC_GSS;
  EXPECT_EQ(client.run(ops(BACKCHANNEL_CTL4args{1, {gss}})).status, NFS4ERR_NOENT);
}

// --- ends ---

// "DESTROY_SESSION MUST be invoked on a connection that is associated with the session being destroyed."
TEST(DestroySession, OnAStrangeConnection_IsRefused) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  client.reconnect();
  EXPECT_EQ(client.call(ops(DESTROY_SESSION4args{client.session})).status, NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  EXPECT_EQ(client.run({}).status, NFS4_OK);
  EXPECT_EQ(client.call(ops(DESTROY_SESSION4args{client.session})).status, NFS4_OK);
  EXPECT_EQ(client.run({}).status, NFS4ERR_BADSESSION);
  EXPECT_EQ(client.call(ops(DESTROY_SESSION4args{client.session})).status, NFS4ERR_BADSESSION);
}

// "DESTROY_SESSION MUST be the final operation in the COMPOUND request."
TEST(DestroySession, InItsOwnSession_MustBeLast) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  const COMPOUND4res early = client.run(ops(DESTROY_SESSION4args{client.session}, PUTROOTFH4args{}));
  EXPECT_EQ(early.status, NFS4ERR_NOT_ONLY_OP);
  EXPECT_EQ(client.run(ops(PUTROOTFH4args{}, DESTROY_SESSION4args{client.session})).status, NFS4_OK);
  EXPECT_EQ(client.run({}).status, NFS4ERR_BADSESSION);
}

// "If there are sessions ..., opens, locks ... the server MUST return NFS4ERR_CLIENTID_BUSY."
TEST(DestroyClientid, WhileAnythingIsLeft_IsBusy) {
  const auto server = start_server();
  server->make_file("/export/f", "x");
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  EXPECT_EQ(client.run(ops(DESTROY_CLIENTID4args{client.clientid})).status, NFS4ERR_CLIENTID_BUSY);
  client.open("/export/f");
  EXPECT_EQ(client.call(ops(DESTROY_SESSION4args{client.session})).status, NFS4_OK);
  EXPECT_EQ(client.call(ops(DESTROY_CLIENTID4args{client.clientid})).status, NFS4ERR_CLIENTID_BUSY)
      << "an open is left";
  EXPECT_EQ(client.call(ops(DESTROY_CLIENTID4args{0x4711})).status, NFS4ERR_STALE_CLIENTID);
}

TEST(DestroyClientid, OfAnIdleClient_ForgetsIt) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  EXPECT_EQ(client.call(ops(DESTROY_SESSION4args{client.session})).status, NFS4_OK);
  EXPECT_EQ(client.call(ops(DESTROY_CLIENTID4args{client.clientid})).status, NFS4_OK);
  EXPECT_TRUE(server->clients().empty());
}

// "If it is done a second time, the error NFS4ERR_COMPLETE_ALREADY will result."
TEST(ReclaimComplete, Twice_IsCompleteAlready) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  EXPECT_EQ(client.run(ops(RECLAIM_COMPLETE4args{})).status, NFS4ERR_COMPLETE_ALREADY);
  // "in a file system not in the process of migration, the operation returns NFS4_OK and is otherwise
  // ignored".
  EXPECT_EQ(client.run(ops(PUTROOTFH4args{}, RECLAIM_COMPLETE4args{true})).status, NFS4_OK);
  EXPECT_EQ(client.run(ops(RECLAIM_COMPLETE4args{true})).status, NFS4ERR_NOFILEHANDLE);
}

// "If non-reclaim locking operations are done before the RECLAIM_COMPLETE, an NFS4ERR_GRACE error will be
// returned."
TEST(ReclaimComplete, OpenBeforeIt_IsGrace) {
  const auto server = start_server();
  server->make_file("/export/f", "x");
  RawClient client(*server);
  ASSERT_TRUE(client.establish(false));
  EXPECT_EQ(client.run_at("/export", ops(client.open_args("f"))).status, NFS4ERR_GRACE);
  EXPECT_EQ(client.run(ops(RECLAIM_COMPLETE4args{})).status, NFS4_OK);
  client.open("/export/f");
}

// An unconfirmed record "that is not confirmed within a lease period SHOULD be removed".
TEST(ExchangeId, UnconfirmedForALease_IsRemoved) {
  const auto server = start_server({.manual_clock = true});
  RawClient client(*server);
  ASSERT_EQ(client.exchange_id().status, NFS4_OK);
  server->advance_clock(std::chrono::seconds(91));
  EXPECT_EQ(client.create_session().status, NFS4ERR_STALE_CLIENTID);
}

}  // namespace
}  // namespace nfsrdma::filer::test

// SPDX-License-Identifier: Apache-2.0
// Restarts, grace, reclaim, leases and unstable data (RFC 8881 sections 8.3
// to 8.5, 9.11, 10.2.1, 18.32, 18.51).

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

class RecoveryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server = start_server({.manual_clock = true});
    server->make_file("/export/f", "content", 0666);
    client = std::make_unique<RawClient>(*server, "one");
    ASSERT_TRUE(client->establish());
  }
  // What a client does after a restart, before RECLAIM_COMPLETE.
  void come_back(RawClient& c) {
    c.reconnect();
    ASSERT_TRUE(c.establish(false));
  }
  OPEN4res reclaim_open(RawClient& c, uint32_t access = OPEN4_SHARE_ACCESS_BOTH, uint32_t deny = 0,
                        const std::string& owner = "owner") {
    OPEN4args args = c.open_args("", access, deny, owner);
    args.claim.claim = CLAIM_PREVIOUS;
    return at<OPEN4res>(c.run_at("/export/f", ops(args)), 0);
  }
  LOCK4res lock(RawClient& c, stateid4 open, uint64_t offset, uint64_t length, bool reclaim = false) {
    LOCK4args args = first_lock(open, WRITE_LT, offset, length);
    args.reclaim = reclaim;
    return at<LOCK4res>(c.run_at("/export/f", ops(args)), 0);
  }

  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
};

TEST_F(RecoveryTest, Restart_ForgetsSessionsAndClientIds) {
  server->restart();
  EXPECT_TRUE(client->connection->ended());
  client->reconnect();
  EXPECT_EQ(client->run({}).status, NFS4ERR_BADSESSION);
  EXPECT_EQ(client->create_session().status, NFS4ERR_STALE_CLIENTID);
  const clientid4 before = client->clientid;
  ASSERT_TRUE(client->establish());
  EXPECT_NE(client->clientid, before);
}

TEST_F(RecoveryTest, HeldOpenAndLock_AreReclaimed) {
  const stateid4 open = client->open("/export/f");
  ASSERT_EQ(lock(*client, open, 10, 20).status, NFS4_OK);
  server->restart();
  ASSERT_TRUE(server->in_grace());
  come_back(*client);
  const OPEN4res reopened = reclaim_open(*client);
  ASSERT_EQ(reopened.status, NFS4_OK);
  // "Until the client sends a global RECLAIM_COMPLETE, every SEQUENCE operation will return
  // SEQ4_STATUS_RESTART_RECLAIM_NEEDED."
  EXPECT_EQ(client->last_flags, SEQ4_STATUS_RESTART_RECLAIM_NEEDED);
  ASSERT_EQ(lock(*client, reopened.resok4.stateid, 10, 20, true).status, NFS4_OK);
  EXPECT_EQ(client->read("/export/f", reopened.resok4.stateid), "content") << "safe: a valid reclaim";
  ASSERT_EQ(client->run(ops(RECLAIM_COMPLETE4args{})).status, NFS4_OK);
  EXPECT_FALSE(server->in_grace()) << "all that were known have completed";
  EXPECT_EQ(client->run({}).status, NFS4_OK);
  EXPECT_EQ(client->last_flags, 0u);
}

// "During the grace period, the server must reject READ and WRITE operations and non-reclaim locking requests
// ... with an error of NFS4ERR_GRACE".
TEST_F(RecoveryTest, NewStateDuringGrace_IsGrace) {
  RawClient second(*server, "two");
  ASSERT_TRUE(second.establish());
  second.open("/export/f");
  server->restart();
  come_back(*client);
  ASSERT_EQ(client->run(ops(RECLAIM_COMPLETE4args{})).status, NFS4_OK);
  ASSERT_TRUE(server->in_grace()) << "the other client has not come back";
  EXPECT_EQ(client->run_at("/export", ops(client->open_args("f"))).status, NFS4ERR_GRACE);
  EXPECT_EQ(client->run_at("/export/f", ops(READ4args{{}, 0, 1})).status, NFS4ERR_GRACE);
  EXPECT_EQ(client->write("/export/f", {}, 0, "x").status, NFS4ERR_GRACE);
  EXPECT_EQ(client->run_at("/export/f", ops(LOCKT4args{READ_LT, 0, 1, {}})).status, NFS4ERR_GRACE);
  EXPECT_EQ(client->run_at("/export", ops(REMOVE4args{"f"})).status, NFS4ERR_GRACE);
  EXPECT_EQ(client->run_at("/export", ops(GETATTR4args{bitmap4::of({FATTR4_SIZE})})).status, NFS4_OK);
  server->advance_clock(kLease + std::chrono::seconds(1));
  EXPECT_FALSE(server->in_grace());
  EXPECT_EQ(client->run_at("/export", ops(client->open_args("f"))).status, NFS4_OK);
}

// "Once the client sends RECLAIM_COMPLETE, ... subsequent reclaims ... will return NFS4ERR_NO_GRACE."
TEST_F(RecoveryTest, ReclaimTooLate_IsNoGrace) {
  client->open("/export/f");
  RawClient second(*server, "two");
  ASSERT_TRUE(second.establish());
  server->restart();
  come_back(*client);
  ASSERT_EQ(client->run(ops(RECLAIM_COMPLETE4args{})).status, NFS4_OK);
  ASSERT_TRUE(server->in_grace());
  EXPECT_EQ(reclaim_open(*client).status, NFS4ERR_NO_GRACE);
  // "There is no active grace period".
  second.reconnect();
  ASSERT_TRUE(second.establish(false));
  server->end_grace();
  EXPECT_EQ(reclaim_open(second).status, NFS4ERR_NO_GRACE);
}

// "The client making the request has no current role in reclaiming locks": NFS4ERR_NO_GRACE.
TEST_F(RecoveryTest, ReclaimByAStranger_IsNoGrace) {
  client->open("/export/f");
  server->restart();
  RawClient stranger(*server, "never seen");
  ASSERT_TRUE(stranger.establish(false));
  EXPECT_EQ(reclaim_open(stranger).status, NFS4ERR_NO_GRACE);
}

// "the lock specified as being reclaimed could not possibly have existed before the server restart":
// NFS4ERR_RECLAIM_BAD.
TEST_F(RecoveryTest, ReclaimOfWhatWasNotHeld_IsBad) {
  const stateid4 open = client->open("/export/f", OPEN4_SHARE_ACCESS_READ);
  static_cast<void>(open);
  server->restart();
  come_back(*client);
  EXPECT_EQ(reclaim_open(*client, OPEN4_SHARE_ACCESS_WRITE).status, NFS4ERR_RECLAIM_BAD);
  EXPECT_EQ(reclaim_open(*client, OPEN4_SHARE_ACCESS_READ, 0, "another owner").status, NFS4ERR_RECLAIM_BAD);
  const OPEN4res res = reclaim_open(*client, OPEN4_SHARE_ACCESS_READ);
  ASSERT_EQ(res.status, NFS4_OK);
  LOCK4args args;
  args.reclaim = true;
  args.length = 10;
  args.locker.new_lock_owner = true;
  args.locker.stateid = res.resok4.stateid;
  EXPECT_EQ(client->run_at("/export/f", ops(args)).status, NFS4ERR_RECLAIM_BAD);
}

TEST_F(RecoveryTest, ForgottenStableStorage_RefusesAllReclaims) {
  client->open("/export/f");
  server->restart({.forget_reclaims = true});
  come_back(*client);
  EXPECT_EQ(reclaim_open(*client).status, NFS4ERR_NO_GRACE);
}

// The first edge condition of section 8.4.3: the lease expired before the restart.
TEST_F(RecoveryTest, ReclaimAfterAnUnacknowledgedExpiry_IsNoGrace) {
  client->open("/export/f");
  server->advance_clock(kLease + std::chrono::seconds(1));
  server->restart();
  come_back(*client);
  EXPECT_EQ(reclaim_open(*client).status, NFS4ERR_NO_GRACE);
}

// The second edge condition: state that was not reclaimed in one grace period cannot be reclaimed in the
// next.
TEST_F(RecoveryTest, ReclaimMissedOnce_IsNoGraceAfterTheNextRestart) {
  client->open("/export/f");
  server->restart();
  server->end_grace();
  server->restart();
  come_back(*client);
  EXPECT_EQ(reclaim_open(*client).status, NFS4ERR_NO_GRACE);
}

TEST_F(RecoveryTest, SecondRestartDuringGrace_StillAllowsReclaim) {
  client->open("/export/f");
  server->restart();
  server->restart();
  come_back(*client);
  EXPECT_EQ(reclaim_open(*client).status, NFS4_OK);
}

// --- unstable data, section 18.32.4 ---

TEST_F(RecoveryTest, UncommittedWrite_IsLostAndTheVerifierTells) {
  const stateid4 open = client->open("/export/f");
  const WRITE4res before = client->write("/export/f", open, 0, "UNSTABLE", UNSTABLE4);
  ASSERT_EQ(before.status, NFS4_OK);
  EXPECT_EQ(before.resok4.committed, UNSTABLE4);
  EXPECT_EQ(server->read_file("/export/f"), "UNSTABLE");
  server->restart();
  server->end_grace();
  EXPECT_EQ(server->read_file("/export/f"), "content");
  come_back(*client);
  ASSERT_EQ(client->run(ops(RECLAIM_COMPLETE4args{})).status, NFS4_OK);
  const COMPOUND4res reply = client->run_at("/export/f", ops(COMMIT4args{0, 0}));
  EXPECT_NE(at<COMMIT4res>(reply, 0).resok4.writeverf, before.resok4.writeverf);
}

TEST_F(RecoveryTest, CommittedWrite_Survives) {
  const stateid4 open = client->open("/export/f");
  const WRITE4res write = client->write("/export/f", open, 0, "UNSTABLE", UNSTABLE4);
  const COMPOUND4res commit = client->run_at("/export/f", ops(COMMIT4args{0, 4}));
  EXPECT_EQ(at<COMMIT4res>(commit, 0).resok4.writeverf, write.resok4.writeverf);
  server->restart();
  EXPECT_EQ(server->read_file("/export/f"), "UNSTent") << "only what COMMIT covered";
}

TEST_F(RecoveryTest, StableWrite_Survives) {
  const stateid4 open = client->open("/export/f");
  EXPECT_EQ(client->write("/export/f", open, 0, "STABLE", FILE_SYNC4).resok4.committed, FILE_SYNC4);
  server->restart();
  EXPECT_EQ(server->read_file("/export/f"), "STABLEt");
}

// Filehandles are persistent: "the server MUST always return the same filehandle for an object"
// (section 4.2.2).
TEST_F(RecoveryTest, Filehandles_SurviveARestart) {
  const nfs_fh4 before = client->handle_of("/export/f");
  server->restart();
  server->end_grace();
  come_back(*client);
  EXPECT_EQ(client->handle_of("/export/f"), before);
}

// "the server promises to preserve the file through the grace period after server restart".
TEST_F(RecoveryTest, UnlinkedOpenFile_CanBeReclaimed) {
  client->open("/export/f");
  const nfs_fh4 fh = client->handle_of("/export/f");
  ASSERT_EQ(client->run_at("/export", ops(REMOVE4args{"f"})).status, NFS4_OK);
  server->restart();
  come_back(*client);
  OPEN4args args = client->open_args("");
  args.claim.claim = CLAIM_PREVIOUS;
  const COMPOUND4res reply = client->run(ops(PUTFH4args{fh}, args, READ4args{kCurrentStateid, 0, 100}));
  ASSERT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(as_string_view(at<READ4res>(reply, 2).resok4.data), "content");
  ASSERT_EQ(client->run(ops(RECLAIM_COMPLETE4args{})).status, NFS4_OK);
  const stateid4 id = at<OPEN4res>(reply, 1).resok4.stateid;
  EXPECT_EQ(client->run(ops(PUTFH4args{fh}, CLOSE4args{0, id}, GETFH4args{})).status, NFS4ERR_STALE)
      << "gone with the last CLOSE";
}

// --- leases ---

// "SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED ... all I/O submitted by the client with the now invalid stateids
// will fail with ... NFS4ERR_EXPIRED."
TEST_F(RecoveryTest, ExpiredLease_RevokesAllState) {
  const stateid4 open = client->open("/export/f", OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_DENY_BOTH);
  server->advance_clock(kLease + std::chrono::seconds(1));
  EXPECT_EQ(client->run_at("/export/f", ops(READ4args{open, 0, 1})).status, NFS4ERR_EXPIRED);
  EXPECT_EQ(client->last_flags, SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED);
  RawClient second(*server, "two");
  ASSERT_TRUE(second.establish());
  second.open("/export/f");
  EXPECT_EQ(client->run(ops(FREE_STATEID4args{open})).status, NFS4_OK);
  EXPECT_EQ(client->run({}).status, NFS4_OK);
  EXPECT_EQ(client->last_flags, 0u);
}

TEST_F(RecoveryTest, SequenceInTime_KeepsTheLease) {
  const stateid4 open = client->open("/export/f");
  for (int i = 0; i < 5; ++i) {
    server->advance_clock(kLease - std::chrono::seconds(1));
    ASSERT_EQ(client->run({}).status, NFS4_OK);
  }
  EXPECT_EQ(client->read("/export/f", open), "content");
}

TEST_F(RecoveryTest, ExpiredLeaseWithForgetting_IsBadsession) {
  server->configure([](nfs::Switches& s) { s.expiry = nfs::Expiry::kForgetClient; });
  client->open("/export/f");
  server->advance_clock(kLease + std::chrono::seconds(1));
  EXPECT_EQ(client->run({}).status, NFS4ERR_BADSESSION);
  EXPECT_EQ(client->create_session().status, NFS4ERR_STALE_CLIENTID);
}

// "locks associated with an expired lease do not prevent such a conflicting lock from being granted but MUST
// be revoked as necessary"; SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED.
TEST_F(RecoveryTest, CourtesyClient_LosesOnlyWhatConflicts) {
  server->configure([](nfs::Switches& s) { s.expiry = nfs::Expiry::kCourtesy; });
  server->make_file("/export/g", "other", 0666);
  const stateid4 f = client->open("/export/f", OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_DENY_BOTH);
  const stateid4 g = client->open("/export/g");
  server->advance_clock(kLease + std::chrono::seconds(1));
  RawClient second(*server, "two");
  ASSERT_TRUE(second.establish());
  second.open("/export/f");
  EXPECT_EQ(client->read("/export/g", g), "other");
  EXPECT_EQ(client->last_flags, SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED);
  EXPECT_EQ(client->run_at("/export/f", ops(READ4args{f, 0, 1})).status, NFS4ERR_EXPIRED);
}

// Two opens of one expired client deny another client's I/O: both are revoked.
TEST_F(RecoveryTest, CourtesyDenials_AllYieldToAnonymousIo) {
  server->configure([](nfs::Switches& s) { s.expiry = nfs::Expiry::kCourtesy; });
  client->open("/export/f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE, "a");
  client->open("/export/f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE, "b");
  RawClient second(*server, "two");
  ASSERT_TRUE(second.establish());
  EXPECT_EQ(second.write("/export/f", {}, 0, "x").status, NFS4ERR_LOCKED);
  server->advance_clock(kLease + std::chrono::seconds(1));
  EXPECT_EQ(second.write("/export/f", {}, 0, "x").status, NFS4_OK);
}

TEST_F(RecoveryTest, RevokedLock_IsFreedAfterItsOpenToo) {
  const stateid4 open = client->open("/export/f");
  const stateid4 locked = lock(*client, open, 0, 10).resok4.lock_stateid;
  ASSERT_TRUE(server->revoke(open));
  EXPECT_EQ(client->run(ops(FREE_STATEID4args{open})).status, NFS4_OK);
  const COMPOUND4res reply = client->run(ops(TEST_STATEID4args{{locked}}));
  EXPECT_EQ(at<TEST_STATEID4res>(reply, 0).resok4.tsr_status_codes,
            (std::vector<nfsstat4>{NFS4ERR_ADMIN_REVOKED}));
  EXPECT_EQ(client->run(ops(FREE_STATEID4args{locked})).status, NFS4_OK);
  EXPECT_EQ(client->run({}).status, NFS4_OK);
  EXPECT_EQ(client->last_flags, 0u);
}

TEST_F(RecoveryTest, CourtesyLocks_YieldToOthers) {
  server->configure([](nfs::Switches& s) { s.expiry = nfs::Expiry::kCourtesy; });
  const stateid4 open = client->open("/export/f");
  ASSERT_EQ(lock(*client, open, 0, 10).status, NFS4_OK);
  RawClient second(*server, "two");
  ASSERT_TRUE(second.establish());
  const stateid4 theirs = second.open("/export/f");
  EXPECT_EQ(lock(second, theirs, 5, 5).status, NFS4ERR_DENIED);
  server->advance_clock(kLease + std::chrono::seconds(1));
  EXPECT_EQ(lock(second, theirs, 5, 5).status, NFS4_OK);
}

TEST_F(RecoveryTest, DownAndUp_IsARestartOnTheSamePort) {
  client->open("/export/f");
  server->go_down();
  EXPECT_TRUE(client->connection->ended());
  client->reconnect();
  EXPECT_FALSE(client->connection->connected());
  ASSERT_TRUE(server->come_up({}));
  come_back(*client);
  EXPECT_EQ(reclaim_open(*client).status, NFS4_OK);
}

}  // namespace
}  // namespace nfsrdma::filer::test

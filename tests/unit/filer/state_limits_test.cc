// How many opens, locks and delegations clients may have (filer/state/states.h): nobody makes the server
// remember without end, and who is at the limit is told to wait.
//
// "For any of a number of reasons, the replier could not process this operation in what was deemed a
// reasonable time. The client should wait and then try the request with a new slot and sequence value." (RFC
// 8881 section 15.1.1.3)

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

using std::chrono::seconds;

class StateLimits : public ::testing::Test {
 protected:
  // One client has at most half of what is given here.
  void start(StateTable::Limits limits) {
    server = start_server({.state_limits = limits, .manual_clock = true});
    for (const char* path : {"/export/f", "/export/g", "/export/h"}) server->make_file(path, "content", 0666);
    one = std::make_unique<RawClient>(*server, "one");
    two = std::make_unique<RawClient>(*server, "two");
    ASSERT_TRUE(one->establish());
    ASSERT_TRUE(two->establish());
  }
  static nfsstat4 try_open(RawClient& c, const std::string& name, const std::string& owner = "owner") {
    const OPEN4args args = c.open_args(name, OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_NONE, owner);
    return c.run_at("/export", ops(args)).status;
  }
  static LOCK4res lock(RawClient& c, stateid4 open, uint64_t offset, uint64_t length,
                       const std::string& owner = "process") {
    LOCK4args args;
    args.locktype = WRITE_LT;
    args.offset = offset;
    args.length = length;
    args.locker.new_lock_owner = true;
    args.locker.stateid = open;
    args.locker.lock_owner.owner = owner;
    return at<LOCK4res>(c.run_at("/export/f", ops(args)), 0);
  }
  static nfsstat4 unlock(RawClient& c, stateid4 id, uint64_t offset, uint64_t length) {
    return c.run_at("/export/f", ops(LOCKU4args{WRITE_LT, 0, id, offset, length})).status;
  }

  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> one;
  std::unique_ptr<RawClient> two;
};

TEST_F(StateLimits, Opens_OneClientHasHalfAndTheOtherStillItsPart) {
  start({.max_states = 4});
  stateid4 f = one->open("/export/f");
  f.seqid = 0;  // whichever is the current one
  ASSERT_EQ(try_open(*one, "g"), NFS4_OK);
  EXPECT_EQ(try_open(*one, "h"), NFS4ERR_DELAY);
  EXPECT_EQ(try_open(*one, "f"), NFS4_OK) << "the same open once more";
  EXPECT_EQ(try_open(*one, "f", "another owner"), NFS4ERR_DELAY);
  EXPECT_EQ(try_open(*two, "h"), NFS4_OK);
  EXPECT_EQ(one->run_at("/export/f", ops(CLOSE4args{0, f})).status, NFS4_OK);
  EXPECT_EQ(try_open(*one, "h"), NFS4_OK);
}

TEST_F(StateLimits, CreateAtTheLimit_LeavesNoFile) {
  start({.max_states = 2});
  one->open("/export/f");
  OPEN4args args = one->open_args("new");
  args.openhow.opentype = OPEN4_CREATE;
  args.openhow.how.mode = GUARDED4;
  EXPECT_EQ(one->run_at("/export", ops(args)).status, NFS4ERR_DELAY);
  EXPECT_EQ(one->run_at("/export/new", {}).status, NFS4ERR_NOENT);
}

TEST_F(StateLimits, LockOwners_AreStates) {
  start({.max_states = 4});
  const stateid4 open = one->open("/export/f");
  ASSERT_EQ(lock(*one, open, 0, 1, "first").status, NFS4_OK);
  EXPECT_EQ(lock(*one, open, 1, 1, "second").status, NFS4ERR_DELAY);
  EXPECT_EQ(lock(*one, open, 1, 1, "first").status, NFS4_OK);
}

TEST_F(StateLimits, Locks_AreCountedByRangesThatAreHeld) {
  start({.max_locks = 8});
  const stateid4 open = one->open("/export/f");
  stateid4 id = lock(*one, open, 0, 100).resok4.lock_stateid;
  id.seqid = 0;
  ASSERT_EQ(unlock(*one, id, 10, 1), NFS4_OK);
  ASSERT_EQ(unlock(*one, id, 20, 1), NFS4_OK);
  EXPECT_EQ(unlock(*one, id, 30, 1), NFS4ERR_DELAY) << "it would leave a fourth; a LOCK may leave two more";
  EXPECT_EQ(lock(*one, open, 200, 1).status, NFS4ERR_DELAY);
  EXPECT_EQ(unlock(*one, id, 0, 10), NFS4_OK) << "what leaves fewer is always possible";
  EXPECT_EQ(unlock(*one, id, 30, 1), NFS4_OK);
  EXPECT_EQ(unlock(*one, id, 0, NFS4_UINT64_MAX), NFS4_OK);
  EXPECT_EQ(lock(*one, open, 200, 1).status, NFS4_OK);
}

TEST_F(StateLimits, WhatIsGivenUp_IsNotCountedAnyMore) {
  start({.max_states = 8, .max_locks = 8});
  for (int round = 0; round < 10; ++round) {
    const stateid4 open = one->open("/export/f");
    ASSERT_EQ(lock(*one, open, 0, 1).status, NFS4_OK) << round;
    ASSERT_EQ(lock(*one, open, 10, 1).status, NFS4_OK) << round;
    ASSERT_EQ(one->run_at("/export/f", ops(CLOSE4args{0, open})).status, NFS4_OK);
  }
}

TEST_F(StateLimits, WhatARestartTook_IsNotCountedAnyMore) {
  start({.max_states = 4});
  server->configure([](Switches& s) { s.keep_sessions_on_restart = true; });
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(try_open(*one, "f"), NFS4_OK) << round;
    ASSERT_EQ(try_open(*one, "g"), NFS4_OK) << round;
    server->restart({.forget_reclaims = true});
    one->reconnect();
    ASSERT_EQ(one->run(ops(RECLAIM_COMPLETE4args{})).status, NFS4_OK) << round;
  }
}

TEST_F(StateLimits, WhoseLeaseIsOver_MakesRoom) {
  start({.max_states = 4});
  RawClient three(*server, "three");
  ASSERT_TRUE(three.establish());
  for (RawClient* c : {one.get(), two.get()}) {
    ASSERT_EQ(try_open(*c, "f"), NFS4_OK);
    ASSERT_EQ(try_open(*c, "g"), NFS4_OK);
  }
  EXPECT_EQ(try_open(three, "f"), NFS4ERR_DELAY) << "all have a lease";
  server->advance_clock(seconds(80));
  ASSERT_EQ(two->run({}).status, NFS4_OK);
  ASSERT_EQ(three.run({}).status, NFS4_OK);
  server->advance_clock(seconds(20));
  EXPECT_EQ(try_open(three, "f"), NFS4_OK);
  EXPECT_EQ(one->run({}).status, NFS4ERR_BADSESSION)
      << "revoked state is remembered only while there is room";
  EXPECT_EQ(try_open(*two, "f"), NFS4_OK);
}

TEST_F(StateLimits, Delegations_AreNotOfferedWhereThereIsNoRoom) {
  start({.max_states = 6});
  server->configure([](Switches& s) { s.delegations = Delegations::kReadOrWrite; });
  const auto open = [&](const std::string& name) {
    OPEN4args args = one->open_args(name, OPEN4_SHARE_ACCESS_READ);
    args.share_access |= OPEN4_SHARE_ACCESS_WANT_READ_DELEG;
    return at<OPEN4res>(one->run_at("/export", ops(args)), 0).resok4.delegation;
  };
  EXPECT_EQ(open("f").delegation_type, OPEN_DELEGATE_READ);
  const open_delegation4 none = open("g");
  EXPECT_EQ(none.delegation_type, OPEN_DELEGATE_NONE_EXT);
  EXPECT_EQ(none.ond_why, WND4_RESOURCE);
}

// A client that is told when a lock may be had (CB_NOTIFY_LOCK) and polls besides is told once.
TEST_F(StateLimits, WhoAsksForALockAgainAndAgain_IsToldOnce) {
  start({});
  server->configure([](Switches& s) { s.notify_locks = true; });
  const stateid4 held = lock(*one, one->open("/export/f"), 0, 10).resok4.lock_stateid;
  const stateid4 open = two->open("/export/f");
  LOCK4args args;
  args.locktype = WRITEW_LT;
  args.length = 10;
  args.locker.new_lock_owner = true;
  args.locker.stateid = open;
  args.locker.lock_owner.owner = "waiter";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(two->run_at("/export/f", ops(args)).status, NFS4ERR_DENIED);
  ASSERT_EQ(unlock(*one, held, 0, 10), NFS4_OK);
  EXPECT_TRUE(two->serve_callback());
  EXPECT_FALSE(two->serve_callback(NFS4_OK, 100));
}

}  // namespace
}  // namespace nfsrdma::filer::test

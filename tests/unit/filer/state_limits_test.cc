// SPDX-License-Identifier: Apache-2.0
// Limits for opens, locks and delegations (filer/state/states.h): a client at its limit gets NFS4ERR_DELAY.
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
  // One client may have at most half of `limits`.
  void start(state::StateTable::Limits limits) {
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
    return at<LOCK4res>(c.run_at("/export/f", ops(first_lock(open, WRITE_LT, offset, length, owner))), 0);
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
  f.seqid = 0;  // means the current seqid
  ASSERT_EQ(try_open(*one, "g"), NFS4_OK);
  EXPECT_EQ(try_open(*one, "h"), NFS4ERR_DELAY);
  EXPECT_EQ(try_open(*one, "f"), NFS4_OK) << "the same open once more";
  EXPECT_EQ(try_open(*one, "f", "another owner"), NFS4ERR_DELAY);
  EXPECT_EQ(try_open(*two, "h"), NFS4_OK);
  EXPECT_EQ(one->run_at("/export/f", ops(CLOSE4args{0, f})).status, NFS4_OK);
  EXPECT_EQ(try_open(*one, "h"), NFS4_OK);
}

// One user with several clients may have seven eighths.
TEST_F(StateLimits, Opens_OneUserWithTwoClientsLeavesSome) {
  start({.max_states = 16});
  RawClient other(*server, "other", User{1002, 1002});
  ASSERT_TRUE(other.establish());
  size_t opens = 0;
  for (int i = 0; i < 20; ++i) {
    for (RawClient* client : {one.get(), two.get()})
      opens += try_open(*client, "f", std::to_string(i)) == NFS4_OK ? 1 : 0;
  }
  EXPECT_EQ(opens, 14u);
  EXPECT_EQ(try_open(other, "f"), NFS4_OK);
  EXPECT_EQ(try_open(other, "g"), NFS4_OK);
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
  ASSERT_EQ(unlock(*one, id, 30, 1), NFS4_OK);
  EXPECT_EQ(unlock(*one, id, 40, 1), NFS4ERR_DELAY) << "it would leave a fifth";
  EXPECT_EQ(lock(*one, open, 200, 1).status, NFS4ERR_DELAY);
  EXPECT_EQ(unlock(*one, id, 0, 10), NFS4_OK) << "what leaves fewer is always possible";
  EXPECT_EQ(unlock(*one, id, 40, 1), NFS4_OK);
  EXPECT_EQ(unlock(*one, id, 0, NFS4_UINT64_MAX), NFS4_OK);
  EXPECT_EQ(lock(*one, open, 200, 1).status, NFS4_OK);
}

// One client may have half; one user with several clients seven eighths.
TEST_F(StateLimits, Locks_OneClientHasHalfAndOneUserLeavesSome) {
  start({.max_locks = 8});
  const stateid4 ours = one->open("/export/f"), theirs = two->open("/export/f");
  for (const uint64_t offset : {0u, 10u, 20u, 30u}) EXPECT_EQ(lock(*one, ours, offset, 1).status, NFS4_OK);
  EXPECT_EQ(lock(*one, ours, 40, 1).status, NFS4ERR_DELAY);
  for (const uint64_t offset : {100u, 110u, 120u}) EXPECT_EQ(lock(*two, theirs, offset, 1).status, NFS4_OK);
  EXPECT_EQ(lock(*two, theirs, 130, 1).status, NFS4ERR_DELAY);
  RawClient other(*server, "other", User{1002, 1002});
  ASSERT_TRUE(other.establish());
  EXPECT_EQ(lock(other, other.open("/export/f"), 200, 1).status, NFS4_OK);
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
  server->configure([](nfs::Switches& s) { s.keep_sessions_on_restart = true; });
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(try_open(*one, "f"), NFS4_OK) << round;
    ASSERT_EQ(try_open(*one, "g"), NFS4_OK) << round;
    server->restart({.forget_reclaims = true});
    one->reconnect();
    ASSERT_EQ(one->run(ops(RECLAIM_COMPLETE4args{})).status, NFS4_OK) << round;
  }
}

// The tables' counters match what exists.
TEST_F(StateLimits, Counts_AreOfWhatIsThere) {
  start({});
  const auto expect = [&](size_t states, size_t of_one, size_t locks) {
    server->with_core([&](nfs::Core& core) {
      EXPECT_EQ(core.states.size(), states);
      EXPECT_EQ(core.clients.find(one->clientid)->states.size(), of_one);
      EXPECT_EQ(core.states.lock_count(), locks);
      size_t counted = 0;
      core.clients.each_client([&](const state::Client& c) { counted += c.locks; });
      EXPECT_EQ(counted, locks);
    });
  };
  const stateid4 first = one->open("/export/f");
  const stateid4 second = one->open("/export/f", OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_DENY_NONE, "another");
  const stateid4 lock1 = lock(*one, first, 0, 10).resok4.lock_stateid;
  ASSERT_EQ(lock(*one, second, 20, 10).status, NFS4_OK) << "by the same lock-owner under another open";
  ASSERT_EQ(lock(*two, two->open("/export/f"), 40, 1).status, NFS4_OK);
  expect(6, 4, 3);
  ASSERT_EQ(one->run_at("/export/f", ops(CLOSE4args{0, second})).status, NFS4_OK);
  expect(4, 2, 2);
  ASSERT_TRUE(server->revoke(first));
  expect(4, 2, 1);
  EXPECT_EQ(one->run(ops(FREE_STATEID4args{first})).status, NFS4_OK);
  expect(3, 1, 1);
  EXPECT_EQ(one->run(ops(FREE_STATEID4args{lock1})).status, NFS4_OK) << "acknowledged after its open";
  expect(2, 0, 1);
  server->advance_clock(seconds(80));
  ASSERT_EQ(one->run({}).status, NFS4_OK);
  server->advance_clock(seconds(20));
  ASSERT_EQ(one->run({}).status, NFS4_OK);
  expect(2, 0, 0);  // the state of "two" is revoked, but not freed yet
}

// A client at its own limit does not cause expired clients to be forgotten.
TEST_F(StateLimits, AtOnesOwnLimit_NobodyElseIsForgotten) {
  start({.max_states = 4});
  server->configure([](nfs::Switches& s) { s.expiry = nfs::Expiry::kCourtesy; });
  const stateid4 theirs = two->open("/export/h");
  server->advance_clock(seconds(80));
  ASSERT_EQ(try_open(*one, "f"), NFS4_OK);
  ASSERT_EQ(try_open(*one, "g"), NFS4_OK);
  server->advance_clock(seconds(20));
  EXPECT_EQ(try_open(*one, "h"), NFS4ERR_DELAY);
  EXPECT_EQ(two->read("/export/h", theirs), "content") << "its lease was over, and nobody wanted what it has";
}

TEST_F(StateLimits, OneExpiredClient_IsEnoughWhereItIs) {
  start({.max_states = 4});
  server->configure([](nfs::Switches& s) { s.expiry = nfs::Expiry::kCourtesy; });
  RawClient three(*server, "three");
  ASSERT_TRUE(three.establish());
  ASSERT_EQ(try_open(*one, "f"), NFS4_OK);
  ASSERT_EQ(try_open(*one, "g"), NFS4_OK);
  server->advance_clock(seconds(1));
  ASSERT_EQ(try_open(*two, "f"), NFS4_OK);
  ASSERT_EQ(try_open(*two, "g"), NFS4_OK);
  server->advance_clock(seconds(80));
  ASSERT_EQ(three.run({}).status, NFS4_OK);
  server->advance_clock(seconds(20));
  EXPECT_EQ(try_open(three, "h"), NFS4_OK);
  EXPECT_EQ(one->run({}).status, NFS4ERR_BADSESSION) << "the longest expired";
  EXPECT_EQ(two->run({}).status, NFS4_OK);
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
  server->configure([](nfs::Switches& s) { s.delegations = nfs::Delegations::kReadOrWrite; });
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

// Before DELEGRETURN, the client must be able to claim the opens under the delegation.
TEST_F(StateLimits, ADelegation_CanBeGivenBackAtTheLimit) {
  start({.max_states = 4});
  server->configure([](nfs::Switches& s) { s.delegations = nfs::Delegations::kReadOrWrite; });
  OPEN4args args = one->open_args("f", OPEN4_SHARE_ACCESS_READ);
  args.share_access |= OPEN4_SHARE_ACCESS_WANT_READ_DELEG;
  const open_delegation4 held = at<OPEN4res>(one->run_at("/export", ops(args)), 0).resok4.delegation;
  ASSERT_EQ(held.delegation_type, OPEN_DELEGATE_READ);
  EXPECT_EQ(try_open(*one, "g"), NFS4ERR_DELAY);
  args.share_access = OPEN4_SHARE_ACCESS_READ;
  args.owner.owner = "under the delegation";
  args.claim = {};
  args.claim.claim = CLAIM_DELEG_CUR_FH;
  args.claim.delegate_stateid = held.stateid;
  EXPECT_EQ(one->run_at("/export/f", ops(args)).status, NFS4_OK);
  EXPECT_EQ(one->run_at("/export/f", ops(DELEGRETURN4args{held.stateid})).status, NFS4_OK);
}

// Also if the record says only that the client held some state.
TEST_F(StateLimits, ADelegationThatIsReclaimedAgain_IsTheSame) {
  start({});
  server->configure([](nfs::Switches& s) {
    s.delegations = nfs::Delegations::kReadOrWrite;
    s.verify_reclaims = false;
  });
  one->open("/export/f");
  server->restart();
  one->reconnect();
  ASSERT_TRUE(one->establish(false));
  OPEN4args args = one->open_args("f", OPEN4_SHARE_ACCESS_READ);
  args.claim = {};
  args.claim.claim = CLAIM_PREVIOUS;
  args.claim.delegate_type = OPEN_DELEGATE_READ;
  std::optional<stateid4> first;
  for (int i = 0; i < 3; ++i) {
    const COMPOUND4res reply = one->run_at("/export/f", ops(args));
    const OPEN4res& res = at<OPEN4res>(reply, 0);
    ASSERT_EQ(res.status, NFS4_OK);
    ASSERT_EQ(res.resok4.delegation.delegation_type, OPEN_DELEGATE_READ);
    if (!first) first = res.resok4.delegation.stateid;
    EXPECT_EQ(res.resok4.delegation.stateid, *first);
  }
  server->with_core([](nfs::Core& core) { EXPECT_EQ(core.states.size(), 2u); });
}

TEST_F(StateLimits, LocksAtTheLimit_CanBeReclaimedAndBecomeFewer) {
  start({.max_locks = 8});
  const auto take_all = [&](const stateid4& open, bool reclaim) {
    for (uint64_t i = 0; i < 4; ++i) {
      LOCK4args args = first_lock(open, WRITE_LT, 10 * i, 1);
      args.reclaim = reclaim;
      ASSERT_EQ(one->run_at("/export/f", ops(args)).status, NFS4_OK) << i;
    }
  };
  take_all(one->open("/export/f"), false);
  server->restart();
  one->reconnect();
  ASSERT_TRUE(one->establish(false));
  OPEN4args args = one->open_args("f");
  args.claim = {};
  args.claim.claim = CLAIM_PREVIOUS;
  const stateid4 open = at<OPEN4res>(one->run_at("/export/f", ops(args)), 0).resok4.stateid;
  take_all(open, true);
  ASSERT_EQ(one->run(ops(RECLAIM_COMPLETE4args{})).status, NFS4_OK);
  two->reconnect();
  ASSERT_TRUE(two->establish());
  EXPECT_EQ(lock(*one, open, 50, 1).status, NFS4ERR_DELAY);
  EXPECT_EQ(lock(*one, open, 0, 35).status, NFS4_OK) << "one for four";
  EXPECT_EQ(lock(*one, open, 50, 1).status, NFS4_OK);
}

// A client that waits for CB_NOTIFY_LOCK and also polls is notified once.
TEST_F(StateLimits, WhoAsksForALockAgainAndAgain_IsToldOnce) {
  start({});
  server->configure([](nfs::Switches& s) { s.notify_locks = true; });
  const stateid4 held = lock(*one, one->open("/export/f"), 0, 10).resok4.lock_stateid;
  const stateid4 open = two->open("/export/f");
  const LOCK4args args = first_lock(open, WRITEW_LT, 0, 10, "waiter");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(two->run_at("/export/f", ops(args)).status, NFS4ERR_DENIED);
  ASSERT_EQ(unlock(*one, held, 0, 10), NFS4_OK);
  EXPECT_TRUE(two->serve_callback());
  EXPECT_FALSE(two->serve_callback(NFS4_OK, 100));
}

}  // namespace
}  // namespace nfsrdma::filer::test

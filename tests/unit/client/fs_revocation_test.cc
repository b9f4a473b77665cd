// SPDX-License-Identifier: Apache-2.0
// Delegations that the server revokes or loses in a restart (RFC 8881 sections 8.4.2.1, 10.2.1, 10.5, 18.38,
// 18.48).
#include "tests/unit/client/support/delegation_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using filer::state::StateKind;
namespace on = filer::on;
using client::LockType;

// --- revoked (sections 10.5, 18.38, 18.48) ---

// Section 18.46.3: SEQ4_STATUS_RECALLABLE_STATE_REVOKED, and "the client ... should use TEST_STATEID".
TEST_P(DelegationLoops, RevokedForAnUnheededRecall_IsFoundOutAndAcknowledged) {
  const auto file = mount->open("file");
  auto second = mount->run(mount->fs().open(mount->user(1000, 1000), mount->node("file"), O_RDONLY));
  ASSERT_TRUE(second);
  revoke_delegations();
  EXPECT_EQ(*mount->read(second->file), "content") << "opened anew";
  EXPECT_EQ(*mount->read(file), "content");
  EXPECT_TRUE(none_left()) << "FREE_STATEID";
  EXPECT_EQ(numbers().revoked, 1u);
  EXPECT_EQ(mount->close(second->file), 0);
  EXPECT_EQ(mount->close(file), 0);
  mount->expect_leftovers();
}

// The same if the return detects the revocation. Until the stateid is freed, SEQUENCE's flags report a
// revocation, and nothing is answered without the server.
TEST_P(DelegationLoops, RevokedWhileItGoesBack_IsAcknowledged) {
  for (const nfs_opnum4 op : {OP_DELEGRETURN, OP_OPEN}) {
    const auto file = mount->open("file");
    // A second user's open, which must be claimed at the server first.
    auto second = mount->run(mount->fs().open(mount->user(1000, 1000), mount->node("file"), O_RDONLY));
    ASSERT_TRUE(second);
    ASSERT_EQ(numbers().held_read, 1u) << op_name(op);
    const auto going = server->faults().add(on::request_with(op), filer::fault::Stall{});
    ASSERT_EQ(server->recall("/export/file"), 1u);
    ASSERT_TRUE(server->faults().wait_fired(going));
    revoke_delegations();
    server->faults().release(going);
    EXPECT_TRUE(none_left()) << op_name(op);
    EXPECT_EQ(*mount->read(file), "content");
    EXPECT_EQ(*mount->read(second->file), "content");
    EXPECT_EQ(mount->close(second->file), 0);
    EXPECT_EQ(mount->close(file), 0);
  }
  EXPECT_EQ(mount->read_file("file"), "content");
  server->clear_journal();
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(executed(OP_OPEN), 0u) << "answered here";
}

// A revoked delegation guarantees nothing, whatever the clock says: the next stat(2) asks the server, and
// open files are read again.
TEST_P(DelegationLoops, Revoked_WhatItVouchedForIsAskedForAgain) {
  mount_with(std::chrono::seconds(600));
  const auto file = mount->open("file");
  const auto node = mount->node("file");
  ASSERT_EQ(numbers().held_read, 1u);
  revoke_delegations();
  ASSERT_TRUE(server->write_file("/export/file", 0, "other content"));
  EXPECT_EQ(*mount->read(file), "other content") << "finds out";
  EXPECT_EQ(numbers().revoked, 1u);
  EXPECT_EQ(mount->front_end.data(node), 1u);
  EXPECT_EQ(mount->stat("file")->size, 13u);
  EXPECT_EQ(mount->close(file), 0);
  mount->expect_leftovers();
}

// The reply to LOCK reports a revocation. Until it is known what was revoked, no delegation replaces what
// section 10.3.2 demands for the lock: to validate cached data.
TEST_P(DelegationLoops, RevokedBeforeALock_TheLockValidatesWhateverTheClockSays) {
  mount_with(std::chrono::seconds(600));
  const auto file = mount->open("file");
  const auto node = mount->node("file");
  ASSERT_EQ(numbers().held_read, 1u);
  const auto rule = server->faults().add(on::request_with(OP_TEST_STATEID), filer::fault::Stall{});
  revoke_delegations();
  ASSERT_TRUE(server->write_file("/export/file", 0, "CONTENT"));
  EXPECT_EQ(mount->lock(file, LockType::kRead), 0);
  EXPECT_GE(mount->front_end.data(node), 1u);
  ASSERT_TRUE(server->faults().wait_fired(rule));
  server->faults().release(rule);
  EXPECT_EQ(mount->close(file), 0);
  mount->expect_leftovers();
}

// Section 10.5: "When locks and delegations are revoked, the assumptions upon which successful caching
// depends are no longer guaranteed." A client that cannot reach the server for longer than its lease does not
// know whether they were revoked.
TEST_P(DelegationLoops, CutOffForLongerThanTheLease_NothingIsAnsweredFromAPromise) {
  start_with_a_short_lease();
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(mount->stat("file")->size, 7u);
  ASSERT_EQ(numbers().held_read, 1u);
  const auto node = mount->node("file");
  cut_off_for_longer_than_the_lease();
  auto attributes = mount->start(mount->fs().getattr(mount->user(), node, nullptr));
  auto opened = mount->start(mount->fs().open(mount->user(), node, O_RDONLY));
  for (const auto& client : server->clients()) server->expire_lease(client.id);
  ASSERT_TRUE(server->write_file("/export/file", 0, "other content"));
  server->pause_reading(false);
  const auto answer = attributes.get();
  ASSERT_TRUE(answer) << describe(answer.error());
  EXPECT_EQ(answer->attributes.size, 13u);
  auto file = opened.get();
  ASSERT_TRUE(file) << describe(file.error());
  EXPECT_GE(mount->front_end.data(node), 1u);
  EXPECT_EQ(mount->close(file->file), 0);
  mount->expect_leftovers();
}

// Attributes may still be valid by the clock, but an open must ask the server.
TEST_P(DelegationLoops, CutOffForLongerThanTheLease_NoOpenIsAnsweredByTheClock) {
  start_with_a_short_lease(std::chrono::seconds(600));
  EXPECT_EQ(mount->read_file("file"), "content");
  ASSERT_EQ(numbers().held_read, 1u);
  const auto node = mount->node("file");
  cut_off_for_longer_than_the_lease();
  auto opened = mount->start(mount->fs().open(mount->user(), node, O_RDONLY));
  for (const auto& client : server->clients()) server->expire_lease(client.id);
  ASSERT_TRUE(server->write_file("/export/file", 0, "other content"));
  server->pause_reading(false);
  const auto file = opened.get();
  ASSERT_TRUE(file) << describe(file.error());
  EXPECT_FALSE(file->keep_cache && mount->front_end.data(node) == 0) << "the kernel's pages are old";
  EXPECT_EQ(*mount->read(file->file), "other content");
  EXPECT_EQ(mount->stat("file")->size, 13u);
  EXPECT_EQ(mount->close(file->file), 0);
  mount->expect_leftovers();
}

// The same for a lock: the delegation allowed local locks, so it is tested first.
TEST_P(DelegationLoops, CutOffForLongerThanTheLease_NoLockIsGivenHere) {
  start_with_a_short_lease();
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(numbers().held_write, 1u);
  cut_off_for_longer_than_the_lease();
  auto locked = mount->start(
      mount->fs().setlk(mount->user(), file, 1, {LockType::kWrite, 0, 9, TestMount::process(1)}, false));
  for (const auto& client : server->clients()) server->expire_lease(client.id);
  TestMount other(*server);
  const auto theirs = other.open("file", O_RDWR);
  ASSERT_EQ(other.lock(theirs, LockType::kWrite, 0, 9), 0);
  server->pause_reading(false);
  EXPECT_EQ(errno_of(locked.get()), EAGAIN);
  EXPECT_EQ(other.close(theirs), 0);
  mount->close(file);
  mount->expect_leftovers();
}

// --- restart (sections 8.4.2.1, 10.2.1) ---

// "The client reclaims ... with a claim type of CLAIM_PREVIOUS and a delegate_type": the type that it had.
TEST_P(DelegationLoops, Restart_TheDelegationIsReclaimed) {
  EXPECT_EQ(mount->read_file("file"), "content");
  const auto file = mount->open("file", O_RDONLY);
  server->restart();
  EXPECT_EQ(*mount->read(file), "content");
  ASSERT_EQ(live(StateKind::kDelegation).size(), 1u);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(numbers().held_read, 1u);
  EXPECT_EQ(numbers().revoked, 0u);
  server->recall("/export/file");
  EXPECT_TRUE(returned());
}

// Section 10.4.3: "c" is the change attribute when the delegation is granted again. Otherwise each stat(2) of
// another client would show a modification.
TEST_P(DelegationLoops, Restart_AnotherClientsStatChangesNothing) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->write(file, 0, "written"), 0);
  ASSERT_EQ(mount->fsync(file), 0);
  server->restart();
  EXPECT_EQ(*mount->read(file), "written");
  ASSERT_EQ(numbers().held_write, 1u);
  const auto before = *server->stat("/export/file");
  TestMount other(*server);
  for (int i = 0; i < 2; ++i) {
    const auto seen = other.stat("file");
    ASSERT_TRUE(seen) << describe(seen.error());
    EXPECT_EQ(seen->change, before.change);
  }
  EXPECT_EQ(server->stat("/export/file")->change, before.change);
  EXPECT_EQ(numbers().held_write, 1u) << "and was only asked";
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(DelegationLoops, RestartThatGivesNothingBack_OpensAnew) {
  const auto file = mount->open("file");
  auto second = mount->run(mount->fs().open(mount->user(1000, 1000), mount->node("file"), O_RDONLY));
  ASSERT_TRUE(second);
  server->restart({.forget_reclaims = true});
  EXPECT_EQ(*mount->read(file), "content");
  EXPECT_EQ(*mount->read(second->file), "content");
  EXPECT_EQ(numbers().held_read + numbers().held_write, live(StateKind::kDelegation).size());
  EXPECT_EQ(mount->close(second->file), 0);
  EXPECT_EQ(mount->close(file), 0);
}

// A server that reclaims no delegation. "Upon reclaim, a client reporting resources assigned to it by an
// earlier server instance must be granted those resources": what was opened and locked under the delegation.
class NoDelegationBack : public DelegationLoops {
 protected:
  // A mount that has the file open twice and locked, under a write delegation, and nothing else.
  void begin() {
    file = second = nullptr;
    mount.reset();
    mount = std::make_unique<TestMount>(*server, TestMount::Settings{.loops = GetParam()});
    server->configure([](filer::nfs::Switches& s) { s.give_delegations_back = false; });
    file = mount->open("file", O_RDWR);
    auto opened = mount->run(mount->fs().open(mount->user(1000, 1000), mount->node("file"), O_RDWR));
    ASSERT_TRUE(opened);
    second = opened->file;
    ASSERT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0);
    ASSERT_EQ(mount->lock(file, LockType::kRead, 20, 29), 0);
    ASSERT_EQ(mount->lock(second, LockType::kWrite, 100, UINT64_MAX, 2), 0);
    server->clear_journal();
    ASSERT_EQ(live(StateKind::kLock).size(), 0u) << "they are local";
    ASSERT_EQ(live(StateKind::kOpen).size(), 1u) << "as is the second open";
  }
  bool kept() {
    return mount->read(file, 0, 3).value_or("error") == "con" &&
           mount->read(second, 0, 3).value_or("error") == "con";
  }
  // Of these bytes, those whose lock another client is denied; each byte alone.
  std::vector<int> denied(std::initializer_list<uint64_t> bytes) {
    TestMount other(*server);
    const auto theirs = other.open("file", O_RDWR);
    std::vector<int> answers;
    for (const uint64_t at : bytes) answers.push_back(other.lock(theirs, LockType::kWrite, at, at));
    other.close(theirs);
    return answers;
  }
  void end() {
    EXPECT_EQ(mount->lock(file, LockType::kUnlock), 0);
    EXPECT_EQ(denied({0, 9, 20, 29}), (std::vector{0, 0, 0, 0}));
    EXPECT_EQ(mount->close(second, 2), 0);
    EXPECT_EQ(mount->close(file), 0);
    EXPECT_TRUE(server->states().empty());
  }
  static std::vector<int> all_are_ours() { return std::vector(6, EAGAIN); }

  client::OpenFileRef file, second;
};

TEST_P(NoDelegationBack, LocalOpensAndLocks_AreReclaimed) {
  begin();
  server->restart();
  EXPECT_TRUE(kept()) << "nobody is told of a lock that was lost";
  EXPECT_EQ(live(StateKind::kOpen).size(), 2u);
  EXPECT_EQ(live(StateKind::kDelegation).size(), 0u);
  EXPECT_EQ(executed(OP_LOCK), 3u);
  EXPECT_EQ(numbers().held_write, 0u);
  EXPECT_EQ(numbers().revoked, 1u);
  EXPECT_EQ(mount->write(file, 0, "CON"), 0) << "under the lock";
  EXPECT_EQ(mount->fsync(file), 0);
  EXPECT_EQ(denied({0, 9, 20, 29, 100, UINT64_MAX}), all_are_ours());
  EXPECT_EQ(denied({10, 19, 30, 99}), (std::vector{0, 0, 0, 0}));
  end();
}

// The reclaim starts again, with the same server or with the next one.
TEST_P(NoDelegationBack, CutOrRestartedAmidst_LosesNothing) {
  for (const nfs_opnum4 op : {OP_OPEN, OP_LOCK}) {
    for (const unsigned nth : {1u, 2u, 3u}) {
      if (op == OP_OPEN && nth == 3) continue;  // there are only two
      for (const bool restarted : {false, true}) {
        SCOPED_TRACE(std::string(op_name(op)) + " " + std::to_string(nth) +
                     (restarted ? " restarted" : " cut"));
        begin();
        const auto when = (restarted ? on::reply_to(op) : on::request_with(op)).nth(nth);
        const auto rule = restarted ? server->faults().add(when, filer::fault::Restart{})
                                    : server->faults().add(when, filer::fault::Cut{});
        server->restart();
        EXPECT_TRUE(kept());
        EXPECT_TRUE(server->faults().wait_fired(rule));
        EXPECT_EQ(denied({0, 9, 20, 29, 100, UINT64_MAX}), all_are_ours());
        end();
      }
    }
  }
}

// No LOCKU is sent: only the reclaim can release the lock at the server.
TEST_P(NoDelegationBack, LockGivenUpAmidstItsReclaim_IsNotHeld) {
  for (const bool executed : {false, true}) {
    SCOPED_TRACE(executed);
    begin();
    const auto when = executed ? on::reply_to(OP_LOCK) : on::request_with(OP_LOCK);
    const auto locking = server->faults().add(when, filer::fault::Stall{});
    server->restart();
    ASSERT_TRUE(server->faults().wait_fired(locking));
    EXPECT_EQ(mount->lock(file, LockType::kUnlock, 2, 4), 0);
    server->faults().release(locking);
    EXPECT_TRUE(kept());
    EXPECT_EQ(denied({0, 1, 2, 4, 5, 9}), (std::vector{EAGAIN, EAGAIN, 0, 0, EAGAIN, EAGAIN}));
    end();
  }
}

// The server reclaimed the lock and its reply was lost; then the holder releases the lock.
TEST_P(NoDelegationBack, LockGivenUpBehindALostAnswer_IsNotHeld) {
  begin();
  const auto answered = server->faults().add(on::reply_to(OP_LOCK), filer::fault::Cut{});
  server->restart();
  ASSERT_TRUE(server->faults().wait_fired(answered));
  EXPECT_EQ(mount->lock(file, LockType::kUnlock), 0);
  EXPECT_TRUE(kept());
  EXPECT_EQ(denied({0, 9, 20, 29, 100}), (std::vector{0, 0, 0, 0, EAGAIN}));
  end();
}

// After the second restart the server grants delegations again. Locks that are under one by then stay local.
TEST_P(NoDelegationBack, GivenBackByTheNextRestart_LocksAreStillKept) {
  begin();
  const auto when = on::request_with(OP_LOCK).nth(2);
  server->faults().add(when, filer::fault::Call{[this] {
                         server->configure([](filer::nfs::Switches& s) { s.give_delegations_back = true; });
                       }});
  const auto restarted = server->faults().add(when, filer::fault::Restart{});
  server->restart();
  EXPECT_TRUE(kept());
  EXPECT_TRUE(server->faults().wait_fired(restarted));
  EXPECT_EQ(live(StateKind::kDelegation).size(), 1u);
  EXPECT_EQ(denied({0, 9, 20, 29, 100, UINT64_MAX}), all_are_ours());
  end();
}

INSTANTIATE_TEST_SUITE_P(Loops, NoDelegationBack, testing::Values(1u, 4u));

// A lost session does not end delegations (section 2.10.10.1).
TEST_P(DelegationLoops, LostSession_KeepsTheDelegation) {
  EXPECT_EQ(mount->read_file("file"), "content");
  server->forget_session(server->clients().at(0).sessions.at(0));
  EXPECT_TRUE(mount->stat(""));
  server->clear_journal();
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(executed(OP_OPEN), 0u);
  server->recall("/export/file");
  EXPECT_TRUE(returned());
}

}  // namespace
}  // namespace nfsrdma::test

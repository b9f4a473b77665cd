// SPDX-License-Identifier: Apache-2.0
// The server restarts (RFC 8881 section 8.4.2): state is reclaimed, unstable data is written again, and state
// that cannot be reclaimed is an error where it matters and nowhere else.
#include <algorithm>

#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using client::LockType;
using filer::fault::Answer;
using filer::state::StateKind;
namespace on = filer::on;

class Restart : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    server = start_filer();
    server->make_file("/export/file", "content");
    mount = std::make_unique<TestMount>(*server, TestMount::Settings{.loops = GetParam()});
  }
  size_t count(StateKind kind) { return live_states(*server, kind).size(); }
  bool wait_for_states(StateKind kind, size_t n) {
    return server->wait_until([=](filer::nfs::Core& core) {
      size_t found = 0;
      core.states.each([&](const filer::state::State& s) { found += s.kind == kind && s.live(); });
      return found == n;
    });
  }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
};

TEST_P(Restart, OpensAndLocks_AreReclaimedBeforeGraceEnds) {
  const auto reader = mount->open("file", O_RDONLY);
  const auto writer = mount->create("other", O_RDWR);
  ASSERT_EQ(mount->lock(writer, LockType::kWrite, 0, 9, 1), 0);
  ASSERT_EQ(mount->lock(writer, LockType::kRead, 20, 29, 1), 0);
  ASSERT_EQ(mount->lock(writer, LockType::kWrite, 100, UINT64_MAX, 2), 0);
  server->restart();
  EXPECT_EQ(*mount->read(reader), "content");
  EXPECT_FALSE(server->in_grace()) << "the client has said RECLAIM_COMPLETE";
  EXPECT_EQ(count(StateKind::kOpen), 2u);
  EXPECT_EQ(count(StateKind::kLock), 2u);
  TestMount other(*server);
  const auto contender = other.open("other", O_RDWR);
  EXPECT_EQ(other.lock(contender, LockType::kRead, 5, 5), EAGAIN);
  EXPECT_EQ(other.lock(contender, LockType::kRead, 25, 25), 0);
  EXPECT_EQ(other.lock(contender, LockType::kWrite, 26, 26), EAGAIN);
  EXPECT_EQ(other.lock(contender, LockType::kWrite, 10, 19), 0);
  EXPECT_EQ(other.lock(contender, LockType::kRead, UINT64_MAX, UINT64_MAX), EAGAIN);
  EXPECT_EQ(mount->write(writer, 0, "text"), 0);
  EXPECT_EQ(mount->close(writer, 1), 0);
  EXPECT_EQ(mount->close(reader), 0);
  EXPECT_EQ(other.close(contender), 0);
  EXPECT_TRUE(server->states().empty());
}

// RFC 8881 section 8.4.2.1: clients "should, once a new client ID is established, refetch the lease_time
// attribute".
TEST_P(Restart, LeaseOfTheNewServer_IsTheOneThatIsRenewed) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->fs().statistics().session.lease_seconds, 90u);
  server->with_core([](filer::nfs::Core& core) { core.options.lease = std::chrono::seconds(6); });
  server->restart();
  EXPECT_EQ(mount->read(file).value_or("error"), "content");
  EXPECT_EQ(mount->fs().statistics().session.lease_seconds, 6u);
  EXPECT_EQ(mount->close(file), 0);
}

// Section 18.18.3: an OPEN_DOWNGRADE names "the union of the share_access ... for some subset of the OPENs in
// effect". So a file that was opened once for reading and once for writing is reclaimed with two OPENs.
TEST_P(Restart, WriterClosedAfterIt_GivesBackWriteAccess) {
  const auto reader = mount->open("file", O_RDONLY);
  const auto writer = mount->open("file", O_WRONLY);
  server->restart();
  EXPECT_EQ(mount->write(writer, 0, "text"), 0);
  EXPECT_EQ(mount->close(writer), 0);
  const auto downgrades = server->executed(OP_OPEN_DOWNGRADE);
  EXPECT_EQ(downgrades.executed, 1u);
  EXPECT_EQ(downgrades.succeeded, 1u);
  ASSERT_EQ(server->states().size(), 1u);
  EXPECT_EQ(server->states()[0].access, OPEN4_SHARE_ACCESS_READ);
  EXPECT_EQ(*mount->read(reader), "textent");
  EXPECT_EQ(mount->close(reader), 0);
}

// Section 8.4.2.1: "If the server scope is different, the client should not attempt to reclaim locks. In this
// situation, no lock reclaim is possible."
TEST_P(Restart, ServerOfAnotherScope_IsAskedForNothingBack) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0);
  server->with_core([](filer::nfs::Core& core) { core.clients.identity().scope = "another"; });
  server->restart();
  server->end_grace();
  EXPECT_EQ(errno_of(mount->read(file)), EIO) << "the lock is lost";
  EXPECT_EQ(server->executed(OP_LOCK).executed, 1u) << "no reclaim";
  EXPECT_EQ(mount->lock(file, LockType::kUnlock), 0);
  EXPECT_EQ(mount->write(file, 0, "text"), 0);
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(Restart, SeveralInARow_LoseNothing) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0);
  for (int n = 0; n < 5; ++n) {
    server->restart();
    EXPECT_EQ(mount->write(file, 0, std::to_string(n)), 0);
    EXPECT_EQ(mount->fsync(file), 0);
    EXPECT_EQ(count(StateKind::kLock), 1u);
  }
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "4ontent");
  EXPECT_EQ(mount->fs().statistics().session.client_ids_established, 6u);
}

TEST_P(Restart, AgainDuringEachStepOfReclaim_LosesNothing) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0);
  for (const nfs_opnum4 op : {OP_EXCHANGE_ID, OP_CREATE_SESSION, OP_OPEN, OP_LOCK, OP_RECLAIM_COMPLETE}) {
    for (const bool executed : {false, true}) {
      server->faults().add(executed ? on::reply_to(op) : on::request_with(op), filer::fault::Restart{});
      server->restart();
      EXPECT_EQ(mount->read(file, 0, 3).value_or("error"), "con")
          << op_name(op) << (executed ? " executed" : "");
      EXPECT_EQ(count(StateKind::kOpen), 1u);
      EXPECT_EQ(count(StateKind::kLock), 1u);
    }
  }
  EXPECT_EQ(mount->lock(file, LockType::kUnlock), 0);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_TRUE(server->states().empty());
}

// A lock released while its reclaim is in progress is only removed from the record. A LOCKU would wait for
// the reclaim.
TEST_P(Restart, LockGivenUpAmidstItsReclaim_IsNotHeld) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0);
  const auto locking = server->faults().add(on::request_with(OP_LOCK), filer::fault::Stall{});
  server->restart();
  ASSERT_TRUE(server->faults().wait_fired(locking));
  EXPECT_EQ(mount->lock(file, LockType::kUnlock, 2, 4), 0);
  server->faults().release(locking);
  EXPECT_EQ(mount->read(file, 0, 3).value_or("error"), "con");
  TestMount other(*server);
  const auto theirs = other.open("file", O_RDWR);
  EXPECT_EQ(other.lock(theirs, LockType::kWrite, 2, 4), 0);
  EXPECT_EQ(other.lock(theirs, LockType::kWrite, 1, 1), EAGAIN);
  EXPECT_EQ(other.lock(theirs, LockType::kWrite, 5, 9), EAGAIN);
  EXPECT_EQ(mount->lock(file, LockType::kUnlock), 0);
  EXPECT_EQ(other.lock(theirs, LockType::kWrite, 0, 9), 0);
  EXPECT_EQ(other.close(theirs), 0);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_TRUE(server->states().empty());
}

TEST_P(Restart, ConnectionCutDuringEachStepOfReclaim_LosesNothing) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0);
  for (const nfs_opnum4 op : {OP_OPEN, OP_LOCK}) {
    for (const bool executed : {false, true}) {
      server->faults().add(executed ? on::reply_to(op) : on::request_with(op), filer::fault::Cut{});
      server->restart();
      EXPECT_EQ(mount->read(file, 0, 3).value_or("error"), "con")
          << op_name(op) << (executed ? " executed" : "");
      EXPECT_EQ(count(StateKind::kLock), 1u);
    }
  }
  EXPECT_EQ(mount->close(file), 0);
}

// Section 8.4.2.1: another client may get what is not reclaimed before the grace period ends. So many files
// must not need one round trip each.
class RestartWithMany : public Restart {
 protected:
  static constexpr int kFiles = 40;
  static constexpr unsigned kTogether = 16;
  void open_all() {
    for (int n = 0; n < kFiles; ++n) {
      files.push_back(mount->create("file" + std::to_string(n), O_RDWR));
      ASSERT_EQ(mount->write(files.back(), 0, "text" + std::to_string(n)), 0);
      ASSERT_EQ(mount->fsync(files.back()), 0);
      ASSERT_EQ(mount->lock(files.back(), LockType::kWrite, 0, 9), 0);
    }
  }
  void expect_all() {
    for (int n = 0; n < kFiles; ++n)
      EXPECT_EQ(mount->read(files[static_cast<size_t>(n)]).value_or("error"), "text" + std::to_string(n));
    EXPECT_FALSE(server->in_grace());
    EXPECT_EQ(count(StateKind::kOpen), static_cast<size_t>(kFiles));
    EXPECT_EQ(count(StateKind::kLock), static_cast<size_t>(kFiles));
    for (const auto& file : files) EXPECT_EQ(mount->close(file, 1), 0);
    EXPECT_TRUE(server->states().empty());
  }

  std::vector<client::OpenFileRef> files;
};

TEST_P(RestartWithMany, AreReclaimedSeveralAtATime) {
  open_all();
  const auto opens = server->faults().add(on::request_with(OP_OPEN).always(), filer::fault::Stall{});
  server->restart();
  EXPECT_TRUE(server->faults().wait_fired(opens, kTogether)) << "so many without an answer to the first one";
  server->faults().release(opens);
  expect_all();
}

TEST_P(RestartWithMany, FewerSlots_AreEnough) {
  for (const uint32_t slots : {1u, 3u}) {
    SCOPED_TRACE(slots);
    open_all();
    server->faults().add(on::reply_to(OP_CREATE_SESSION), filer::fault::Slots{slots});
    server->restart();
    expect_all();
    files.clear();
    for (int n = 0; n < kFiles; ++n) ASSERT_EQ(mount->unlink("file" + std::to_string(n)), 0);
    server->set_target_slots(64);
  }
}

// Section 15.1.11.3, NFS4ERR_BAD_HIGH_SLOT: "The highest_slot argument in a Sequence operation exceeds the
// replier's enforced highest_slotid." The reply to the first OPEN takes all slots but one away. The second
// OPEN was in flight and is refused: it was not executed, and is sent again in the remaining slot. Requests
// after the recovery use only that slot, too.
TEST_P(RestartWithMany, SlotsTakenBackAmidst_WhatIsRefusedGoesAgain) {
  open_all();
  const auto first = server->faults().add(on::request_with(OP_OPEN), filer::fault::Stall{});
  server->faults().add(on::request_with(OP_OPEN), filer::fault::Slots{1});
  const auto second = server->faults().add(on::request_with(OP_OPEN).nth(2), filer::fault::Stall{});
  server->faults().add(on::request_with(OP_OPEN).nth(2), Answer{OP_SEQUENCE, NFS4ERR_BAD_HIGH_SLOT});
  const auto others = server->faults().add(on::request_with(OP_OPEN).nth(3).always(), filer::fault::Stall{});
  const auto locking = server->faults().add(on::request_with(OP_LOCK), filer::fault::Call{[] {}});
  server->restart();
  ASSERT_TRUE(server->faults().wait_fired(second));
  server->faults().release(first);
  ASSERT_TRUE(server->faults().wait_fired(locking)) << "it has the first OPEN's answer";
  server->faults().release(second);
  server->faults().release(others);
  expect_all();
  EXPECT_EQ(
      std::ranges::count(server->journal(), NFS4ERR_BAD_HIGH_SLOT, &filer::nfs::ExecutedCompound::status), 1)
      << "it was refused";
  EXPECT_EQ(mount->fs().statistics().session.sessions_created, 2u) << "recovery did not begin again";
}

TEST_P(RestartWithMany, ConnectionCutOrAnotherRestartAmidst_LosesNothing) {
  open_all();
  for (const unsigned nth : {1u, 7u, 39u}) {
    server->faults().add(on::reply_to(OP_OPEN).nth(nth), filer::fault::Cut{});
    server->faults().add(on::request_with(OP_LOCK).nth(nth), filer::fault::Restart{});
    server->restart();
    EXPECT_EQ(mount->read(files[0]).value_or("error"), "text0");
  }
  expect_all();
}

// Section 18.46.3: "When set, indicates that due to server restart, the client must reclaim locking state.
// Until the client sends a global RECLAIM_COMPLETE (Section 18.51), every SEQUENCE operation will return
// SEQ4_STATUS_RESTART_RECLAIM_NEEDED." The session survives: only the flag shows the restart.
TEST_P(Restart, SessionThatSurvives_StateIsReclaimed) {
  server->configure([](filer::nfs::Switches& s) { s.keep_sessions_on_restart = true; });
  const auto reader = mount->open("file", O_RDONLY);
  const auto writer = mount->create("other", O_RDWR);
  ASSERT_EQ(mount->lock(writer, LockType::kWrite, 0, 9, 1), 0);
  for (int n = 0; n < 3; ++n) {
    server->clear_journal();
    const std::string text = "text" + std::to_string(n);
    ASSERT_EQ(mount->write(writer, 0, text), 0);
    server->restart();
    // First an open file meets the restart, then one with locks.
    EXPECT_EQ(*mount->read(n == 1 ? writer : reader), n == 1 ? text : "content");
    EXPECT_EQ(mount->fsync(writer), 0);
    EXPECT_EQ(*mount->read(writer), text);
    EXPECT_TRUE(server->wait_until([](filer::nfs::Core& core) {
      return core.journal.count(OP_RECLAIM_COMPLETE).succeeded == 1;
    })) << n;
    EXPECT_FALSE(server->in_grace());
    EXPECT_EQ(count(StateKind::kOpen), 2u);
    EXPECT_EQ(count(StateKind::kLock), 1u);
  }
  TestMount other(*server);
  const auto contender = other.open("other", O_RDWR);
  EXPECT_EQ(other.lock(contender, LockType::kRead, 5, 5), EAGAIN);
  EXPECT_EQ(other.close(contender), 0);
  EXPECT_EQ(mount->close(writer, 1), 0);
  EXPECT_EQ(mount->close(reader), 0);
  EXPECT_TRUE(server->states().empty());
}

TEST_P(Restart, WhileDown_RequestsWaitAndThenSucceed) {
  const auto file = mount->open("file", O_RDWR);
  server->go_down();
  auto read = mount->start(mount->fs().read(mount->user(), file, 0, 100));
  auto lookup = mount->start(mount->fs().lookup(mount->user(), mount->root(), "absent"));
  EXPECT_TRUE(eventually([&] {
    return std::ranges::none_of(mount->fs().statistics().transports, [](const rpc::TransportStatus& t) {
      return t.state == rpc::TransportState::kReady;
    });
  }));
  mount->turn_every_loop();
  EXPECT_EQ(read.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_EQ(lookup.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  ASSERT_TRUE(server->come_up({}));
  EXPECT_EQ(read.get()->size, 7u);
  EXPECT_FALSE(lookup.get()->node);
  EXPECT_EQ(mount->close(file), 0);
}

// --- what cannot be reclaimed ---

// Section 8.4.2.1: a server that cannot rule out that another client had the lock meanwhile refuses the
// reclaim.
TEST_P(Restart, LockNotGivenBack_FailsItsHoldersIoAndNobodyElses) {
  constexpr uint64_t kProcess = 7;  // not the bystander's process
  for (const nfsstat4 status :
       {NFS4ERR_RECLAIM_BAD, NFS4ERR_RECLAIM_CONFLICT, NFS4ERR_NO_GRACE, NFS4ERR_DENIED}) {
    const auto holder = mount->open("file", O_RDWR);
    const auto bystander = mount->open("file", O_RDONLY);
    ASSERT_EQ(mount->lock(holder, LockType::kWrite, 0, 9, kProcess), 0);
    const unsigned forgotten = mount->front_end.data(mount->node("file"));
    server->faults().add(on::request_with(OP_LOCK), Answer{OP_LOCK, status});
    server->restart();
    EXPECT_EQ(mount->read(bystander).value_or("error"), "content") << name_of(status);
    EXPECT_EQ(errno_of(mount->read(holder)), EIO) << name_of(status);
    EXPECT_EQ(mount->write(holder, 0, "x"), EIO);
    EXPECT_EQ(mount->lock(holder, LockType::kWrite, 0, 9, kProcess), EIO) << "until it is released";
    EXPECT_GT(mount->front_end.data(mount->node("file")), forgotten)
        << "the kernel must not read on from its pages";
    EXPECT_EQ(mount->lock(holder, LockType::kUnlock, 0, UINT64_MAX, kProcess), 0);
    EXPECT_EQ(mount->read(holder).value_or("error"), "content") << name_of(status);
    EXPECT_EQ(mount->lock(holder, LockType::kWrite, 0, 9, kProcess), 0);
    EXPECT_EQ(mount->close(holder, kProcess), 0);
    EXPECT_EQ(mount->close(bystander), 0);
    EXPECT_EQ(server->read_file("/export/file"), "content");
    EXPECT_TRUE(server->states().empty());
  }
}

TEST_P(Restart, OneOfTwoLocksNotGivenBack_UnlockReleasesTheOther) {
  const auto holder = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(holder, LockType::kWrite, 0, 9), 0);
  ASSERT_EQ(mount->lock(holder, LockType::kWrite, 20, 29), 0);
  server->faults().add(on::request_with(OP_LOCK).nth(2), Answer{OP_LOCK, NFS4ERR_RECLAIM_BAD});
  server->restart();
  EXPECT_EQ(errno_of(mount->read(holder)), EIO);
  EXPECT_EQ(mount->lock(holder, LockType::kUnlock), 0);
  TestMount other(*server);
  const auto theirs = other.open("file", O_RDWR);
  EXPECT_EQ(other.lock(theirs, LockType::kWrite, 0, 9), 0);
  EXPECT_EQ(other.close(theirs), 0);
  EXPECT_EQ(mount->close(holder), 0);
}

TEST_P(Restart, OpenNotGivenBack_IsOpenedAnewAndItsLocksAreLost) {
  for (const nfsstat4 status : {NFS4ERR_RECLAIM_BAD, NFS4ERR_RECLAIM_CONFLICT, NFS4ERR_NO_GRACE}) {
    const auto locked = mount->open("file", O_RDWR);
    ASSERT_EQ(mount->lock(locked, LockType::kWrite, 0, 9), 0);
    const auto plain = mount->create("plain", O_RDWR);
    server->faults().add(on::request_with(OP_OPEN).times(2), Answer{OP_OPEN, status});
    server->restart();
    EXPECT_EQ(mount->write(plain, 0, "plain"), 0) << name_of(status);
    EXPECT_EQ(errno_of(mount->read(locked)), EIO) << name_of(status);
    EXPECT_EQ(mount->lock(locked, LockType::kUnlock), 0);
    EXPECT_EQ(mount->read(locked).value_or("error"), "content") << name_of(status);
    EXPECT_EQ(mount->close(locked), 0);
    EXPECT_EQ(mount->close(plain), 0);
    EXPECT_EQ(server->read_file("/export/plain"), "plain");
    EXPECT_TRUE(server->states().empty());
  }
}

TEST_P(Restart, StableStorageLostToo_OpensAnewAndLosesTheLocks) {
  const auto locked = mount->open("file", O_RDWR);
  const auto plain = mount->create("plain", O_RDWR);
  ASSERT_EQ(mount->lock(locked, LockType::kWrite, 0, 9), 0);
  server->restart({.forget_reclaims = true});
  EXPECT_EQ(mount->write(plain, 0, "plain"), 0);
  EXPECT_EQ(mount->fsync(plain), 0);
  EXPECT_EQ(errno_of(mount->read(locked)), EIO);
  EXPECT_EQ(mount->lock(locked, LockType::kUnlock), 0);
  EXPECT_EQ(mount->close(locked), 0);
  EXPECT_EQ(mount->close(plain), 0);
}

// The server did not promise OPEN4_RESULT_PRESERVE_UNLINKED. With that promise it would have to keep the file
// for the reclaim (section 18.16.3).
TEST_P(Restart, FileRemovedMeanwhile_IsStaleForItsReadersOnly) {
  server->configure([](filer::nfs::Switches& s) { s.preserve_unlinked = false; });
  server->with_core([](filer::nfs::Core& core) { core.tree.preserve_unlinked(false); });
  const auto doomed = mount->open("file");
  const auto other = mount->create("other", O_RDWR);
  server->go_down();
  server->remove_file("/export/file");
  ASSERT_TRUE(server->come_up({}));
  EXPECT_EQ(mount->write(other, 0, "text"), 0);
  EXPECT_EQ(errno_of(mount->read(doomed)), ESTALE);
  mount->close(doomed);
  EXPECT_EQ(mount->close(other), 0);
}

// --- unstable writes (sections 18.3, 18.32) ---

std::string pattern(size_t size, unsigned seed) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 251 + seed) % 26);
  return text;
}

TEST_P(Restart, UnstableWrites_AreWrittenAgain) {
  const auto file = mount->create("data", O_RDWR);
  std::string expected;
  for (unsigned n = 0; n < 8; ++n) {
    const std::string piece = pattern(150'000, n);
    ASSERT_EQ(mount->write(file, expected.size(), piece), 0);
    expected += piece;
  }
  // All data is on the server, and none of it is stable.
  ASSERT_TRUE(server->wait_until([&](filer::nfs::Core& core) {
    const auto node = core.tree.walk("/export/data");
    return node->size == expected.size();
  }));
  EXPECT_TRUE(server->stat("/export/data")->unstable);
  server->restart();
  EXPECT_EQ(mount->fsync(file), 0);
  EXPECT_EQ(server->read_file("/export/data"), expected);
  EXPECT_FALSE(server->stat("/export/data")->unstable);
  EXPECT_EQ(mount->close(file), 0);
}

// A time that was set stays: data written before it is not written again after it.
TEST_P(Restart, TimeSetAfterAWrite_IsNotUndoneByWritingAgain) {
  const auto file = mount->create("data", O_RDWR);
  ASSERT_EQ(mount->write(file, 0, pattern(150'000, 1)), 0);
  client::SetAttributes set;
  set.mtime = client::SetAttributes::Time{.now = false, .value = {.tv_sec = 1'000'000'000, .tv_nsec = 7}};
  ASSERT_TRUE(mount->run(mount->fs().setattr(mount->user(), mount->node("data"), set, nullptr)));
  server->restart();
  EXPECT_EQ(mount->fsync(file), 0);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(server->stat("/export/data")->modified.seconds, 1'000'000'000);
  EXPECT_EQ(server->read_file("/export/data"), pattern(150'000, 1));
}

TEST_P(Restart, ReadAfterIt_SeesWhatWasWrittenBefore) {
  const auto file = mount->create("data", O_RDWR);
  const std::string text = pattern(200'000, 1);
  ASSERT_EQ(mount->write(file, 0, text), 0);
  ASSERT_TRUE(server->wait_until(
      [&](filer::nfs::Core& core) { return core.tree.walk("/export/data")->size == text.size(); }));
  server->restart();
  EXPECT_EQ(mount->read(file, 0, text.size()).value_or("error"), text);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(server->read_file("/export/data"), text);
}

TEST_P(Restart, DuringEachStepOfWriting_LosesNothing) {
  for (const nfs_opnum4 op : {OP_WRITE, OP_COMMIT, OP_CLOSE}) {
    for (const bool executed : {false, true}) {
      const std::string name = std::string("data ") + op_name(op) + (executed ? " executed" : "");
      const auto file = mount->create(name, O_RDWR);
      const std::string text = pattern(300'000, executed);
      server->faults().add(executed ? on::reply_to(op) : on::request_with(op), filer::fault::Restart{});
      ASSERT_EQ(mount->write(file, 0, text.substr(0, 150'000)), 0);
      ASSERT_EQ(mount->write(file, 150'000, text.substr(150'000)), 0);
      EXPECT_EQ(mount->close(file), 0) << name;
      EXPECT_EQ(server->read_file("/export/" + name), text) << name;
      EXPECT_FALSE(server->stat("/export/" + name)->unstable) << name;
      EXPECT_EQ(count(StateKind::kOpen), 0u) << name;
    }
  }
}

// A restart between two WRITEs of one file: the pieces have two verifiers, and COMMIT returns the second one.
TEST_P(Restart, BetweenTwoWrites_WritesTheFirstAgain) {
  const auto file = mount->create("data", O_RDWR);
  const std::string text = pattern(300'000, 3);
  ASSERT_EQ(mount->write(file, 0, text.substr(0, 150'000)), 0);
  ASSERT_TRUE(server->wait_until(
      [&](filer::nfs::Core& core) { return core.tree.walk("/export/data")->size == 150'000; }));
  server->restart();
  ASSERT_EQ(mount->write(file, 150'000, text.substr(150'000)), 0);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(server->read_file("/export/data"), text);
}

// Data is overwritten while it is unstable. Writing it again must not undo the later write.
TEST_P(Restart, OverlappingWrites_KeepTheirOrder) {
  const auto file = mount->create("data", O_RDWR);
  std::string expected = pattern(150'000, 0);
  ASSERT_EQ(mount->write(file, 0, expected), 0);
  for (unsigned n = 1; n < 6; ++n) {
    const std::string piece = pattern(70'000, n);
    expected.replace(n * 10'000, piece.size(), piece);
    ASSERT_EQ(mount->write(file, n * 10'000, piece), 0);
    if (n == 2 || n == 4) server->restart();
  }
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(server->read_file("/export/data"), expected);
}

TEST_P(Restart, ServerThatKeepsUnstableDataButChangesItsVerifier_EndsWithTheSameData) {
  server->configure([](filer::nfs::Switches& s) { s.lose_unstable_on_restart = false; });
  const auto file = mount->create("data", O_RDWR);
  const std::string text = pattern(200'000, 5);
  ASSERT_EQ(mount->write(file, 0, text), 0);
  server->restart();
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(server->read_file("/export/data"), text);
}

INSTANTIATE_TEST_SUITE_P(Loops, Restart, testing::Values(1u, 4u));
INSTANTIATE_TEST_SUITE_P(Loops, RestartWithMany, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

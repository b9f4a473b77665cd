// SPDX-License-Identifier: Apache-2.0
// POSIX locks and flock through LOCK, LOCKT and LOCKU (RFC 8881 sections 9.1-9.8): between owners of one
// mount and between mounts, waiting and not waiting.
#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using namespace std::chrono_literals;
using client::LockType;
namespace on = filer::on;

class LockLoops : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<filer::Server> server = [] {
    auto s = start_filer();
    s->make_file("/export/file", "content", 0666);
    return s;
  }();
  TestMount mount{*server, TestMount::Settings{.loops = GetParam()}};

  std::future<Result<>> start_waiting(TestMount& m, const client::OpenFileRef& file, LockType type,
                                      uint64_t owner,
                                      std::shared_ptr<client::Cancellation> cancellation = nullptr) {
    client::RequestContext user = m.user();
    user.cancellation = std::move(cancellation);
    return m.start(m.fs().setlk(user, file, owner, {type, 0, UINT64_MAX, TestMount::process(owner)}, true));
  }
  Task<Result<>> release(client::OpenFileRef file) {
    co_await mount.fs().release(mount.user(), std::move(file));
    co_return Result<>{};
  }
  // The server has denied a LOCK, so a waiting request is waiting now.
  void wait_for_denial() {
    EXPECT_TRUE(server->wait_until([](filer::nfs::Core& core) {
      const auto locks = core.journal.count(OP_LOCK);
      return locks.executed > locks.succeeded;
    }));
  }
};

// An OPEN waits until another client returns its delegation. It delays a process that closes the file, but it
// does not delay locks.
TEST_P(LockLoops, WhileACloseWaitsForAnOpen_AreGivenUp) {
  const auto locked = mount.open("file", O_RDONLY), closed = mount.open("file", O_RDONLY);
  ASSERT_EQ(mount.lock(locked, LockType::kRead), 0);
  const auto stalled = server->faults().add(on::request_with(OP_OPEN), filer::fault::Stall{});
  auto opening = mount.start(mount.fs().open(mount.user(), mount.node("file"), O_RDWR));
  ASSERT_TRUE(server->faults().wait_fired(stalled));
  auto closing = mount.start(release(closed));
  ASSERT_TRUE(mount.stat("file")) << "it has had its turn";
  auto unlocking =
      mount.start(mount.fs().setlk(mount.user(), locked, 1, {LockType::kUnlock, 0, UINT64_MAX, 0}, false));
  EXPECT_EQ(unlocking.wait_for(20s), std::future_status::ready);
  EXPECT_NE(closing.wait_for(0s), std::future_status::ready);
  server->faults().release(stalled);
  EXPECT_TRUE(unlocking.get());
  EXPECT_TRUE(closing.get());
  const auto opened = opening.get();
  ASSERT_TRUE(opened);
  mount.close(opened->file);
  mount.close(locked);
}

TEST_P(LockLoops, OwnersOfOneMount_ExcludeEachOther) {
  const auto file = mount.open("file", O_RDWR);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, 0, 9, 1), 0);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, 5, 14, 2), EAGAIN);
  EXPECT_EQ(mount.lock(file, LockType::kRead, 5, 14, 2), EAGAIN);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, 10, 19, 2), 0);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, 0, 9, 1), 0) << "one's own lock is in nobody's way";
  EXPECT_EQ(mount.lock(file, LockType::kRead, 0, 9, 1), 0) << "downgraded";
  EXPECT_EQ(mount.lock(file, LockType::kRead, 0, 9, 2), 0);
  EXPECT_EQ(mount.lock(file, LockType::kUnlock, 0, UINT64_MAX, 1), 0);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, 0, 9, 2), 0);
  EXPECT_EQ(mount.fs().statistics().cache.locks, 1u);
  mount.close(file, 2);
  EXPECT_TRUE(server->states().empty());
}

TEST_P(LockLoops, TestOfALock_TellsWhoHoldsIt) {
  const auto file = mount.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(file, LockType::kWrite, 10, 19, 1), 0);
  auto found = mount.test_lock(file, LockType::kRead, 0, UINT64_MAX, 2);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->type, LockType::kWrite);
  EXPECT_EQ(found->start, 10u);
  EXPECT_EQ(found->end, 19u);
  EXPECT_EQ(found->pid, TestMount::process(1)) << "held on this mount";
  EXPECT_EQ(mount.test_lock(file, LockType::kWrite, 20, 30, 2)->type, LockType::kUnlock);
  EXPECT_EQ(mount.test_lock(file, LockType::kWrite, 0, 9, 2)->type, LockType::kUnlock);
  EXPECT_EQ(mount.test_lock(file, LockType::kWrite, 10, 19, 1)->type, LockType::kUnlock) << "one's own";
  TestMount other(*server);
  const auto there = other.open("file", O_RDWR);
  found = other.test_lock(there, LockType::kWrite);
  EXPECT_EQ(found->type, LockType::kWrite);
  EXPECT_EQ(found->pid, 0u) << "held on another client";
  other.close(there);
  mount.close(file, 1);
}

TEST_P(LockLoops, Flock_IsPerDescription) {
  const auto one = mount.open("file", O_RDWR), two = mount.open("file", O_RDWR);
  const auto flock = [&](const client::OpenFileRef& file, uint64_t owner, LockType type) {
    return errno_of(mount.run(mount.fs().flock(mount.user(), file, owner, type, false)));
  };
  EXPECT_EQ(flock(one, 1, LockType::kWrite), 0);
  EXPECT_EQ(flock(two, 2, LockType::kRead), EAGAIN);
  mount.run(mount.fs().release(mount.user(), one));
  EXPECT_EQ(flock(two, 2, LockType::kWrite), 0) << "dropped with its description";
  mount.run(mount.fs().release(mount.user(), two));
  EXPECT_TRUE(server->states().empty());
}

// flock(2): over NFS "to place an exclusive lock ... requires the file to be opened for writing", as for a
// byte-range lock. The client checks this without the server.
TEST_P(LockLoops, FlockThatTheDescriptorDoesNotAllow_IsABadDescriptor) {
  const auto reader = mount.open("file", O_RDONLY);
  const auto writer = mount.open("file", O_WRONLY);
  const auto flock = [&](const client::OpenFileRef& file, LockType type) {
    return errno_of(mount.run(mount.fs().flock(mount.user(), file, 5, type, false)));
  };
  EXPECT_EQ(flock(reader, LockType::kWrite), EBADF);
  EXPECT_EQ(flock(writer, LockType::kRead), EBADF);
  EXPECT_EQ(flock(reader, LockType::kRead), 0);
  EXPECT_EQ(mount.read(reader).value_or("error"), "content");
  mount.close(reader);
  mount.close(writer);
}

// POSIX: any close(2) of a file by a process releases all of its locks on the file.
TEST_P(LockLoops, CloseOfAnyDescriptor_DropsItsOwnersLocks) {
  const auto one = mount.open("file", O_RDWR), two = mount.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(one, LockType::kWrite, 0, 9, 1), 0);
  ASSERT_EQ(mount.lock(two, LockType::kWrite, 20, 29, 2), 0);
  EXPECT_EQ(errno_of(mount.run(mount.fs().flush(mount.user(), two, 1))), 0);
  EXPECT_EQ(mount.lock(two, LockType::kWrite, 0, 9, 2), 0);
  EXPECT_EQ(mount.lock(one, LockType::kWrite, 20, 29, 1), EAGAIN) << "another owner's stay";
  mount.close(one, 1);
  mount.close(two, 2);
  EXPECT_TRUE(server->states().empty());
}

TEST_P(LockLoops, OtherMount_IsExcludedUntilTheUnlock) {
  TestMount other(*server);
  const auto here = mount.open("file", O_RDWR), there = other.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(here, LockType::kWrite), 0);
  EXPECT_EQ(other.lock(there, LockType::kRead), EAGAIN);
  EXPECT_EQ(mount.write(here, 0, "CONTENT"), 0);
  EXPECT_EQ(mount.lock(here, LockType::kUnlock), 0);
  EXPECT_EQ(other.lock(there, LockType::kRead), 0);
  EXPECT_EQ(*other.read(there), "CONTENT") << "what was written under a lock is there before the next holder";
  other.close(there);
  mount.close(here);
}

// Readers may come as soon as the server has the read lock, so the data written under the write lock is there
// before.
TEST_P(LockLoops, WriteLockThatBecomesAReadLock_WritesBackFirst) {
  const auto file = mount.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(file, LockType::kWrite), 0);
  EXPECT_EQ(mount.write(file, 0, "CONTENT"), 0);
  server->clear_journal();
  EXPECT_EQ(mount.lock(file, LockType::kRead), 0);
  std::vector<nfs4::nfs_opnum4> order;
  for (const filer::nfs::ExecutedCompound& compound : server->journal()) {
    for (const nfs4::nfs_opnum4 op : {OP_WRITE, OP_LOCK}) {
      if (compound.has(op)) order.push_back(op);
    }
  }
  EXPECT_EQ(order, (std::vector<nfs4::nfs_opnum4>{OP_WRITE, OP_LOCK}));
  mount.close(file);
}

TEST_P(LockLoops, GrantedAfterSomebodyElseWrote_ForgetsWhatTheKernelHas) {
  TestMount other(*server);
  const auto here = mount.open("file", O_RDWR);
  EXPECT_EQ(*mount.read(here), "content");
  ASSERT_EQ(mount.lock(here, LockType::kRead), 0);
  const auto node = mount.node("file");
  const unsigned before = mount.front_end.data(node);
  EXPECT_EQ(mount.lock(here, LockType::kUnlock), 0);
  EXPECT_EQ(mount.lock(here, LockType::kRead), 0);
  EXPECT_EQ(mount.front_end.data(node), before) << "nothing changed";
  EXPECT_EQ(mount.lock(here, LockType::kUnlock), 0);
  EXPECT_EQ(other.write_file("file", "other"), 0);
  EXPECT_EQ(mount.lock(here, LockType::kRead), 0);
  EXPECT_GT(mount.front_end.data(node), before);
  mount.close(here);
}

// --- waiting ---

TEST_P(LockLoops, WaitingHere_IsGrantedWhenTheHolderHereUnlocks) {
  const auto file = mount.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(file, LockType::kWrite, 0, UINT64_MAX, 1), 0);
  auto waiting = start_waiting(mount, file, LockType::kWrite, 2);
  wait_for_denial();
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
  EXPECT_EQ(mount.lock(file, LockType::kUnlock, 0, UINT64_MAX, 1), 0);
  EXPECT_EQ(errno_of(waiting.get()), 0);
  EXPECT_EQ(mount.lock(file, LockType::kRead, 0, 0, 1), EAGAIN);
  mount.close(file, 2);
}

// fcntl(2): EDEADLK, "It was detected that the specified F_SETLKW command would cause a deadlock."
TEST_P(LockLoops, WaitingForEachOther_IsADeadlockAndEndsForOne) {
  server->make_file("/export/other", "", 0666);
  const auto file = mount.open("file", O_RDWR), other = mount.open("other", O_RDWR);
  ASSERT_EQ(mount.lock(file, LockType::kWrite, 0, UINT64_MAX, 1), 0);
  ASSERT_EQ(mount.lock(other, LockType::kWrite, 0, UINT64_MAX, 2), 0);
  auto first = start_waiting(mount, other, LockType::kWrite, 1);
  auto second = start_waiting(mount, file, LockType::kWrite, 2);
  const auto ready = [](auto& lock) { return lock.wait_for(0s) == std::future_status::ready; };
  ASSERT_TRUE(eventually([&] { return ready(first) || ready(second); }));
  auto& refused = ready(first) ? first : second;
  auto& granted = &refused == &first ? second : first;
  EXPECT_EQ(errno_of(refused.get()), EDEADLK);
  EXPECT_EQ(granted.wait_for(0s), std::future_status::timeout) << "the other one waits on";
  // The refused owner keeps its locks until it releases them.
  const bool first_refused = &refused == &first;
  EXPECT_EQ(mount.lock(first_refused ? file : other, LockType::kUnlock, 0, UINT64_MAX, first_refused ? 1 : 2),
            0);
  EXPECT_EQ(errno_of(granted.get()), 0);
  mount.close(file, 1);
  mount.close(other, 2);
}

TEST_P(LockLoops, WaitingForEachOtherInTurn_IsNoDeadlock) {
  const auto file = mount.open("file", O_RDWR);
  for (int n = 0; n < 20; ++n) {
    ASSERT_EQ(mount.lock(file, LockType::kWrite, 0, UINT64_MAX, 1), 0);
    auto second = start_waiting(mount, file, LockType::kWrite, 2);
    wait_for_denial();
    EXPECT_EQ(mount.lock(file, LockType::kUnlock, 0, UINT64_MAX, 1), 0);
    // The second owner no longer waits for the first one, whatever an earlier denial said.
    auto first = start_waiting(mount, file, LockType::kWrite, 1);
    const auto ready = [](auto& lock) { return lock.wait_for(0s) == std::future_status::ready; };
    bool first_has_it = false;
    ASSERT_TRUE(eventually([&] { return (first_has_it = ready(first)) || ready(second); }));
    EXPECT_EQ(mount.lock(file, LockType::kUnlock, 0, UINT64_MAX, first_has_it ? 1 : 2), 0);
    EXPECT_EQ(errno_of(first.get()), 0);
    EXPECT_EQ(errno_of(second.get()), 0);
    EXPECT_EQ(mount.lock(file, LockType::kUnlock, 0, UINT64_MAX, first_has_it ? 2 : 1), 0);
    server->clear_journal();
  }
  mount.close(file);
}

TEST_P(LockLoops, WaitingForAnotherMount_IsGrantedWhenThatUnlocks) {
  TestMount other(*server);
  const auto here = mount.open("file", O_RDWR), there = other.open("file", O_RDWR);
  ASSERT_EQ(other.lock(there, LockType::kWrite), 0);
  auto waiting = start_waiting(mount, here, LockType::kWrite, 1);
  wait_for_denial();
  EXPECT_EQ(other.lock(there, LockType::kUnlock), 0);
  EXPECT_EQ(errno_of(waiting.get()), 0);
  mount.close(here);
  other.close(there);
}

// Section 20.11: CB_NOTIFY_LOCK ends the pause between two attempts.
TEST_P(LockLoops, NotifiedByTheServer_AsksAgainAtOnce) {
  server->configure([](filer::nfs::Switches& s) { s.notify_locks = true; });
  TestMount other(*server);
  const auto here = mount.open("file", O_RDWR), there = other.open("file", O_RDWR);
  ASSERT_EQ(other.lock(there, LockType::kWrite), 0);
  auto waiting = start_waiting(mount, here, LockType::kWrite, 1);
  wait_for_denial();
  EXPECT_EQ(other.lock(there, LockType::kUnlock), 0);
  EXPECT_EQ(errno_of(waiting.get()), 0);
  EXPECT_GE(mount.fs().statistics().session.callbacks, 1u);
  mount.close(here);
  other.close(there);
}

TEST_P(LockLoops, Cancelled_IsInterruptedAndHoldsNothing) {
  const auto file = mount.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(file, LockType::kWrite, 0, UINT64_MAX, 1), 0);
  const auto cancellation = std::make_shared<client::Cancellation>();
  auto waiting = start_waiting(mount, file, LockType::kWrite, 2, cancellation);
  wait_for_denial();
  cancellation->cancel();
  EXPECT_EQ(errno_of(waiting.get()), EINTR);
  EXPECT_EQ(mount.lock(file, LockType::kUnlock, 0, UINT64_MAX, 1), 0);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, 0, UINT64_MAX, 3), 0) << "the cancelled one does not hold it";
  mount.close(file, 3);
}

TEST_P(LockLoops, CancelledBeforeItBegins_IsInterrupted) {
  const auto file = mount.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(file, LockType::kWrite, 0, UINT64_MAX, 1), 0);
  const auto cancellation = std::make_shared<client::Cancellation>();
  cancellation->cancel();
  EXPECT_EQ(errno_of(start_waiting(mount, file, LockType::kWrite, 2, cancellation).get()), EINTR);
  mount.close(file, 1);
}

// The application goes away while the last LOCK is in progress. If the server then grants the lock, it is
// released.
TEST_P(LockLoops, CancelledWhileTheServerGrantsIt_IsGivenBack) {
  const auto file = mount.open("file", O_RDWR);
  const auto cancellation = std::make_shared<client::Cancellation>();
  const auto rule = server->faults().add(on::request_with(OP_LOCK), filer::fault::Stall{});
  auto waiting = start_waiting(mount, file, LockType::kWrite, 2, cancellation);
  ASSERT_TRUE(server->faults().wait_fired(rule));
  cancellation->cancel();
  server->faults().release(rule);
  EXPECT_EQ(errno_of(waiting.get()), EINTR);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, 0, UINT64_MAX, 1), 0);
  mount.close(file, 1);
}

// The application got EINTR, and asks again while the first LOCK is still in progress. The cleanup of the
// first must not release the second one's lock.
TEST_P(LockLoops, CancelledAndAskedForAgain_IsHeld) {
  for (const bool wait : {false, true}) {
    const auto file = mount.open("file", O_RDWR);
    const auto cancellation = std::make_shared<client::Cancellation>();
    const auto rule = server->faults().add(on::request_with(OP_LOCK), filer::fault::Stall{});
    client::RequestContext user = mount.user();
    user.cancellation = cancellation;
    const client::Lock lock{LockType::kWrite, 0, UINT64_MAX, TestMount::process(2)};
    auto first = mount.start(mount.fs().setlk(user, file, 2, lock, wait));
    ASSERT_TRUE(server->faults().wait_fired(rule));
    cancellation->cancel();
    auto second = mount.start(mount.fs().setlk(mount.user(), file, 2, lock, wait));
    server->faults().release(rule);
    EXPECT_EQ(errno_of(first.get()), EINTR);
    EXPECT_EQ(errno_of(second.get()), 0);
    EXPECT_EQ(mount.lock(file, LockType::kRead, 0, UINT64_MAX, 1), EAGAIN) << "held";
    mount.close(file, 2);
  }
}

// An upgrade and a longer range are granted too late: the process keeps its earlier locks.
TEST_P(LockLoops, CancelledUpgrade_LeavesWhatWasHeldBefore) {
  const auto file = mount.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(file, LockType::kRead, 0, 9, 2), 0);
  ASSERT_EQ(mount.lock(file, LockType::kWrite, 20, 29, 2), 0);
  const auto cancellation = std::make_shared<client::Cancellation>();
  const auto rule = server->faults().add(on::request_with(OP_LOCK), filer::fault::Stall{});
  auto waiting = start_waiting(mount, file, LockType::kWrite, 2, cancellation);
  ASSERT_TRUE(server->faults().wait_fired(rule));
  cancellation->cancel();
  server->faults().release(rule);
  EXPECT_EQ(errno_of(waiting.get()), EINTR);
  EXPECT_EQ(mount.lock(file, LockType::kRead, 0, 9, 1), 0) << "a read lock again";
  EXPECT_EQ(mount.lock(file, LockType::kWrite, 0, 9, 1), EAGAIN) << "but not nothing";
  EXPECT_EQ(mount.lock(file, LockType::kRead, 20, 29, 1), EAGAIN) << "still a write lock";
  EXPECT_EQ(mount.lock(file, LockType::kWrite, 10, 19, 1), 0);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, 30, UINT64_MAX, 1), 0);
  mount.close(file, 2);
  mount.close(mount.open("file", O_RDWR), 1);
}

// The lock is granted, whatever happens to the GETATTR that follows.
TEST_P(LockLoops, GrantedWithoutAttributes_IsGrantedAndTheKernelsPagesAreForgotten) {
  const auto file = mount.open("file", O_RDWR);
  const unsigned before = mount.front_end.data(mount.node("file"));
  server->faults().add(
      on::request_with(OP_GETATTR).nth(1).if_([](const filer::FaultEvent& e) { return !e.has(OP_LOOKUP); }),
      filer::fault::Answer{OP_GETATTR, NFS4ERR_IO});
  EXPECT_EQ(mount.lock(file, LockType::kWrite), 0);
  EXPECT_EQ(mount.front_end.data(mount.node("file")), before + 1);
  mount.close(file);
}

TEST_P(LockLoops, ManyWaiters_GetItOneAfterTheOther) {
  const auto file = mount.open("file", O_RDWR);
  std::atomic<int> inside{0}, most{0}, done{0};
  const auto turn = [](TestMount& m, client::OpenFileRef f, uint64_t owner, std::atomic<int>& in,
                       std::atomic<int>& max, std::atomic<int>& finished) -> Task<int> {
    const client::RequestContext user = m.user();
    auto locked = co_await m.fs().setlk(user, f, owner, {LockType::kWrite, 0, 9, 1}, true);
    if (!locked) co_return locked.error().errnum;
    max = std::max(max.load(), ++in);
    auto read = co_await m.fs().getattr(user, client::nfs4::nfs4_file(f).node, nullptr);
    --in;
    ++finished;
    auto unlocked = co_await m.fs().setlk(user, f, owner, {LockType::kUnlock, 0, 9, 1}, false);
    co_return unlocked&& read ? 0 : EIO;
  };
  std::vector<std::future<int>> turns;
  for (uint64_t owner = 1; owner <= 8; ++owner) {
    turns.push_back(mount.start(turn(mount, file, owner, inside, most, done)));
  }
  for (auto& t : turns) EXPECT_EQ(t.get(), 0);
  EXPECT_EQ(most.load(), 1);
  EXPECT_EQ(done.load(), 8);
  mount.close(file, 1);
}

TEST_P(LockLoops, UnmountWhileSomebodyWaits_EndsTheWait) {
  TestMount other(*server);
  const auto there = other.open("file", O_RDWR);
  ASSERT_EQ(other.lock(there, LockType::kWrite), 0);
  const auto here = mount.open("file", O_RDWR);
  auto waiting = start_waiting(mount, here, LockType::kWrite, 1);
  wait_for_denial();
  EXPECT_TRUE(mount.unmount());
  EXPECT_EQ(waiting.wait_for(20s), std::future_status::ready);
  EXPECT_NE(errno_of(waiting.get()), 0);
  other.close(there);
}

INSTANTIATE_TEST_SUITE_P(Loops, LockLoops, testing::Values(1u, 4u));

// --- killed processes: nobody waits for their flush ---

class KilledLoops : public LockLoops {
 protected:
  void SetUp() override {
    server->configure([](filer::nfs::Switches& s) { s.close_frees_locks = false; });
  }
};

// Section 18.2.3: "the client SHOULD release all locks before sending a CLOSE".
TEST_P(KilledLoops, ReleasedBeforeTheUnlockIsDone_ClosesAfterIt) {
  const auto file = mount.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(file, LockType::kWrite, 0, 9, 1), 0);
  const auto rule = server->faults().add(on::request_with(OP_LOCKU), filer::fault::Stall{});
  auto flushed = mount.start(mount.fs().flush(mount.user(), file, 1));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  auto released = mount.start(mount.fs().release(mount.user(), file));
  mount.settle();
  EXPECT_EQ(released.wait_for(0s), std::future_status::timeout);
  server->faults().release(rule);
  EXPECT_EQ(errno_of(flushed.get()), 0);
  released.get();
  EXPECT_TRUE(server->states().empty());
  EXPECT_EQ(server->executed(OP_CLOSE).executed, 1u);
}

TEST_P(KilledLoops, LocksNobodyReleased_AreReleasedBeforeTheClose) {
  const auto file = mount.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(file, LockType::kWrite, 0, 9, 1), 0);
  ASSERT_EQ(mount.lock(file, LockType::kRead, 20, 29, 2), 0);
  mount.run(mount.fs().release(mount.user(), file));
  EXPECT_TRUE(server->states().empty());
  EXPECT_EQ(server->executed(OP_CLOSE).executed, 1u);
}

// The server believes that a lock is held; the client does not.
TEST_P(KilledLoops, CloseRefusedBecauseOfLocks_IsRepeatedWithoutThem) {
  const auto file = mount.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(file, LockType::kWrite, 0, 9, 1), 0);
  server->faults().add(on::request_with(OP_CLOSE), filer::fault::Answer{OP_CLOSE, NFS4ERR_LOCKS_HELD});
  EXPECT_EQ(mount.close(file, 1), 0);
  EXPECT_TRUE(server->states().empty());
}

// The kernel names lock-owners by addresses. The next process may get the address of one whose flush is not
// done.
TEST_P(KilledLoops, NextOwnerOfThatName_KeepsWhatItLocks) {
  const auto file = mount.open("file", O_RDWR), next = mount.open("file", O_RDWR);
  ASSERT_EQ(mount.lock(file, LockType::kWrite, 0, 9, 1), 0);
  ASSERT_EQ(mount.write(file, 0, "dirty"), 0);
  const auto rule = server->faults().add(on::request_with(OP_WRITE), filer::fault::Stall{});
  auto flushed = mount.start(mount.fs().flush(mount.user(), file, 1));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  auto locked = mount.start(mount.fs().setlk(mount.user(), next, 1, {LockType::kWrite, 0, 9, 1}, false));
  mount.settle();
  EXPECT_EQ(locked.wait_for(0s), std::future_status::timeout);
  server->faults().release(rule);
  EXPECT_EQ(errno_of(flushed.get()), 0);
  EXPECT_EQ(errno_of(locked.get()), 0);
  EXPECT_EQ(mount.lock(next, LockType::kWrite, 0, 9, 2), EAGAIN);
  mount.run(mount.fs().release(mount.user(), file));
  mount.close(next, 1);
  EXPECT_TRUE(server->states().empty());
}

INSTANTIATE_TEST_SUITE_P(Loops, KilledLoops, testing::Values(1u, 4u));

// --- the kernel reuses addresses: an owner that ended, and the next owner with its name ---

class NextOfTheName : public LockLoops {
 protected:
  static constexpr uint64_t kName = 7;

  client::OpenFileRef open_as(uint32_t uid) {
    auto opened = mount.run(mount.fs().open(mount.user(uid), mount.node("file"), O_RDWR));
    EXPECT_TRUE(opened);
    return opened ? opened->file : nullptr;
  }
  int flock(const client::OpenFileRef& file, LockType type) {
    return errno_of(mount.run(mount.fs().flock(mount.user(), file, kName, type, false)));
  }
  bool closed_one() {
    return server->wait_until(
        [](filer::nfs::Core& core) { return core.journal.count(OP_CLOSE).succeeded != 0; });
  }
  std::vector<std::string> lock_owners() {
    std::vector<std::string> owners;
    for (const auto& state : live_states(*server, filer::state::StateKind::kLock))
      owners.push_back(state.owner);
    return owners;
  }
  bool excludes_others() {
    TestMount other(*server);
    const auto there = other.open("file", O_RDWR);
    const int got = other.lock(there, LockType::kWrite);
    other.close(there);
    EXPECT_TRUE(got == 0 || got == EAGAIN) << got;
    return got == EAGAIN;
  }
};

// RFC 8881 section 9.5: "the locking status of each byte ... MUST reflect the last LOCK or LOCKU operation
// done for the lock-owner in question, independent of the stateid through which the request was sent".
TEST_P(NextOfTheName, OfAnotherUser_KeepsItsLockWhenTheFirstOpenIsClosed) {
  const auto first = open_as(1000);
  ASSERT_EQ(flock(first, LockType::kWrite), 0);
  mount.run(mount.fs().release(mount.user(), first));
  const auto next = open_as(0);
  ASSERT_EQ(flock(next, LockType::kWrite), 0);
  EXPECT_TRUE(closed_one()) << "the first one's, which was put off";
  EXPECT_TRUE(excludes_others());
  mount.run(mount.fs().release(mount.user(), next));
  EXPECT_FALSE(excludes_others());
}

TEST_P(NextOfTheName, OfTheSameUser_HasALockOwnerOfItsOwn) {
  const auto stays = open_as(0), first = open_as(0), next = open_as(0);
  ASSERT_EQ(flock(first, LockType::kWrite), 0);
  const auto before = lock_owners();
  mount.run(mount.fs().release(mount.user(), first));
  ASSERT_EQ(flock(next, LockType::kWrite), 0);
  const auto after = lock_owners();
  EXPECT_TRUE(std::ranges::any_of(
      after, [&](const std::string& owner) { return std::ranges::find(before, owner) == before.end(); }));
  EXPECT_TRUE(excludes_others());
  mount.run(mount.fs().release(mount.user(), next));
  EXPECT_FALSE(excludes_others());
  mount.close(stays);
}

// The remaining locks of a description are released with it, and no other owner's of the same name.
TEST_P(NextOfTheName, LockedWhileTheFirstIsStillUnlocking_WaitsAndIsKept) {
  const auto first = open_as(1000), next = open_as(0);
  ASSERT_EQ(flock(first, LockType::kWrite), 0);
  ASSERT_EQ(mount.lock(first, LockType::kWrite, 0, UINT64_MAX, kName), EAGAIN)
      << "flock and POSIX locks are one";
  const auto rule = server->faults().add(on::request_with(OP_LOCKU), filer::fault::Stall{});
  auto released = mount.start(mount.fs().release(mount.user(), first));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  auto locked = mount.start(mount.fs().flock(mount.user(), next, kName, LockType::kWrite, false));
  mount.settle();
  EXPECT_EQ(locked.wait_for(0s), std::future_status::timeout);
  server->faults().release(rule);
  released.get();
  EXPECT_EQ(errno_of(locked.get()), 0);
  EXPECT_TRUE(excludes_others());
  mount.run(mount.fs().release(mount.user(), next));
  EXPECT_TRUE(server->states().empty());
}

// One process opens a file as two users. Its idle lock-owner does not stay with the first open.
TEST_P(NextOfTheName, PosixLockThroughAnothersOpen_OutlivesTheFirstOpen) {
  const auto first = open_as(1000), next = open_as(0);
  ASSERT_EQ(mount.lock(first, LockType::kWrite, 0, 9, 1), 0);
  ASSERT_EQ(mount.lock(first, LockType::kUnlock, 0, 9, 1), 0);
  ASSERT_EQ(mount.lock(next, LockType::kWrite, 0, 9, 1), 0);
  mount.run(mount.fs().release(mount.user(), first));
  EXPECT_TRUE(closed_one());
  EXPECT_TRUE(excludes_others());
  mount.close(next, 1);
  EXPECT_FALSE(excludes_others());
}

TEST_P(NextOfTheName, PosixLocksOfOneProcess_AreOneOwnersThroughAllItsDescriptors) {
  const auto first = open_as(1000), next = open_as(0);
  ASSERT_EQ(mount.lock(first, LockType::kWrite, 0, 9, 1), 0);
  EXPECT_EQ(mount.lock(next, LockType::kRead, 5, 9, 1), 0) << "one's own";
  EXPECT_EQ(mount.lock(next, LockType::kWrite, 0, 19, 1), 0);
  EXPECT_EQ(errno_of(mount.run(mount.fs().flush(mount.user(), next, 1))), 0);
  EXPECT_FALSE(excludes_others()) << "any close drops them all";
  mount.close(first, 1);
  mount.close(next, 1);
}

// fcntl(2): a lock is released when the holder's last close(2) returns, although the kernel's message comes
// later.
TEST_P(NextOfTheName, TestedWhileTheHolderIsUnlocking_IsNotThereAnyMore) {
  for (const bool posix : {false, true}) {
    const auto first = open_as(0), next = open_as(0);
    ASSERT_EQ(
        posix ? mount.lock(first, LockType::kWrite, 0, UINT64_MAX, kName) : flock(first, LockType::kWrite),
        0);
    const auto rule = server->faults().add(on::request_with(OP_LOCKU), filer::fault::Stall{});
    auto released = mount.start(mount.fs().release(mount.user(), first));
    ASSERT_TRUE(server->faults().wait_fired(rule));
    auto tested = mount.start(mount.fs().getlk(mount.user(), next, 2, {LockType::kWrite, 0, UINT64_MAX, 0}));
    mount.settle();
    EXPECT_EQ(tested.wait_for(0s), std::future_status::timeout);
    server->faults().release(rule);
    released.get();
    const auto found = tested.get();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->type, LockType::kUnlock);
    mount.close(next);
  }
}

// A close(2) that was not the last one delays nobody.
TEST_P(NextOfTheName, DuplicateOfADescriptorThatWasClosed_DelaysNobody) {
  const auto holder = open_as(0), next = open_as(0);
  ASSERT_EQ(mount.lock(holder, LockType::kWrite, 0, 9, kName), 0);
  ASSERT_EQ(errno_of(mount.run(mount.fs().flush(mount.user(), holder, 1))), 0);
  server->clear_journal();
  EXPECT_EQ(mount.lock(next, LockType::kWrite, 0, 9, 2), EAGAIN);
  EXPECT_EQ(server->executed(OP_LOCK).executed, 1u) << "asked once";
  mount.close(holder, kName);
  mount.close(next, 2);
}

INSTANTIATE_TEST_SUITE_P(Loops, NextOfTheName, testing::Values(1u, 4u));

// The front end implements local_lock=, and the server checks the descriptor's access. Ranges are the
// client's task.
TEST(LockRanges, ToTheEndAndTheLastByte_AreKeptApart) {
  auto server = start_filer();
  server->make_file("/export/file", "");
  TestMount mount(*server);
  const auto file = mount.open("file", O_RDWR);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, INT64_MAX - 1, INT64_MAX, 1), 0);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, 0, INT64_MAX - 2, 2), 0);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, INT64_MAX, UINT64_MAX, 2), EAGAIN);
  EXPECT_EQ(mount.test_lock(file, LockType::kRead, INT64_MAX, INT64_MAX, 3)->start, uint64_t{INT64_MAX} - 1);
  EXPECT_EQ(mount.lock(file, LockType::kUnlock, INT64_MAX, INT64_MAX, 1), 0);
  EXPECT_EQ(mount.lock(file, LockType::kWrite, INT64_MAX, UINT64_MAX, 2), 0);
  mount.close(file, 1);
}

}  // namespace
}  // namespace nfsrdma::test

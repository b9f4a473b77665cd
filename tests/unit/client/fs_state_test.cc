// SPDX-License-Identifier: Apache-2.0
// State that a running server took away: expired, revoked, unknown or outdated stateids (RFC 8881 sections
// 8.2, 8.4.2.4, 8.5), and the client's record of opens.
#include <sys/types.h>
#include <unistd.h>

#include <thread>

#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using client::LockType;
using filer::fault::Answer;
using filer::state::StateKind;
namespace on = filer::on;

class StateLoops : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    server = start_filer();
    server->make_file("/export/file", "content", 0666);
    mount = std::make_unique<TestMount>(*server, TestMount::Settings{.loops = GetParam()});
  }
  std::vector<filer::StateFacts> live(StateKind kind) { return live_states(*server, kind); }
  nfs4::clientid4 client_id() { return server->clients().at(0).id; }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
};

// --- the record of opens (sections 9.7-9.10) ---

TEST_P(StateLoops, ManyDescriptorsOfAFile_AreOneOpenWithTheirAccessTogether) {
  const auto reader = mount->open("file", O_RDONLY);
  ASSERT_EQ(live(StateKind::kOpen).size(), 1u);
  EXPECT_EQ(live(StateKind::kOpen)[0].access, OPEN4_SHARE_ACCESS_READ);
  const auto writer = mount->open("file", O_WRONLY);
  const auto second_reader = mount->open("file", O_RDONLY);
  ASSERT_EQ(live(StateKind::kOpen).size(), 1u);
  EXPECT_EQ(live(StateKind::kOpen)[0].access, OPEN4_SHARE_ACCESS_BOTH);
  mount->close(reader);
  EXPECT_EQ(live(StateKind::kOpen)[0].access, OPEN4_SHARE_ACCESS_BOTH);
  mount->close(second_reader);
  EXPECT_EQ(live(StateKind::kOpen)[0].access, OPEN4_SHARE_ACCESS_WRITE) << "downgraded";
  EXPECT_EQ(mount->write(writer, 0, "C"), 0);
  mount->close(writer);
  EXPECT_TRUE(live(StateKind::kOpen).empty());
  EXPECT_EQ(mount->fs().statistics().cache.open_files, 0u);
}

// The server knows only the access modes that were opened. A downgrade from both to read is possible only if
// the file was opened for reading, too.
TEST_P(StateLoops, ReadWriteDescriptorGone_LeavesWhatOthersOpened) {
  const auto both = mount->open("file", O_RDWR);
  const auto reader = mount->open("file", O_RDONLY);
  mount->close(both);
  EXPECT_EQ(live(StateKind::kOpen).at(0).access, OPEN4_SHARE_ACCESS_READ);
  EXPECT_EQ(*mount->read(reader), "content");
  mount->close(reader);
  EXPECT_TRUE(live(StateKind::kOpen).empty());
}

// nfs-ganesha 6 refuses an open for less than the user already has, of a file with mode 0444 that this user
// created and is writing.
TEST_P(StateLoops, RefusedForLessThanTheUserHas_IsHadByWhatHeHas) {
  const auto both = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->write(both, 0, "CONTENT"), 0);
  server->faults().add(on::request_with(OP_OPEN), Answer{OP_OPEN, NFS4ERR_ACCESS});
  const auto reader = mount->open("file", O_RDONLY);
  ASSERT_TRUE(reader);
  EXPECT_EQ(*mount->read(reader), "CONTENT");
  mount->close(both);
  EXPECT_EQ(server->executed(OP_OPEN_DOWNGRADE).executed, 0u) << "reading alone was never opened";
  EXPECT_EQ(*mount->read(reader), "CONTENT");
  mount->close(reader);
  EXPECT_TRUE(server->states().empty());
  EXPECT_EQ(mount->fs().statistics().cache.open_files, 0u);
}

TEST_P(StateLoops, RefusedForLessThanTheUserHas_IsRefusedWhereAccessSaysSo) {
  const client::NodeRef node = mount->node("file");
  const auto owner = mount->user(1000, 1000);
  auto both = mount->run(mount->fs().open(owner, node, O_RDWR));
  ASSERT_TRUE(both);
  client::SetAttributes none;
  none.mode = 0;
  ASSERT_TRUE(mount->run(mount->fs().setattr(mount->user(), node, none, nullptr)));
  server->faults().add(on::request_with(OP_OPEN), Answer{OP_OPEN, NFS4ERR_ACCESS});
  EXPECT_EQ(errno_of(mount->run(mount->fs().open(owner, node, O_RDONLY))), EACCES);
  EXPECT_EQ(live(StateKind::kOpen).size(), 1u) << "the other is not closed with it";
  mount->close(std::move(both->file));
  EXPECT_TRUE(server->states().empty());
}

TEST_P(StateLoops, RefusedForWhatTheUserHasNot_IsRefused) {
  const auto reader = mount->open("file", O_RDONLY);
  server->faults().add(on::request_with(OP_OPEN).always(), Answer{OP_OPEN, NFS4ERR_ACCESS});
  for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR})
    EXPECT_EQ(errno_of(mount->run(mount->fs().open(mount->user(), mount->node("file"), flags))), EACCES);
  mount->close(reader);
  EXPECT_TRUE(server->states().empty());
}

// Replies may come in any order: the open that was executed after the downgrade counts.
TEST_P(StateLoops, DowngradeAnsweredAfterALaterOpen_DoesNotUndoIt) {
  const auto both = mount->open("file", O_RDWR);
  const auto reader = mount->open("file", O_RDONLY);
  const auto rule = server->faults().add(on::reply_to(OP_OPEN_DOWNGRADE), filer::fault::Stall{});
  auto closed = mount->start(mount->fs().release(mount->user(), both));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  const auto later = mount->create("file", O_RDWR);  // by name, so it waits for no other open
  server->faults().release(rule);
  closed.get();
  ASSERT_EQ(live(StateKind::kOpen).size(), 1u);
  EXPECT_EQ(live(StateKind::kOpen)[0].access, OPEN4_SHARE_ACCESS_BOTH);
  EXPECT_EQ(mount->lock(later, client::LockType::kWrite), 0);
  EXPECT_EQ(server->executed(OP_LOCK).executed, 1u) << "with the newer stateid";
  mount->close(reader);
  EXPECT_EQ(server->executed(OP_OPEN_DOWNGRADE).executed, 1u) << "the later one reads, too";
  mount->close(later);
  EXPECT_TRUE(live(StateKind::kOpen).empty());
}

TEST_P(StateLoops, TwoUsers_AreTwoOpens) {
  const auto root = mount->open("file", O_RDWR);
  auto other = mount->run(mount->fs().open(mount->user(1000, 1000), mount->node("file"), O_RDWR));
  ASSERT_TRUE(other) << describe(other.error());
  EXPECT_EQ(live(StateKind::kOpen).size(), 2u);
  mount->close(root);
  EXPECT_EQ(*mount->read(other->file), "content");
  mount->close(std::move(other->file));
  EXPECT_TRUE(live(StateKind::kOpen).empty());
}

TEST_P(StateLoops, OpensAndClosesAtOnce_EndInAgreement) {
  const client::NodeRef node = mount->node("file");
  const auto turn = [](TestMount& m, client::NodeRef n, int flags) -> Task<int> {
    for (int i = 0; i < 25; ++i) {
      const client::RequestContext user = m.user();
      auto opened = co_await m.fs().open(user, n, flags);
      if (!opened) co_return opened.error().errnum;
      auto read = co_await m.fs().getattr(user, n, opened->file);
      if (!read) co_return read.error().errnum;
      auto flushed = co_await m.fs().flush(user, opened->file, 1);
      if (!flushed) co_return flushed.error().errnum;
      co_await m.fs().release(user, opened->file);
    }
    co_return 0;
  };
  std::vector<std::future<int>> turns;
  for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR, O_RDONLY, O_RDWR, O_WRONLY}) {
    turns.push_back(mount->start(turn(*mount, node, flags)));
  }
  for (auto& t : turns) EXPECT_EQ(t.get(), 0);
  EXPECT_TRUE(server->states().empty());
  EXPECT_EQ(mount->fs().statistics().cache.open_files, 0u);
}

// truncate(2) during the last close of a descriptor: its open is gone on the server, and nobody would close
// another one.
TEST_P(StateLoops, TruncateBesideTheLastClose_IsDoneWithoutAnOpen) {
  const auto node = mount->node("file");
  const auto closed = server->faults().add(on::reply_to(OP_CLOSE), filer::fault::Stall{});
  auto file = mount->open("file", O_RDWR);
  auto closing = mount->start(mount->fs().release(mount->user(), std::move(file)));
  ASSERT_TRUE(server->faults().wait_fired(closed));
  const auto asked = server->faults().add(on::reply_to(OP_SETATTR), filer::fault::Mangle{[](ByteVector&) {}});
  client::SetAttributes set;
  set.size = 3;
  auto truncating = mount->start(mount->fs().setattr(mount->user(), node, set, nullptr));
  ASSERT_TRUE(server->faults().wait_fired(asked));
  server->faults().release(closed);
  const auto truncated = truncating.get();
  EXPECT_TRUE(truncated) << describe(truncated.error());
  closing.get();
  EXPECT_EQ(server->read_file("/export/file"), "con");
  EXPECT_TRUE(server->states().empty());
}

// OPEN by name (create) and CLOSE of the same file may overtake each other.
TEST_P(StateLoops, CreatesAndClosesAtOnce_EndInAgreement) {
  const auto turn = [](TestMount& m, client::NodeRef directory, unsigned seed) -> Task<int> {
    for (unsigned i = 0; i < 25; ++i) {
      const client::RequestContext user = m.user();
      const int flags = ((seed + i) % 2 == 0 ? O_RDWR : O_RDONLY) | O_CREAT;
      auto opened = co_await m.fs().create(user, directory, "shared", 0644, flags);
      if (!opened) co_return opened.error().errnum;
      co_await m.fs().release(user, opened->open.file);
    }
    co_return 0;
  };
  std::vector<std::future<int>> turns;
  for (unsigned i = 0; i < 6; ++i) turns.push_back(mount->start(turn(*mount, mount->root(), i)));
  for (auto& t : turns) EXPECT_EQ(t.get(), 0);
  EXPECT_TRUE(server->states().empty());
}

// The server executed OPEN by name, but not the rest of the COMPOUND. No application has the file, so the
// client must close it.
TEST_P(StateLoops, CreateWhoseAnswerEndsAfterTheOpen_IsClosed) {
  for (const nfs_opnum4 op : {OP_GETFH, OP_GETATTR}) {
    server->faults().add(on::request_with(OP_OPEN), Answer{op, NFS4ERR_IO});
    EXPECT_EQ(errno_of(mount->try_create("new")), EIO);
    EXPECT_TRUE(live(StateKind::kOpen).empty()) << op;
  }
  // It must not close another user's open.
  const auto file = mount->create("new");
  ASSERT_EQ(mount->lock(file, LockType::kWrite), 0);
  for (const nfs_opnum4 op : {OP_GETFH, OP_GETATTR}) {
    server->faults().add(on::request_with(OP_OPEN), Answer{op, NFS4ERR_IO});
    EXPECT_EQ(errno_of(mount->try_create("new")), EIO);
    EXPECT_EQ(live(StateKind::kLock).size(), 1u);
  }
  EXPECT_EQ(mount->write(file, 0, "text"), 0);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(server->read_file("/export/new"), "text");
  EXPECT_TRUE(server->states().empty());
}

// --- invalid stateids ---

class StateRefused : public StateLoops {
 protected:
  // TEST_STATEID says that the stateid is valid, and the server refuses it anyway.
  static constexpr unsigned kRefusals = 3;
};

TEST_P(StateRefused, OnceAndThenFoundToBeThere_IsSentAgainAndNothingIsOpened) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0);
  const uint64_t opens = mount->requests("OPEN");
  server->faults().add(on::request_with(OP_READ), Answer{OP_READ, NFS4ERR_BAD_STATEID});
  EXPECT_EQ(mount->read(file).value_or("error"), "content");
  EXPECT_EQ(mount->requests("OPEN"), opens);
  EXPECT_EQ(live(StateKind::kLock).size(), 1u);
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(StateRefused, OnRead_IsOpenedAnewAndReadAgain) {
  for (const nfsstat4 status : {NFS4ERR_EXPIRED, NFS4ERR_ADMIN_REVOKED, NFS4ERR_BAD_STATEID,
                                NFS4ERR_OLD_STATEID, NFS4ERR_DELEG_REVOKED}) {
    const auto file = mount->open("file");
    const auto rule =
        server->faults().add(on::request_with(OP_READ).times(kRefusals), Answer{OP_READ, status});
    EXPECT_EQ(mount->read(file).value_or("error"), "content") << name_of(status);
    EXPECT_EQ(server->faults().fired(rule), kRefusals);
    EXPECT_EQ(mount->close(file), 0);
    EXPECT_TRUE(live(StateKind::kOpen).empty()) << name_of(status);
  }
}

TEST_P(StateRefused, OnWrite_IsOpenedAnewAndWrittenAgain) {
  for (const nfsstat4 status :
       {NFS4ERR_EXPIRED, NFS4ERR_ADMIN_REVOKED, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID}) {
    const auto file = mount->open("file", O_RDWR);
    server->faults().add(on::request_with(OP_WRITE).times(kRefusals), Answer{OP_WRITE, status});
    EXPECT_EQ(mount->write(file, 0, name_of(status)), 0);
    EXPECT_EQ(mount->fsync(file), 0) << name_of(status);
    EXPECT_EQ(server->read_file("/export/file")->substr(0, name_of(status).size()), name_of(status));
    EXPECT_EQ(mount->close(file), 0);
  }
}

TEST_P(StateRefused, OnWriteUnderALock_IsEioAndWritesNothing) {
  for (const nfsstat4 status : {NFS4ERR_EXPIRED, NFS4ERR_ADMIN_REVOKED, NFS4ERR_BAD_STATEID}) {
    const auto file = mount->open("file", O_RDWR | O_SYNC);
    ASSERT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0);
    server->faults().add(on::request_with(OP_WRITE).times(kRefusals), Answer{OP_WRITE, status});
    EXPECT_EQ(mount->write(file, 0, "without the lock"), EIO) << name_of(status);
    EXPECT_EQ(server->read_file("/export/file"), "content");
    EXPECT_EQ(errno_of(mount->read(file)), EIO);
    EXPECT_EQ(mount->lock(file, LockType::kUnlock), 0);
    EXPECT_EQ(*mount->read(file), "content");
    EXPECT_EQ(mount->close(file), 0);
  }
}

TEST_P(StateRefused, OnLock_IsOpenedAnewAndLocked) {
  for (const nfsstat4 status :
       {NFS4ERR_EXPIRED, NFS4ERR_ADMIN_REVOKED, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID}) {
    const auto file = mount->open("file", O_RDWR);
    server->faults().add(on::request_with(OP_LOCK).times(kRefusals), Answer{OP_LOCK, status});
    EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0) << name_of(status);
    EXPECT_EQ(live(StateKind::kLock).size(), 1u);
    EXPECT_EQ(mount->close(file), 0);
    EXPECT_TRUE(live(StateKind::kLock).empty());
  }
}

TEST_P(StateRefused, OnClose_IsClosedAllTheSame) {
  for (const nfsstat4 status : {NFS4ERR_EXPIRED, NFS4ERR_ADMIN_REVOKED, NFS4ERR_BAD_STATEID}) {
    const auto file = mount->open("file", O_RDWR);
    server->faults().add(on::request_with(OP_CLOSE), Answer{OP_CLOSE, status});
    EXPECT_EQ(mount->close(file), 0);
    EXPECT_EQ(mount->read_file("file"), "content");
  }
}

TEST_P(StateRefused, OnSetattrOfTheSize_IsOpenedAnewAndSet) {
  const auto file = mount->open("file", O_RDWR);
  server->faults().add(on::request_with(OP_SETATTR).times(kRefusals), Answer{OP_SETATTR, NFS4ERR_EXPIRED});
  client::SetAttributes set;
  set.size = 4;
  EXPECT_EQ(errno_of(mount->run(mount->fs().setattr(mount->user(), mount->node("file"), set, file))), 0);
  EXPECT_EQ(server->read_file("/export/file"), "cont");
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(StateRefused, AndNotToBeHadAgain_IsThatError) {
  const auto file = mount->open("file");
  server->faults().add(on::request_with(OP_READ).times(kRefusals), Answer{OP_READ, NFS4ERR_EXPIRED});
  server->faults().add(on::request_with(OP_OPEN), Answer{OP_OPEN, NFS4ERR_ACCESS});
  EXPECT_EQ(errno_of(mount->read(file)), EACCES);
  EXPECT_EQ(errno_of(mount->read(file)), EACCES) << "it stays so for this descriptor";
  mount->close(file);
  EXPECT_EQ(mount->read_file("file"), "content") << "and not for others";
}

TEST_P(StateRefused, ForEver_IsAnErrorAfterSoManyAttempts) {
  const auto file = mount->open("file");
  server->faults().add(on::request_with(OP_READ).always(), Answer{OP_READ, NFS4ERR_BAD_STATEID});
  EXPECT_EQ(errno_of(mount->read(file)), EIO);
  server->faults().clear();
  mount->close(file);
}

// --- real revocation ---

// After the open was lost, the first user to open the file uses only its own access mode. The access modes of
// the other users are opened again, too.
TEST_P(StateRefused, OpenedForReadingAfterTheWritersOpenWasRevoked_CanBeWrittenOn) {
  for (const bool created : {false, true}) {
    const auto writer = mount->open("file", O_RDWR);
    ASSERT_TRUE(server->revoke(live(StateKind::kOpen).at(0).id));
    const auto reader =
        created ? mount->try_create("file", O_RDONLY).value_or(nullptr) : mount->open("file", O_RDONLY);
    ASSERT_TRUE(reader);
    EXPECT_EQ(mount->write(writer, 0, "C"), 0);
    EXPECT_EQ(mount->fsync(writer), 0);
    client::SetAttributes set;
    set.size = 4;
    EXPECT_EQ(errno_of(mount->run(mount->fs().setattr(mount->user(), mount->node("file"), set, writer))), 0);
    EXPECT_EQ(mount->read(reader).value_or("error"), "Cont");
    EXPECT_EQ(mount->close(reader), 0);
    EXPECT_EQ(mount->write(writer, 4, "ent"), 0);
    EXPECT_EQ(mount->close(writer), 0);
    EXPECT_EQ(server->read_file("/export/file"), "Content");
    EXPECT_TRUE(live(StateKind::kOpen).empty());
  }
}

TEST_P(StateRefused, RevokedByAnAdministrator_IsOpenedAnewAndFreed) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_TRUE(server->revoke(live(StateKind::kOpen).at(0).id));
  EXPECT_EQ(mount->read(file).value_or("error"), "content");
  EXPECT_EQ(mount->write(file, 0, "C"), 0);
  EXPECT_EQ(mount->close(file), 0);
  // "Once the client has freed all of the revoked stateids", the server may clear the flag.
  EXPECT_TRUE(server->wait_until([](filer::nfs::Core& core) {
    unsigned revoked = 0;
    core.states.each([&](const filer::state::State& s) { revoked += !s.live(); });
    return revoked == 0;
  }));
  EXPECT_EQ(server->read_file("/export/file"), "Content");
}

TEST_P(StateRefused, LockRevokedByAnAdministrator_IsEioUnderItOnly) {
  constexpr uint64_t kProcess = 7;  // not the process of read_file(), whose close releases its locks
  const auto holder = mount->open("file", O_RDWR);
  const auto bystander = mount->open("file", O_RDONLY);
  ASSERT_EQ(mount->lock(holder, LockType::kWrite, 0, 9, kProcess), 0);
  ASSERT_TRUE(server->revoke(live(StateKind::kLock).at(0).id));
  // The flag comes with the next request of any process, and the client checks what was revoked.
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_TRUE(server->wait_until(
      [](filer::nfs::Core& core) { return core.journal.count(OP_FREE_STATEID).succeeded >= 1; }));
  EXPECT_EQ(errno_of(mount->read(holder)), EIO);
  EXPECT_EQ(mount->read(bystander).value_or("error"), "content");
  EXPECT_EQ(mount->lock(holder, LockType::kUnlock, 0, UINT64_MAX, kProcess), 0);
  EXPECT_EQ(mount->read(holder).value_or("error"), "content");
  EXPECT_EQ(mount->lock(holder, LockType::kWrite, 0, 9, kProcess), 0);
  mount->close(holder, kProcess);
  mount->close(bystander);
  EXPECT_TRUE(server->states().empty());
}

// The lock belongs to its process: this holds for writes through any of its descriptors, and for no other
// process. READ and WRITE carry the lock's stateid (section 8.2.5 gives the order of stateids); otherwise the
// server could not check.
TEST_P(StateRefused, LockRevoked_IsEioForItsProcessThroughEveryDescriptor) {
  constexpr uint64_t kProcess = 7;
  const auto holder = mount->open("file", O_RDWR | O_SYNC);
  const auto other = mount->open("file", O_RDWR | O_SYNC);
  ASSERT_EQ(mount->lock(holder, LockType::kWrite, 0, 9, kProcess), 0);
  ASSERT_TRUE(server->revoke(live(StateKind::kLock).at(0).id));
  mount->call_as(TestMount::process(kProcess));
  EXPECT_EQ(mount->write(other, 0, "without the lock"), EIO) << "the first request after the revocation";
  EXPECT_EQ(server->read_file("/export/file"), "content");
  EXPECT_EQ(errno_of(mount->read(other)), EIO);
  client::SetAttributes set;
  set.size = 3;
  EXPECT_EQ(errno_of(mount->run(mount->fs().setattr(mount->user(), mount->node("file"), set, other))), EIO);
  mount->call_as(TestMount::process(8));
  EXPECT_EQ(mount->write(other, 0, "C"), 0) << "another process has not relied on it";
  EXPECT_EQ(mount->write(holder, 0, "c"), EIO) << "unless through the descriptor that was locked";
  // Pages of a mapping are written without a process.
  mount->call_as(0);
  EXPECT_EQ(mount->write(other, 0, "c"), EIO);
  mount->call_as(TestMount::process(kProcess));
  EXPECT_EQ(mount->lock(other, LockType::kUnlock, 0, UINT64_MAX, kProcess), 0);
  EXPECT_EQ(mount->write(other, 0, "K"), 0);
  EXPECT_EQ(live(StateKind::kOpen).size(), 1u) << "the open was not revoked, and stayed";
  mount->close(other, kProcess);
  mount->close(holder, kProcess);
  EXPECT_EQ(server->read_file("/export/file"), "Kontent");
  EXPECT_TRUE(server->states().empty());
}

// All threads belong to the process: the kernel reports the calling thread, and the locking process.
TEST_P(StateRefused, LockRevoked_IsEioForEveryThreadOfItsProcess) {
  const auto file = mount->open("file", O_RDWR | O_SYNC);
  const auto other = mount->open("file", O_RDWR | O_SYNC);
  const client::Lock lock{LockType::kWrite, 0, 9, static_cast<uint32_t>(getpid())};
  ASSERT_EQ(errno_of(mount->run(mount->fs().setlk(mount->user(), file, 1, lock, false))), 0);
  ASSERT_TRUE(server->revoke(live(StateKind::kLock).at(0).id));
  const auto write_by_a_thread = [&] {
    int written = 0;
    std::thread([&] {
      mount->call_as(static_cast<uint32_t>(gettid()));
      written = mount->write(other, 0, "without");
    }).join();
    return written;
  };
  EXPECT_EQ(write_by_a_thread(), EIO);
  for (uint64_t owner = 10; owner < 20; ++owner)
    EXPECT_EQ(mount->lock(file, LockType::kWrite, owner, owner, owner), 0);
  EXPECT_EQ(write_by_a_thread(), EIO) << "beside many processes' locks";
  EXPECT_EQ(server->read_file("/export/file"), "content");
  mount->close(file);
  mount->close(other);
}

// Data that was written under the lock and was not sent before the lock was lost.
TEST_P(StateRefused, LockRevokedBeforeTheDataIsSent_IsEioAtFsyncAndWritesNothing) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0);
  ASSERT_EQ(mount->write(file, 0, "without"), 0);
  ASSERT_TRUE(server->revoke(live(StateKind::kLock).at(0).id));
  EXPECT_EQ(mount->fsync(file), EIO);
  EXPECT_EQ(server->read_file("/export/file"), "content");
  EXPECT_EQ(mount->lock(file, LockType::kUnlock), 0);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(mount->fs().statistics().cache.refused_bytes, 7u);
}

// If one descriptor has lost its access, the others still work.
TEST_P(StateRefused, OpenedAnewForReadingOnly_LeavesTheReadersInPeace) {
  const auto reader = mount->open("file", O_RDONLY);
  const auto writer = mount->open("file", O_WRONLY);
  ASSERT_TRUE(server->revoke(live(StateKind::kOpen).at(0).id));
  server->faults().add(on::request_with(OP_OPEN).nth(2), Answer{OP_OPEN, NFS4ERR_ACCESS});
  EXPECT_EQ(mount->read(reader).value_or("error"), "content");
  ASSERT_EQ(mount->write(writer, 0, "C"), 0);
  EXPECT_EQ(mount->fsync(writer), EACCES);
  const auto another = mount->open("file", O_RDONLY);
  EXPECT_EQ(mount->read(another).value_or("error"), "content");
  EXPECT_EQ(mount->close(another), 0);
  EXPECT_EQ(mount->close(writer), 0);
  EXPECT_EQ(mount->close(reader), 0);
  EXPECT_TRUE(live(StateKind::kOpen).empty());
}

// Section 8.4.3: the lease expired, for example because the network was down.
TEST_P(StateRefused, LeaseExpiredAndStateRevoked_IsOpenedAnewAndLocksAreLost) {
  const auto plain = mount->open("file", O_RDWR);
  const auto locked = mount->create("locked", O_RDWR);
  ASSERT_EQ(mount->lock(locked, LockType::kWrite, 0, 9), 0);
  server->expire_lease(client_id());
  EXPECT_EQ(mount->read(plain).value_or("error"), "content");
  EXPECT_TRUE(server->wait_until([](filer::nfs::Core& core) {
    unsigned revoked = 0;
    core.states.each([&](const filer::state::State& s) { revoked += !s.live(); });
    return revoked == 0;
  }));
  EXPECT_EQ(errno_of(mount->read(locked)), EIO);
  EXPECT_EQ(mount->lock(locked, LockType::kUnlock), 0);
  EXPECT_EQ(mount->write(locked, 0, "text"), 0);
  EXPECT_EQ(mount->close(locked), 0);
  EXPECT_EQ(mount->close(plain), 0);
  EXPECT_EQ(server->read_file("/export/locked"), "text");
}

TEST_P(StateRefused, LeaseExpiredAndClientForgotten_IsEstablishedAnew) {
  server->configure([](filer::nfs::Switches& s) { s.expiry = filer::nfs::Expiry::kForgetClient; });
  const auto plain = mount->open("file", O_RDWR);
  const auto locked = mount->create("locked", O_RDWR);
  ASSERT_EQ(mount->lock(locked, LockType::kWrite, 0, 9), 0);
  server->expire_lease(client_id());
  EXPECT_EQ(mount->read(plain).value_or("error"), "content");
  EXPECT_EQ(errno_of(mount->read(locked)), EIO) << "no grace: the lock could not be reclaimed";
  EXPECT_EQ(mount->lock(locked, LockType::kUnlock), 0);
  EXPECT_EQ(mount->close(locked), 0);
  EXPECT_EQ(mount->close(plain), 0);
  EXPECT_EQ(mount->fs().statistics().session.client_ids_established, 2u);
}

TEST_P(StateRefused, CourteousServer_KeepsWhatNobodyElseWants) {
  server->configure([](filer::nfs::Switches& s) { s.expiry = filer::nfs::Expiry::kCourtesy; });
  const auto locked = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(locked, LockType::kWrite, 0, 9), 0);
  server->expire_lease(client_id());
  EXPECT_EQ(mount->read(locked).value_or("error"), "content");
  EXPECT_EQ(mount->write(locked, 0, "C"), 0);
  EXPECT_EQ(mount->close(locked), 0);
  EXPECT_EQ(server->read_file("/export/file"), "Content");
}

INSTANTIATE_TEST_SUITE_P(Loops, StateLoops, testing::Values(1u, 4u));
INSTANTIATE_TEST_SUITE_P(Loops, StateRefused, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

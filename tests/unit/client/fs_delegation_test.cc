// SPDX-License-Identifier: Apache-2.0
// Delegations of a mount: what they save, what they promise, and how they end (RFC 8881 sections 10.2, 10.4,
// 10.5, 18.6, 18.16, 20.2).
#include "tests/unit/client/support/captured_log.h"
#include "tests/unit/client/support/delegation_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using filer::fault::Answer;
using filer::state::StateKind;
namespace on = filer::on;

// Section 10.4: "When a client has an open delegation, it does not need to send OPENs or CLOSEs to the
// server. Instead, the client may update the appropriate status internally."
TEST_P(DelegationLoops, OpensAndCloses_AreAnsweredHere) {
  EXPECT_EQ(mount->read_file("file"), "content");
  ASSERT_EQ(live(StateKind::kDelegation).size(), 1u);
  EXPECT_FALSE(live(StateKind::kDelegation)[0].write);
  server->clear_journal();
  for (int i = 0; i < 5; ++i) {
    const auto file = mount->open("file");
    EXPECT_EQ(mount->close(file), 0);
  }
  EXPECT_EQ(executed(OP_OPEN), 0u);
  EXPECT_EQ(executed(OP_CLOSE), 0u);
  EXPECT_EQ(executed(OP_GETATTR), 0u);
  EXPECT_EQ(executed(OP_ACCESS), 0u);
  EXPECT_EQ(numbers().local_opens, 5u);
  EXPECT_EQ(numbers().held_read, 1u);
  EXPECT_EQ(mount->fs().statistics().cache.open_files, 0u) << "nobody has it open";
}

// Section 10.4: the holder "is assured that neither the contents, the attributes (with the exception of
// time_access), nor the names of any links to the file will change without its knowledge".
TEST_P(DelegationLoops, AttributesAndNames_AreBelievedWhateverTheClockSays) {
  mount_with(std::chrono::seconds(0));
  EXPECT_EQ(mount->read_file("file"), "content");
  const auto entry = mount->lookup("file");  // looked up once more, so that it was seen under the delegation
  ASSERT_TRUE(entry);
  EXPECT_GT(entry->attributes_ttl, Duration::zero());
  server->clear_journal();
  EXPECT_EQ(mount->stat("file")->size, 7u);
  EXPECT_EQ(executed(OP_LOOKUP), 0u) << "the name is the file's";
  mount->read_file("file");
  EXPECT_EQ(executed(OP_OPEN), 0u);
}

// time_access, the exception, is not fetched either: it keeps the last known value.
TEST_P(DelegationLoops, TimeOfLastAccess_IsNotAskedFor) {
  EXPECT_EQ(mount->read_file("file"), "content");
  const auto before = mount->stat("file");
  server->clear_journal();
  EXPECT_EQ(mount->read_file("file"), "content");
  const auto after = mount->stat("file");
  ASSERT_TRUE(before && after);
  EXPECT_EQ(before->atime.tv_sec, after->atime.tv_sec);
  EXPECT_EQ(executed(OP_READ), 1u);
  EXPECT_EQ(executed(OP_GETATTR), 0u);
}

// Section 10.4.4: a "potentially conflicting OPEN request" causes a recall; what was open stays open.
TEST_P(DelegationLoops, RecallWhileOpen_LeavesTheFileOpen) {
  const auto first = mount->open("file");
  const auto second = mount->open("file");
  TestMount other(*server);
  const auto writer = other.open("file", O_RDWR);
  EXPECT_TRUE(returned());
  EXPECT_EQ(other.write(writer, 0, "CONTENT"), 0);
  EXPECT_EQ(other.fsync(writer), 0);
  EXPECT_EQ(*mount->read(first), "CONTENT");
  EXPECT_EQ(mount->stat("file")->size, 7u);
  EXPECT_EQ(mount->close(first), 0);
  EXPECT_EQ(mount->close(second), 0);
  EXPECT_EQ(numbers().recalled, 1u);
  EXPECT_EQ(numbers().returned, 1u);
  EXPECT_EQ(other.close(writer), 0);
  EXPECT_EQ(live(StateKind::kOpen).size(), other.fs().statistics().delegations.held_write);
}

// "opens that were done locally" are claimed with a "claim type of CLAIM_DELEGATE_CUR". A user who opened the
// file under another user's delegation still has it open afterwards.
TEST_P(DelegationLoops, AnotherUsersLocalOpen_IsClaimedBeforeTheReturn) {
  const auto first = mount->open("file");
  auto second = mount->run(mount->fs().open(mount->user(1000, 1000), mount->node("file"), O_RDONLY));
  ASSERT_TRUE(second);
  EXPECT_EQ(live(StateKind::kOpen).size(), 1u) << "the second one is ours alone";
  EXPECT_EQ(*mount->read(second->file), "content") << "by the delegation's stateid";
  const auto claimed = executed(OP_OPEN);
  EXPECT_EQ(server->recall("/export/file"), 1u);
  EXPECT_TRUE(returned());
  EXPECT_EQ(executed(OP_OPEN), claimed + 1);
  EXPECT_EQ(live(StateKind::kOpen).size(), 2u);
  EXPECT_EQ(*mount->read(second->file), "content");
  EXPECT_EQ(mount->close(second->file), 0);
  EXPECT_EQ(mount->close(first), 0);
  EXPECT_TRUE(live(StateKind::kOpen).empty());
}

// nfs-ganesha supports only NFSv4.0's claim, by name. The client tries the claim by handle only once.
TEST_P(DelegationLoops, ServerThatKnowsNoClaimByHandle_LocalOpensAreClaimedByName) {
  server->configure([](filer::nfs::Switches& s) { s.claims_by_handle = false; });
  server->make_file("/export/later", "content", 0666);
  for (const auto& [name, opens] : {std::pair("file", 2u), std::pair("later", 1u)}) {
    SCOPED_TRACE(name);
    const auto first = mount->open(name);
    auto second = mount->run(mount->fs().open(mount->user(1000, 1000), mount->node(name), O_RDONLY));
    ASSERT_TRUE(second);
    const auto before = executed(OP_OPEN);
    EXPECT_EQ(server->recall(std::string("/export/") + name), 1u);
    EXPECT_TRUE(returned());
    EXPECT_EQ(executed(OP_OPEN), before + opens);
    EXPECT_EQ(live(StateKind::kOpen).size(), 2u);
    EXPECT_EQ(mount->unlink(name), 0);
    EXPECT_EQ(mount->read(second->file).value_or("error"), "content");
    EXPECT_EQ(mount->close(second->file), 0);
    EXPECT_EQ(mount->close(first), 0);
  }
}

// The server does not check that the delegation belongs to the file that another client has given this name.
TEST_P(DelegationLoops, ClaimByNameThatOpensAnotherFile_IsClosedAgain) {
  server->configure([](filer::nfs::Switches& s) { s.claims_by_handle = false; });
  server->make_file("/export/other", "OTHER", 0666);
  const nfs_fh4 mine = server->stat("/export/file")->handle, other = server->stat("/export/other")->handle;
  ASSERT_EQ(mine.size(), other.size());
  const auto first = mount->open("file");
  auto second = mount->run(mount->fs().open(mount->user(1000, 1000), mount->node("file"), O_RDONLY));
  ASSERT_TRUE(second);
  server->faults().add(on::reply_to(OP_GETFH), filer::fault::Mangle{[=](ByteVector& reply) {
                         const auto at = std::search(reply.begin(), reply.end(), mine.bytes().begin(),
                                                     mine.bytes().end());
                         ASSERT_NE(at, reply.end());
                         std::ranges::copy(other.bytes(), at);
                       }});
  EXPECT_EQ(server->recall("/export/file"), 1u);
  EXPECT_TRUE(returned());
  EXPECT_EQ(executed(OP_CLOSE), 1u) << "of what the server says that it is";
  EXPECT_EQ(mount->read(second->file).value_or("error"), "content") << "opened anew, by handle";
  EXPECT_EQ(mount->close(second->file), 0);
  EXPECT_EQ(mount->close(first), 0);
}

// For a file that nobody has open, one COMPOUND is enough: CLOSE and DELEGRETURN.
TEST_P(DelegationLoops, RecallOfAClosedFile_TakesOneCompound) {
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(live(StateKind::kOpen).size(), 1u) << "kept open with the delegation";
  server->clear_journal();
  EXPECT_EQ(server->recall("/export/file"), 1u);
  EXPECT_TRUE(returned());
  EXPECT_TRUE(live(StateKind::kOpen).empty());
  EXPECT_EQ(server->journal().size(), 1u);
  EXPECT_EQ(executed(OP_CLOSE), 1u);
  EXPECT_EQ(executed(OP_DELEGRETURN), 1u);
}

// After a recall the attributes are fetched again, so another client's change is seen.
TEST_P(DelegationLoops, WhatAnotherClientWrites_IsSeenByTheNextOpen) {
  TestMount other(*server);
  for (int i = 0; i < 4; ++i) {
    const std::string text = "text " + std::to_string(i);
    EXPECT_EQ(other.write_file("file", text), 0);
    EXPECT_EQ(mount->read_file("file").substr(0, text.size()), text);
    EXPECT_EQ(mount->stat("file")->size, server->stat("/export/file")->size);
  }
}

TEST_P(DelegationLoops, RemovedAndRenamedByAnotherClient_IsSeen) {
  server->make_file("/export/more", "more", 0666);
  TestMount other(*server);
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(mount->read_file("more"), "more");
  EXPECT_EQ(other.rename("file", "renamed"), 0);
  EXPECT_EQ(other.unlink("more"), 0);
  EXPECT_TRUE(returned());
  EXPECT_EQ(mount->read_file("renamed"), "content");
  EXPECT_EQ(executed(OP_DELEGRETURN), 2u);
}

// A file that is removed here frees its space at once, also with a delegation.
TEST_P(DelegationLoops, RemovedHere_IsNotKeptOpen) {
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(mount->unlink("file"), 0);
  EXPECT_TRUE(live(StateKind::kDelegation).empty());
  EXPECT_TRUE(live(StateKind::kOpen).empty());
  EXPECT_FALSE(server->stat("/export/file"));
}

class RemovalUnderDelegation : public DelegationLoops {
 protected:
  // Counts COMPOUNDs that return a delegation and contain `op`.
  filer::FaultPlan::RuleId together(nfs_opnum4 op) {
    return server->faults().add(
        on::request_with(op).always().if_([](const filer::FaultEvent& e) { return e.has(OP_DELEGRETURN); }),
        filer::fault::Call{[] {}});
  }
  void expect_gone(const std::string& name) {
    EXPECT_FALSE(server->stat("/export/" + name));
    EXPECT_EQ(errno_of(mount->lookup(name)), ENOENT);
    EXPECT_TRUE(live(StateKind::kDelegation).empty());
    EXPECT_TRUE(live(StateKind::kOpen).empty());
  }
};

TEST_P(RemovalUnderDelegation, TakesOneCompound) {
  const auto both = together(OP_REMOVE);
  EXPECT_EQ(mount->read_file("file"), "content");
  server->clear_journal();
  EXPECT_EQ(mount->unlink("file"), 0);
  EXPECT_EQ(server->faults().fired(both), 1u);
  EXPECT_EQ(executed(OP_SEQUENCE), 1u);
  EXPECT_EQ(executed(OP_CLOSE), 1u);
  expect_gone("file");
}

TEST_P(RemovalUnderDelegation, OfWhatWasWrittenHere_TakesOneCompound) {
  const auto both = together(OP_REMOVE);
  EXPECT_EQ(mount->write_file("new", "data"), 0);
  ASSERT_EQ(numbers().held_write, 1u);
  EXPECT_EQ(mount->unlink("new"), 0);
  EXPECT_EQ(server->faults().fired(both), 1u);
  expect_gone("new");
}

TEST_P(RemovalUnderDelegation, RenamedOver_TakesOneCompound) {
  const auto both = together(OP_RENAME);
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(mount->write_file("new", "data"), 0);
  EXPECT_EQ(mount->rename("new", "file"), 0);
  EXPECT_EQ(server->faults().fired(both), 1u);
  EXPECT_EQ(mount->read_file("file"), "data");
  EXPECT_EQ(live(StateKind::kDelegation).size(), 1u) << "of what has the name now";
}

// Section 15.1.1.3: the whole COMPOUND is sent again, and the delegation is already returned then.
TEST_P(RemovalUnderDelegation, Delayed_IsDoneOnce) {
  EXPECT_EQ(mount->read_file("file"), "content");
  server->faults().add(on::request_with(OP_REMOVE), Answer{OP_REMOVE, NFS4ERR_DELAY});
  EXPECT_EQ(mount->unlink("file"), 0);
  expect_gone("file");
}

TEST_P(RemovalUnderDelegation, Refused_LeavesTheFile) {
  EXPECT_EQ(mount->read_file("file"), "content");
  server->faults().add(on::request_with(OP_REMOVE), Answer{OP_REMOVE, NFS4ERR_ACCESS});
  EXPECT_EQ(mount->unlink("file"), EACCES);
  EXPECT_TRUE(live(StateKind::kDelegation).empty());
  EXPECT_EQ(mount->read_file("file"), "content");
}

TEST_P(RemovalUnderDelegation, OfOneThatIsReturnedAlready_IsDone) {
  mount->expect_leftovers();  // the server keeps what it refused to return
  for (const nfs_opnum4 op : {OP_CLOSE, OP_DELEGRETURN}) {
    const std::string name = op_name(op);
    server->make_file("/export/" + name, "content", 0666);
    EXPECT_EQ(mount->read_file(name), "content");
    server->faults().add(on::request_with(op), Answer{op, NFS4ERR_BAD_STATEID});
    EXPECT_EQ(mount->unlink(name), 0) << name;
    EXPECT_FALSE(server->stat("/export/" + name));
  }
}

TEST_P(RemovalUnderDelegation, AnswerLost_SucceedsOnce) {
  EXPECT_EQ(mount->read_file("file"), "content");
  server->faults().add(on::reply_to(OP_REMOVE), filer::fault::Cut{});
  EXPECT_EQ(mount->unlink("file"), 0);
  expect_gone("file");
}

TEST_P(RemovalUnderDelegation, ServerRestartsBeforeOrAfterIt_Succeeds) {
  for (const bool executed : {false, true}) {
    const std::string name = executed ? "executed" : "lost";
    server->make_file("/export/" + name, "content", 0666);
    EXPECT_EQ(mount->read_file(name), "content");
    server->faults().add(executed ? on::reply_to(OP_REMOVE) : on::request_with(OP_REMOVE),
                         filer::fault::Restart{});
    EXPECT_EQ(mount->unlink(name), 0) << name;
    expect_gone(name);
  }
}

// An open for writing returns a read delegation, and the server may grant a write delegation.
TEST_P(DelegationLoops, OpenToWrite_TradesTheDelegation) {
  EXPECT_EQ(mount->read_file("file"), "content");
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(live(StateKind::kDelegation).size(), 1u);
  EXPECT_TRUE(live(StateKind::kDelegation)[0].write);
  EXPECT_EQ(mount->write(file, 0, "CONTENT"), 0);
  EXPECT_EQ(mount->close(file), 0);
  server->clear_journal();
  const auto again = mount->open("file", O_RDWR);
  EXPECT_EQ(*mount->read(again), "CONTENT");
  EXPECT_EQ(mount->close(again), 0);
  EXPECT_EQ(executed(OP_OPEN) + executed(OP_CLOSE), 0u);
}

// Section 10.4.4: "If there is dirty data ... modified data must be flushed to the server" before the return.
TEST_P(DelegationLoops, RecallOfAWriteDelegation_FlushesFirst) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(numbers().held_write, 1u);
  EXPECT_EQ(mount->write(file, 0, "written"), 0);
  TestMount other(*server);
  EXPECT_EQ(other.read_file("file"), "written") << "the reader's OPEN has waited for it";
  EXPECT_EQ(mount->write(file, 7, " later"), 0) << "the file is still open";
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(other.read_file("file"), "written later");
}

// The kernel keeps data that was written through a mapping until it is told to drop the pages.
TEST_P(DelegationLoops, RecallOfAWriteDelegation_AsksTheKernelForWhatWasMapped) {
  const auto file = mount->open("file", O_RDWR);
  const auto node = mount->node("file");
  ASSERT_EQ(numbers().held_write, 1u);
  EXPECT_EQ(mount->front_end.data(node), 0u);
  TestMount other(*server);
  EXPECT_EQ(other.read_file("file"), "content");
  EXPECT_GE(mount->front_end.data(node), 1u);
  EXPECT_EQ(mount->close(file), 0);
}

// A reader with a descriptor or a mapping sends no request while the kernel has the pages. So they are
// dropped before the other client may write. Pages that are read until then are dropped after the return.
TEST_P(DelegationLoops, RecallOfWhatIsOpen_DropsTheKernelsPagesBeforeAndBehindTheReturn) {
  const auto file = mount->open("file");
  const auto node = mount->node("file");
  ASSERT_EQ(numbers().held_read, 1u);
  const auto rule = server->faults().add(on::request_with(OP_DELEGRETURN), filer::fault::Stall{});
  EXPECT_EQ(server->recall("/export/file"), 1u);
  ASSERT_TRUE(server->faults().wait_fired(rule));
  EXPECT_EQ(mount->front_end.data(node), 1u);
  server->faults().release(rule);
  EXPECT_TRUE(returned());
  EXPECT_TRUE(eventually([&] { return mount->front_end.data(node) >= 2; }));
  EXPECT_EQ(mount->front_end.data(node), 2u);
  EXPECT_EQ(mount->close(file), 0);
}

// A page may wait for a READ that the server does not answer. That must not let the lease expire.
TEST_P(DelegationLoops, RecallOfWhatIsOpen_WaitsForNoPageUntilTheLeaseIsOver) {
  start_with_a_short_lease();
  const auto file = mount->open("file");
  ASSERT_EQ(numbers().held_read, 1u);
  mount->front_end.hold_drops(true);
  EXPECT_EQ(server->recall("/export/file"), 1u);
  EXPECT_TRUE(returned());
  mount->front_end.hold_drops(false);
  EXPECT_EQ(mount->close(file), 0);
}

// The same for files written through a mapping, and for many: all their pages share one wait.
TEST_P(DelegationLoops, RecallOfManyThatAreOpen_WaitsForTheirPagesTogether) {
  constexpr int kFiles = 96;
  start_with_a_short_lease();
  std::vector<client::OpenFileRef> files;
  for (int i = 0; i < kFiles; ++i) {
    server->make_file("/export/f" + std::to_string(i), "x", 0666);
    files.push_back(mount->open("f" + std::to_string(i), O_RDWR));
  }
  ASSERT_EQ(numbers().held_write, uint64_t{kFiles});
  mount->front_end.hold_drops(true);
  const TimePoint begin = Clock::now();
  for (int i = 0; i < kFiles; ++i) EXPECT_EQ(server->recall("/export/f" + std::to_string(i)), 1u);
  EXPECT_TRUE(returned());
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(3)) << "sixteen at a time would take 4.5 seconds";
  mount->front_end.hold_drops(false);
  for (auto& file : files) EXPECT_EQ(mount->close(std::move(file)), 0);
}

// If nobody has the file open, the next open checks whether the kernel's pages are valid.
TEST_P(DelegationLoops, RecallOfWhatNobodyHasOpen_LeavesTheKernelsPages) {
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(server->recall("/export/file"), 1u);
  EXPECT_TRUE(returned());
  EXPECT_EQ(mount->front_end.data(mount->node("file")), 0u);
}

// A return of our own accord does not mean that another client is about to change the file.
TEST_P(DelegationLoops, OpenToWriteBesideAReader_LeavesTheKernelsPages) {
  const auto reader = mount->open("file");
  ASSERT_EQ(numbers().held_read, 1u);
  const auto writer = mount->open("file", O_RDWR);
  EXPECT_EQ(numbers().returned, 1u);
  EXPECT_EQ(mount->front_end.data(mount->node("file")), 0u);
  EXPECT_EQ(mount->close(writer), 0);
  EXPECT_EQ(mount->close(reader), 0);
}

// A name that is valid only by the file's promise is answered by the daemon each time. The kernel may not
// cache it, because it could not be told of a recall while a process works in the directory.
TEST_P(DelegationLoops, NameThatOnlyThePromiseHolds_IsAskedForHereEachTime) {
  start_with_a_short_lease();  // and directories have no lifetime
  EXPECT_EQ(mount->read_file("file"), "content");
  ASSERT_TRUE(mount->lookup("file"));
  server->clear_journal();
  const auto again = mount->lookup("file");
  ASSERT_TRUE(again);
  EXPECT_EQ(executed(OP_LOOKUP), 0u);
  EXPECT_EQ(again->entry_ttl, Duration::zero());
  TestMount other(*server);
  EXPECT_EQ(other.rename("file", "moved"), 0);
  EXPECT_TRUE(returned());
  EXPECT_EQ(errno_of(mount->lookup("file")), ENOENT);
}

// close(2) under a delegation still puts the data on the server.
TEST_P(DelegationLoops, CloseUnderAWriteDelegation_WritesBack) {
  EXPECT_EQ(mount->write_file("new", "data"), 0);
  EXPECT_EQ(numbers().held_write, 1u);
  EXPECT_EQ(server->read_file("/export/new"), "data");
  server->clear_journal();
  EXPECT_EQ(mount->read_file("new"), "data");
  EXPECT_EQ(executed(OP_OPEN), 0u);
}

// Section 20.2.3: the recall is answered before the delegation is returned. Thousands of recalls make a
// queue.
TEST_P(DelegationLoops, RecallsOfMany_AreAllHeeded) {
  constexpr int kFiles = 300;
  for (int i = 0; i < kFiles; ++i) server->make_file("/export/f" + std::to_string(i), "x", 0666);
  for (int i = 0; i < kFiles; ++i) EXPECT_EQ(mount->read_file("f" + std::to_string(i)), "x");
  EXPECT_EQ(numbers().held_read, uint64_t{kFiles});
  for (int i = 0; i < kFiles; ++i) EXPECT_EQ(server->recall("/export/f" + std::to_string(i)), 1u);
  EXPECT_TRUE(returned());
  EXPECT_EQ(numbers().recalled, uint64_t{kFiles});
}

// Opens, closes and reads during recalls: every open file can be read, and at the end no state is left.
TEST_P(DelegationLoops, OpensBesideRecalls_EndInAgreement) {
  const client::NodeRef node = mount->node("file");
  const auto turn = [](TestMount& m, client::NodeRef n, uint32_t uid) -> Task<int> {
    for (int i = 0; i < 40; ++i) {
      const client::RequestContext user = m.user(uid, uid);
      auto opened = co_await m.fs().open(user, n, O_RDONLY);
      if (!opened) co_return opened.error().errnum;
      auto data = co_await m.fs().read(user, opened->file, 0, 100);
      if (!data) co_return data.error().errnum;
      if (data->size != 7) co_return EILSEQ;
      auto flushed = co_await m.fs().flush(user, opened->file, 1);
      if (!flushed) co_return flushed.error().errnum;
      co_await m.fs().release(user, opened->file);
    }
    co_return 0;
  };
  std::vector<std::future<int>> turns;
  for (const uint32_t uid : {0u, 1000u, 1001u, 0u}) turns.push_back(mount->start(turn(*mount, node, uid)));
  EXPECT_TRUE(eventually([&] {
    server->recall("/export/file");
    return std::all_of(turns.begin(), turns.end(), [](const auto& t) {
      return t.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
  }));
  for (auto& t : turns) EXPECT_EQ(t.get(), 0);
  server->recall("/export/file");
  EXPECT_TRUE(returned());
  EXPECT_TRUE(server->wait_until([](filer::nfs::Core& core) {
    bool any = false;
    core.states.each([&](const filer::state::State&) { any = true; });
    return !any;
  }));
}

// --- locks (section 10.4.2) ---

// Section 10.4: the holder of a write delegation "may handle ... byte-range locks" itself, because no other
// client can have a lock.
TEST_P(DelegationLoops, LocksUnderAWriteDelegation_AreGivenHere) {
  using client::LockType;
  const auto file = mount->open("file", O_RDWR);
  const auto same = mount->open("file", O_RDWR);
  server->clear_journal();
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, 9, 1), 0);
  EXPECT_EQ(mount->lock(same, LockType::kRead, 5, 5, 2), EAGAIN);
  EXPECT_EQ(mount->lock(same, LockType::kWrite, 10, 19, 2), 0);
  const auto found = mount->test_lock(same, LockType::kRead, 0, 20, 3);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->type, LockType::kWrite);
  EXPECT_EQ(mount->lock(file, LockType::kUnlock, 0, 9, 1), 0);
  EXPECT_EQ(mount->lock(same, LockType::kRead, 5, 5, 2), 0);
  EXPECT_EQ(executed(OP_LOCK) + executed(OP_LOCKT) + executed(OP_LOCKU), 0u);
  EXPECT_EQ(mount->close(file, 1), 0);
  EXPECT_EQ(mount->close(same, 2), 0);
  EXPECT_EQ(mount->fs().statistics().cache.locks, 0u);
  EXPECT_EQ(executed(OP_LOCKU), 0u);
}

// Section 10.4.4: locks taken under the delegation are taken at the server when it is returned.
TEST_P(DelegationLoops, RecallWithLocks_BringsThemToTheServer) {
  using client::LockType;
  const auto file = mount->open("file", O_RDWR);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, 9, 1), 0);
  EXPECT_EQ(mount->lock(file, LockType::kRead, 20, 29, 1), 0);
  TestMount other(*server);
  const auto theirs = other.open("file", O_RDWR);
  EXPECT_EQ(live(StateKind::kLock).size(), 1u);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 5, 5, 7), EAGAIN);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 20, 29, 7), 0);
  EXPECT_EQ(other.lock(theirs, LockType::kWrite, 40, 49, 7), 0);
  EXPECT_EQ(mount->lock(file, LockType::kUnlock, 0, 9, 1), 0);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 5, 5, 7), 0);
  EXPECT_EQ(mount->close(file, 1), 0);
  EXPECT_EQ(other.close(theirs, 7), 0);
}

TEST_P(DelegationLoops, RecallWithAnotherUsersLocks_BringsThemToTheServer) {
  using client::LockType;
  const auto file = mount->open("file", O_RDWR);
  auto second = mount->run(mount->fs().open(mount->user(1000, 1000), mount->node("file"), O_RDWR));
  ASSERT_TRUE(second);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, 9, 1), 0);
  EXPECT_EQ(mount->lock(second->file, LockType::kWrite, 20, 29, 2), 0);
  EXPECT_EQ(mount->lock(second->file, LockType::kWrite, 40, 49, 2), 0);
  EXPECT_EQ(server->recall("/export/file"), 1u);
  EXPECT_TRUE(returned());
  EXPECT_EQ(live(StateKind::kLock).size(), 2u);
  EXPECT_EQ(mount->read(file).value_or("error"), "content");
  EXPECT_EQ(mount->read(second->file).value_or("error"), "content");
  EXPECT_EQ(mount->close(file, 1), 0);
  EXPECT_EQ(mount->close(second->file, 2), 0);
  EXPECT_TRUE(live(StateKind::kLock).empty());
}

// The return waits for pages, and the server does not know these locks yet. A LOCK sent now could conflict
// with them.
TEST_P(DelegationLoops, LockWhileTheReturnIsHeldUp_IsGivenBesideTheLocalOnes) {
  using client::LockType;
  const auto file = mount->open("file", O_RDWR);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, 9, 1), 0);
  mount->front_end.hold_drops(true);
  const auto node = mount->node("file");
  EXPECT_EQ(server->recall("/export/file"), 1u);
  EXPECT_TRUE(eventually([&] { return mount->front_end.data(node) >= 1; }));
  ASSERT_EQ(mount->front_end.data(node), 1u) << "it is being returned";
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 5, 5, 2), EAGAIN);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 20, 29, 1), 0);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 40, 49, 2), 0);
  EXPECT_EQ(mount->lock(file, LockType::kUnlock, 20, 24, 1), 0);
  EXPECT_EQ(executed(OP_LOCK) + executed(OP_LOCKU), 0u);
  mount->front_end.hold_drops(false);
  EXPECT_TRUE(returned());
  TestMount other(*server);
  const auto theirs = other.open("file", O_RDWR);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 5, 5, 7), EAGAIN);
  EXPECT_EQ(other.lock(theirs, LockType::kWrite, 20, 24, 7), 0);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 29, 29, 7), EAGAIN);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 40, 40, 7), EAGAIN);
  EXPECT_EQ(mount->lock(file, LockType::kUnlock, 0, UINT64_MAX, 1), 0);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 5, 29, 7), 0);
  EXPECT_EQ(mount->close(file, 2), 0);
  EXPECT_EQ(other.close(theirs, 7), 0);
}

// A recall brings the file's locks to the server, which restarts when it gets the second LOCK.
void restart_at_the_second_lock(filer::Server& server, TestMount& mount, const client::OpenFileRef& file) {
  const auto restarted = server.faults().add(on::request_with(OP_LOCK).nth(2), filer::fault::Restart{});
  EXPECT_EQ(server.recall("/export/file"), 1u);
  ASSERT_TRUE(server.faults().wait_fired(restarted));
  EXPECT_EQ(mount.read(file).value_or("error"), "content");
}

// When the old server restarts, it has one lock and not the other. The reclaimed delegation makes both local
// again, and they go to the server with its return.
TEST_P(DelegationLoops, RestartWhileLocksAreBroughtToTheServer_KeepsThem) {
  using client::LockType;
  const auto file = mount->open("file", O_RDWR);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, 9, 1), 0);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 20, 29, 1), 0);
  ASSERT_NO_FATAL_FAILURE(restart_at_the_second_lock(*server, *mount, file));
  TestMount other(*server);
  const auto theirs = other.open("file", O_RDWR);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 5, 5, 7), EAGAIN);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 25, 25, 7), EAGAIN);
  EXPECT_EQ(other.lock(theirs, LockType::kWrite, 10, 19, 7), 0);
  EXPECT_EQ(mount->close(file, 1), 0);
  EXPECT_EQ(other.lock(theirs, LockType::kWrite, 0, 29, 7), 0);
  EXPECT_EQ(other.close(theirs, 7), 0);
}

// When the old server restarts, it has the locks of one of two owners. After the delegation is reclaimed, the
// other owner's locks must not stay local while the server grants locks, too.
TEST_P(DelegationLoops, RestartBetweenTwoOwnersLocks_LeavesNoneOutOfSight) {
  using client::LockType;
  const auto file = mount->open("file", O_RDWR);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, 9, 1), 0);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 20, 29, 2), 0);
  ASSERT_NO_FATAL_FAILURE(restart_at_the_second_lock(*server, *mount, file));
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 5, 5, 3), EAGAIN);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 25, 25, 3), EAGAIN);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 40, 49, 2), 0);
  EXPECT_EQ(mount->lock(file, LockType::kUnlock, 40, 49, 2), 0);
  TestMount other(*server);
  const auto theirs = other.open("file", O_RDWR);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 5, 5, 7), EAGAIN);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 25, 25, 7), EAGAIN);
  EXPECT_EQ(other.lock(theirs, LockType::kWrite, 40, 49, 7), 0);
  EXPECT_EQ(mount->close(file, 1), 0);
  EXPECT_EQ(other.close(theirs, 7), 0);
}

// Opens "file", locks all of it for writing as owner 1, and writes under that lock.
client::OpenFileRef written_under_a_lock(TestMount& mount) {
  const auto file = mount.open("file", O_RDWR);
  EXPECT_EQ(mount.lock(file, client::LockType::kWrite, 0, UINT64_MAX, 1), 0);
  EXPECT_EQ(mount.write(file, 0, "written"), 0);
  return file;
}

// Data written under a lock is visible to the next holder, on any mount.
TEST_P(DelegationLoops, DataUnderALocalLock_IsSeenByTheNextHolder) {
  using client::LockType;
  const auto file = written_under_a_lock(*mount);
  EXPECT_EQ(mount->lock(file, LockType::kUnlock, 0, UINT64_MAX, 1), 0);
  TestMount other(*server);
  const auto theirs = other.open("file", O_RDWR);
  EXPECT_EQ(other.lock(theirs, LockType::kWrite, 0, UINT64_MAX, 7), 0);
  EXPECT_EQ(*other.read(theirs), "written");
  EXPECT_EQ(other.close(theirs, 7), 0);
  EXPECT_EQ(mount->close(file, 1), 0);
}

// The data is on the server when the lock is released, although no other client could have had the lock: this
// host may fail before a recall makes it write back.
TEST_P(DelegationLoops, UnlockUnderAWriteDelegation_WritesBack) {
  using client::LockType;
  const auto file = written_under_a_lock(*mount);
  server->clear_journal();
  EXPECT_EQ(mount->lock(file, LockType::kUnlock, 0, UINT64_MAX, 1), 0);
  EXPECT_EQ(executed(OP_WRITE), 1u);
  EXPECT_EQ(executed(OP_COMMIT), 0u) << "to stable storage at once";
  EXPECT_EQ(executed(OP_LOCKU) + executed(OP_DELEGRETURN), 0u);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, UINT64_MAX, 1), 0);
  EXPECT_EQ(mount->lock(file, LockType::kUnlock, 0, UINT64_MAX, 1), 0);
  EXPECT_EQ(executed(OP_WRITE), 1u) << "nothing was written under this one";
  EXPECT_EQ(mount->close(file, 1), 0);
}

// A write lock that becomes a read lock admits readers: they see the data written under it.
TEST_P(DelegationLoops, WriteLockThatBecomesAReadLock_WritesBack) {
  using client::LockType;
  const auto file = written_under_a_lock(*mount);
  server->clear_journal();
  EXPECT_EQ(mount->lock(file, LockType::kRead, 0, UINT64_MAX, 1), 0);
  EXPECT_EQ(executed(OP_WRITE), 1u);
  EXPECT_EQ(executed(OP_LOCK) + executed(OP_DELEGRETURN), 0u);
  EXPECT_EQ(mount->lock(file, LockType::kUnlock, 0, UINT64_MAX, 1), 0);
  EXPECT_EQ(mount->close(file, 1), 0);
}

// Local locks are lost with a revoked delegation. I/O that relies on them fails until they are released.
TEST_P(DelegationLoops, RevokedWithLocks_LosesThem) {
  using client::LockType;
  const auto file = mount->open("file", O_RDWR);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, 9, 1), 0);
  revoke_delegations();
  mount->read(file);  // the client notices
  EXPECT_FALSE(mount->read(file));
  EXPECT_EQ(mount->lock(file, LockType::kUnlock, 0, UINT64_MAX, 1), 0);
  EXPECT_EQ(*mount->read(file), "content");
  EXPECT_EQ(mount->close(file), 0);
}

// People who may not read a mount's files may read its log: file names appear only from debug on.
TEST_P(DelegationLoops, RevokedWithLocks_AreToldOfWithoutTheNameBelowDebug) {
  using client::LockType;
  server->make_file("/export/precious", "content", 0666);
  for (const auto level : {spdlog::level::info, spdlog::level::debug}) {
    const CapturedLog log(level);
    const auto file = mount->open("precious", O_RDWR);
    EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, 9, 1), 0);
    revoke_delegations();
    mount->read(file);  // the client notices
    EXPECT_FALSE(mount->read(file));
    EXPECT_EQ(mount->lock(file, LockType::kUnlock, 0, UINT64_MAX, 1), 0);
    EXPECT_EQ(mount->close(file), 0);
    EXPECT_TRUE(log.has("was revoked by the server")) << log.text();
    EXPECT_TRUE(log.has("are lost")) << log.text();
    EXPECT_EQ(log.has("precious"), level == spdlog::level::debug) << log.text();
    EXPECT_EQ(log.has("find -inum"), level == spdlog::level::info) << log.text();
  }
}

// During the return it is not known yet whether the server will grant the lock. So a WRITE under the lock
// relies on the delegation's stateid. The open's would stay valid when the server grants both to another
// client.
TEST_P(DelegationLoops, RevokedWhileItsLocksAreBroughtToTheServer_NothingIsWrittenUnderThem) {
  using client::LockType;
  const auto file = mount->create("locked");
  ASSERT_EQ(mount->lock(file, LockType::kWrite), 0);
  const auto claiming = server->faults().add(on::request_with(OP_LOCK), filer::fault::Stall{});
  ASSERT_EQ(server->recall("/export/locked"), 1u);
  ASSERT_TRUE(server->faults().wait_fired(claiming));
  server->with_core([](filer::nfs::Core& core) {
    core.states.each([&](filer::state::State& s) {
      if (s.kind == StateKind::kDelegation) core.states.revoke(s, filer::state::Revoked::kRecall);
    });
  });
  TestMount other(*server);
  const auto theirs = other.open("locked", O_RDWR);
  ASSERT_EQ(other.lock(theirs, LockType::kWrite), 0);
  ASSERT_EQ(other.write(theirs, 0, "THEIRS"), 0);
  ASSERT_EQ(other.fsync(theirs), 0);
  EXPECT_EQ(mount->write(file, 0, "ours"), 0);
  EXPECT_EQ(mount->fsync(file), EIO);
  server->faults().release(claiming);
  EXPECT_EQ(server->read_file("/export/locked"), "THEIRS");
  EXPECT_EQ(mount->write(file, 0, "ours"), EIO);
  EXPECT_EQ(other.close(theirs), 0);
  (void)mount->close(file);
}

TEST_P(DelegationLoops, RestartWithLocalLocks_KeepsThemWithTheDelegation) {
  using client::LockType;
  const auto file = mount->open("file", O_RDWR);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, 9, 1), 0);
  server->restart();
  EXPECT_EQ(*mount->read(file), "content");
  EXPECT_EQ(numbers().held_write, 1u);
  server->recall("/export/file");
  EXPECT_TRUE(returned());
  EXPECT_EQ(live(StateKind::kLock).size(), 1u);
  EXPECT_EQ(mount->close(file, 1), 0);
}

// Section 10.4.4 without a recall: unmounting returns all delegations. (TestMount checks that the server has
// forgotten the client.)
TEST_P(DelegationLoops, Unmount_ReturnsAll) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(mount->write_file("f" + std::to_string(i), "x"), 0);
  EXPECT_EQ(numbers().held_write, 20u);
  EXPECT_TRUE(mount->unmount());
  EXPECT_TRUE(server->states().empty());
}

// With `noac` no delegations are requested, because its users want every access to reach the server.
TEST_P(DelegationLoops, Noac_AsksForNone) {
  TestMount plain(*server, {.options = [](client::ClientOptions& o) { o.noac = true; }});
  EXPECT_EQ(plain.read_file("file"), "content");
  EXPECT_TRUE(live(StateKind::kDelegation).empty());
}

INSTANTIATE_TEST_SUITE_P(Loops, DelegationLoops, testing::Values(1u, 4u),
                         [](const auto& instance) { return std::to_string(instance.param) + "Loops"; });
INSTANTIATE_TEST_SUITE_P(Loops, RemovalUnderDelegation, testing::Values(1u, 4u),
                         [](const auto& instance) { return std::to_string(instance.param) + "Loops"; });

}  // namespace
}  // namespace nfsrdma::test

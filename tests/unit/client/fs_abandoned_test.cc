// SPDX-License-Identifier: Apache-2.0
// A change that nobody waits for any more (the process was killed, or got EINTR) while the server delays it.
// It must not undo what its caller does next.
#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using client::Cancellation;
namespace on = filer::on;

class Abandoned : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<filer::Server> server = start_filer();
  TestMount mount{*server, TestMount::Settings{.loops = GetParam()}};
  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();

  client::RequestContext caller() {
    client::RequestContext ctx = mount.user();
    ctx.cancellation = cancellation;
    return ctx;
  }
  void SetUp() override {
    server->make_file("/export/file", "content", 0666);
    server->make_file("/export/other", "other", 0666);
    mount.stat("file");
    mount.stat("other");
  }
  // The server delays `op` repeatedly, the caller goes away, and then the server would execute it.
  template <class T>
  void abandon(nfs_opnum4 op, Task<T> task) {
    const auto delayed =
        server->faults().add(on::request_with(op).always(), filer::fault::Answer{op, NFS4ERR_DELAY});
    auto running = mount.start(std::move(task));
    ASSERT_TRUE(server->faults().wait_fired(delayed, 2));
    cancellation->cancel();
    server->faults().clear();
    EXPECT_EQ(errno_of(running.get()), EINTR);
    EXPECT_EQ(server->executed(op).succeeded, 0u);
  }
};

TEST_P(Abandoned, Truncation_IsNotDoneToWhatIsWrittenNext) {
  client::SetAttributes empty;
  empty.size = 0;
  abandon(OP_SETATTR, mount.fs().setattr(caller(), mount.node("file"), empty, nullptr));
  EXPECT_EQ(mount.stat("file")->size, 7u);
}

TEST_P(Abandoned, Removal_LeavesTheNextFileOfThatName) {
  abandon(OP_REMOVE, mount.fs().unlink(caller(), mount.root(), "file"));
  EXPECT_EQ(mount.read_file("file"), "content");
}

TEST_P(Abandoned, Rename_ReplacesNothing) {
  abandon(OP_RENAME, mount.fs().rename(caller(), mount.root(), "other", mount.root(), "file", 0));
  EXPECT_EQ(mount.read_file("file"), "content");
}

TEST_P(Abandoned, CreateThatTruncates_TruncatesNothing) {
  abandon(OP_OPEN, mount.fs().create(caller(), mount.root(), "file", 0644, O_WRONLY | O_TRUNC));
  EXPECT_EQ(server->read_file("/export/file"), "content");
  EXPECT_TRUE(server->states().empty());
}

TEST_P(Abandoned, NewNames_AreNotMade) {
  abandon(OP_CREATE, mount.fs().mkdir(caller(), mount.root(), "directory", 0755));
  cancellation = std::make_shared<Cancellation>();
  abandon(OP_LINK, mount.fs().link(caller(), mount.node("file"), mount.root(), "link"));
  EXPECT_EQ(server->list("/export").size(), 2u);
}

// An abandoned change that waits for a slot or for a session is never sent.
TEST_P(Abandoned, BeforeItWasSent_IsNotSent) {
  cancellation->cancel();
  EXPECT_EQ(errno_of(mount.run(mount.fs().unlink(caller(), mount.root(), "file"))), EINTR);
  EXPECT_EQ(server->executed(OP_REMOVE).executed, 0u);
}

// The connection is lost with the change; the change is not sent on the next connection.
TEST_P(Abandoned, WhileThereIsNoConnection_IsNotSentAgain) {
  for (const bool executed : {false, true}) {
    SCOPED_TRACE(executed);
    cancellation = std::make_shared<Cancellation>();
    server->faults().add(on::accept().always(), filer::fault::Cut{});
    const auto when = executed ? on::reply_to(OP_REMOVE) : on::request_with(OP_REMOVE);
    const auto cut = server->faults().add(when, filer::fault::Cut{});
    auto removing = mount.start(mount.fs().unlink(caller(), mount.root(), "file"));
    ASSERT_TRUE(server->faults().wait_fired(cut));
    cancellation->cancel();
    server->faults().clear();
    EXPECT_EQ(errno_of(removing.get()), EINTR);
    EXPECT_EQ(mount.write_file("file", "next"), 0) << "in the same slots";
    EXPECT_EQ(server->executed(OP_REMOVE).executed, executed ? 1u : 0u);
    EXPECT_EQ(server->read_file("/export/file"), "next");
  }
}

// The server still processes the change, for an unlimited time. Its slot is unusable meanwhile; the other
// slots work.
TEST_P(Abandoned, WhatTheServerIsStillAtWorkOn_HoldsUpNobodyElse) {
  const auto stalled = server->faults().add(on::request_with(OP_REMOVE), filer::fault::StallInProgress{});
  auto removing = mount.start(mount.fs().unlink(caller(), mount.root(), "file"));
  ASSERT_TRUE(server->faults().wait_fired(stalled));
  cancellation->cancel();
  server->drop_connections();
  EXPECT_EQ(errno_of(removing.get()), EINTR);
  const auto sequences = server->executed(OP_SEQUENCE).executed;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(mount.write_file("new" + std::to_string(i), "content"), 0);
  EXPECT_EQ(server->executed(OP_SEQUENCE).succeeded, server->executed(OP_SEQUENCE).executed)
      << "of " << sequences << " and more: nobody asks for that slot";
  server->faults().release(stalled);
}

// The reply was lost with the session. The request is repeated in the new session, and the file is closed
// again.
TEST_P(Abandoned, CreateThatWasExecuted_LeavesNothingOpen) {
  server->faults().add(on::accept().always(), filer::fault::Cut{});
  const auto cut = server->faults().add(on::reply_to(OP_OPEN), filer::fault::Cut{});
  auto creating = mount.start(mount.fs().create(caller(), mount.root(), "new", 0644, O_WRONLY));
  ASSERT_TRUE(server->faults().wait_fired(cut));
  server->forget_session(server->clients().at(0).sessions.at(0));
  cancellation->cancel();
  server->faults().clear();
  auto created = creating.get();
  ASSERT_TRUE(created) << describe(created.error());
  EXPECT_EQ(mount.close(created->open.file), 0);
  EXPECT_TRUE(server->states().empty());
}

// The conflicting delegation is returned, without the abandoned REMOVE in the same COMPOUND.
TEST_P(Abandoned, RemovalUnderADelegation_IsNotMadeWithItsReturn) {
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  ASSERT_EQ(mount.write_file("mine", "content"), 0);
  ASSERT_EQ(mount.fs().statistics().delegations.held_write, 1u);
  cancellation->cancel();
  EXPECT_EQ(errno_of(mount.run(mount.fs().unlink(caller(), mount.root(), "mine"))), EINTR);
  EXPECT_EQ(server->read_file("/export/mine"), "content");
  EXPECT_EQ(mount.read_file("mine"), "content");
}

// An open file is hidden before it is replaced. If the rename is abandoned, the file gets its name back.
TEST_P(Abandoned, RenameOverAnOpenFile_LeavesItInItsPlace) {
  server->configure([](filer::nfs::Switches& s) { s.preserve_unlinked = false; });
  server->with_core([](filer::nfs::Core& core) { core.tree.preserve_unlinked(false); });
  for (const bool links : {true, false}) {  // hidden by a hard link, or else by a rename
    SCOPED_TRACE(links);
    cancellation = std::make_shared<Cancellation>();
    TestMount fresh(*server, TestMount::Settings{.loops = GetParam()});
    const auto file = fresh.open("file", O_RDONLY);
    fresh.stat("other");
    if (!links)
      server->faults().add(on::request_with(OP_LINK), filer::fault::Answer{OP_LINK, NFS4ERR_NOTSUPP});
    const auto delayed = server->faults().add(on::request_with(OP_RENAME).nth(links ? 1 : 2).always(),
                                              filer::fault::Answer{OP_RENAME, NFS4ERR_DELAY});
    client::RequestContext ctx = fresh.user();
    ctx.cancellation = cancellation;
    auto renaming = fresh.start(fresh.fs().rename(ctx, fresh.root(), "other", fresh.root(), "file", 0));
    ASSERT_TRUE(server->faults().wait_fired(delayed, 2));
    EXPECT_EQ(server->list("/export").size(), links ? 3u : 2u) << "there is a hidden name";
    cancellation->cancel();
    server->faults().clear();
    EXPECT_EQ(errno_of(renaming.get()), EINTR);
    EXPECT_EQ(server->list("/export").size(), 2u);
    EXPECT_EQ(server->read_file("/export/file"), "content");
    EXPECT_EQ(server->read_file("/export/other"), "other");
    EXPECT_EQ(fresh.close(file), 0);
  }
}

// RFC 8881 section 18.16.4: "MUST immediately send a SETATTR", even if nobody waits.
TEST_P(Abandoned, ExclusiveCreate_GetsWhatItIsOwed) {
  server->configure([](filer::nfs::Switches& s) { s.verifier_in_times = true; });
  const auto executed =
      server->faults().add(on::reply_to(OP_OPEN), filer::fault::Call{[this] { cancellation->cancel(); }});
  const auto created = mount.run(mount.fs().create(caller(), mount.root(), "new", 0644, O_WRONLY | O_EXCL));
  ASSERT_TRUE(server->faults().wait_fired(executed));
  ASSERT_TRUE(created) << describe(created.error());
  EXPECT_EQ(server->executed(OP_SETATTR).succeeded, 1u);
  EXPECT_EQ(mount.close(created->open.file), 0);
}

// The server may have executed the truncation: the old size must not be used for appending.
TEST_P(Abandoned, TruncationWhoseAnswerWasLost_LeavesNoSizeBehind) {
  server->faults().add(on::accept().always(), filer::fault::Cut{});
  const auto cut = server->faults().add(on::reply_to(OP_SETATTR), filer::fault::Cut{});
  client::SetAttributes empty;
  empty.size = 0;
  auto truncating = mount.start(mount.fs().setattr(caller(), mount.node("file"), empty, nullptr));
  ASSERT_TRUE(server->faults().wait_fired(cut));
  cancellation->cancel();
  server->faults().clear();
  EXPECT_EQ(errno_of(truncating.get()), EINTR);
  EXPECT_EQ(mount.stat("file")->size, 0u);
}

INSTANTIATE_TEST_SUITE_P(Loops, Abandoned, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

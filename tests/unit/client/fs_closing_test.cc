// SPDX-License-Identifier: Apache-2.0
// CLOSEs that are delayed to share a COMPOUND (RFC 8881 sections 18.2, 16.2).
#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using filer::fault::Answer;
using filer::fault::Cut;
using filer::state::StateKind;
namespace on = filer::on;

class Closing : public testing::TestWithParam<unsigned> {
 protected:
  static constexpr unsigned kTogether = 16;

  void SetUp() override {
    server = start_filer();
    for (unsigned i = 0; i < 2 * kTogether; ++i) server->make_file("/export/" + name(i), "content", 0666);
    make_mount(std::chrono::hours(1));
  }
  void make_mount(std::chrono::milliseconds delay, bool delegations = true) {
    mount.reset();
    mount = std::make_unique<TestMount>(
        *server, TestMount::Settings{.loops = GetParam(), .options = [=](client::ClientOptions& o) {
                                       o.close_delay = delay;
                                       o.delegations = delegations;
                                     }});
    server->clear_journal();
  }
  static std::string name(unsigned i) { return "file" + std::to_string(i); }
  void use(unsigned first, unsigned count, int flags = O_RDONLY) {
    for (unsigned i = first; i < first + count; ++i) EXPECT_EQ(mount->close(mount->open(name(i), flags)), 0);
  }
  uint64_t closes() { return server->executed(OP_CLOSE).succeeded; }
  size_t compounds() {
    size_t n = 0;
    for (const filer::nfs::ExecutedCompound& c : server->journal()) n += c.has(OP_CLOSE) ? 1 : 0;
    return n;
  }
  std::vector<filer::StateFacts> opens() { return live_states(*server, StateKind::kOpen); }
  bool opens_become(size_t count) {
    return server->wait_until([count](filer::nfs::Core& core) {
      size_t live = 0;
      core.states.each(
          [&](const filer::state::State& s) { live += s.kind == StateKind::kOpen && s.live() ? 1 : 0; });
      return live == count;
    });
  }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
};

// At an OPEN, nfs-ganesha 6 checks also the access modes in which the user already has the file open.
TEST_P(Closing, PutOff_IsDoneWhenAnOpenIsRefused) {
  make_mount(std::chrono::hours(1), false);
  use(0, 1, O_WRONLY);
  ASSERT_EQ(opens().size(), 1u);
  server->faults().add(filer::on::request_with(OP_OPEN), filer::fault::Answer{OP_OPEN, NFS4ERR_ACCESS});
  const auto file = mount->open(name(0), O_RDONLY);
  ASSERT_TRUE(file);
  EXPECT_EQ(closes(), 1u);
  EXPECT_EQ(*mount->read(file), "content");
  server->faults().add(filer::on::request_with(OP_OPEN), filer::fault::Answer{OP_OPEN, NFS4ERR_ACCESS});
  EXPECT_EQ(errno_of(mount->run(mount->fs().open(mount->user(), mount->node(name(0)), O_WRONLY))), EACCES);
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(Closing, ThatNobodyWaitsFor_SharesACompound) {
  use(0, kTogether - 1);
  EXPECT_EQ(closes(), 0u);
  EXPECT_EQ(mount->fs().statistics().cache.open_files, 0u) << "the application has closed them";
  use(kTogether - 1, 1);
  EXPECT_TRUE(opens_become(0));
  EXPECT_EQ(closes(), kTogether);
  EXPECT_EQ(compounds(), 1u);
}

TEST_P(Closing, IsNotPutOffForLong) {
  make_mount(std::chrono::milliseconds(10));
  use(0, 3);
  EXPECT_TRUE(opens_become(0));
  use(3, 2);
  EXPECT_TRUE(opens_become(0)) << "the next ones, too";
}

TEST_P(Closing, EndsWithTheMount) {
  use(0, 5);
  EXPECT_TRUE(mount->unmount());
  EXPECT_EQ(closes(), 5u);
  EXPECT_EQ(compounds(), 1u);
}

TEST_P(Closing, OfAFileThatIsOpenedAgain_LeavesThatOpen) {
  use(0, 1);
  const auto again = mount->open(name(0));
  use(1, kTogether);
  EXPECT_TRUE(opens_become(2)) << "that one, and one that is put off";
  EXPECT_EQ(mount->read(again).value_or("error"), "content");
  EXPECT_EQ(mount->close(again), 0);
}

// A file that is opened and closed repeatedly has one delayed CLOSE.
TEST_P(Closing, OfOneFileManyTimes_IsOneClose) {
  for (unsigned i = 0; i < 2 * kTogether; ++i) use(0, 1);
  EXPECT_EQ(closes(), 0u);
  use(1, kTogether - 1);
  EXPECT_TRUE(opens_become(0));
  EXPECT_EQ(closes(), kTogether);
}

// After a removal the server may reject the file's handle with NFS4ERR_STALE; then the CLOSE would fail.
TEST_P(Closing, ComesBeforeTheNameIsRemovedOrReplaced) {
  use(0, 3);
  EXPECT_EQ(mount->unlink(name(0)), 0);
  EXPECT_EQ(server->executed(OP_CLOSE, "/export/" + name(0)).succeeded, 0u) << "it has no path any more";
  EXPECT_EQ(closes(), 3u) << "the others take the opportunity";
  EXPECT_TRUE(opens().empty());
  use(1, 2);
  EXPECT_EQ(mount->rename(name(1), name(2)), 0);
  EXPECT_TRUE(opens().empty());
  const std::vector<filer::nfs::ExecutedCompound> all = server->journal();
  const auto first = [&](nfs_opnum4 op) {
    return std::ranges::find_if(all, [op](const auto& c) { return c.has(op); }) - all.begin();
  };
  EXPECT_LT(first(OP_CLOSE), first(OP_REMOVE));
}

// Other processes wait for the lock of a killed process.
TEST_P(Closing, OfALockedFile_ComesBehindTheUnlock) {
  const auto file = mount->open(name(0), O_RDWR);
  ASSERT_EQ(mount->lock(file, client::LockType::kWrite, 0, 9), 0);
  mount->run(mount->fs().release(mount->user(), file));
  EXPECT_EQ(server->executed(OP_LOCKU).succeeded, 1u) << "at once, though the CLOSE is put off";
  TestMount other(*server);
  const auto there = other.open(name(0), O_RDWR);
  EXPECT_EQ(other.lock(there, client::LockType::kWrite, 0, 9), 0);
  other.close(there);
}

TEST_P(Closing, OfUsers_GoesUnderTheirNames) {
  for (unsigned i = 0; i < kTogether; ++i) {
    const client::RequestContext user = mount->user(i % 2 == 0 ? 0 : 1000);
    const auto opened = mount->run(mount->fs().open(user, mount->node(name(i)), O_RDONLY));
    ASSERT_TRUE(opened);
    mount->run(mount->fs().release(user, opened->file));
  }
  EXPECT_TRUE(opens_become(0));
  EXPECT_EQ(compounds(), 2u);
  for (const filer::nfs::ExecutedCompound& c : server->journal()) {
    if (c.has(OP_CLOSE)) {
      EXPECT_EQ(std::ranges::count(c.ops, OP_CLOSE, &filer::nfs::ExecutedOp::op), kTogether / 2);
    }
  }
}

// "the server stops processing at the first error": the other files are closed anyway.
TEST_P(Closing, OneThatIsRefused_DoesNotKeepTheOthersOpen) {
  use(0, kTogether / 2);
  server->remove_file("/export/" + name(2));
  use(kTogether / 2, kTogether / 2);
  EXPECT_TRUE(server->wait_until([](filer::nfs::Core& core) {
    size_t live = 0;
    core.states.each([&](const filer::state::State& s) { live += s.live() ? 1 : 0; });
    return live <= 1;  // the removed file's open, whose handle is invalid
  }));
  EXPECT_LE(compounds(), 3u);
  EXPECT_EQ(mount->read_file(name(3)), "content");
}

// Section 8.4.3: "... the client ... FREE_STATEID to acknowledge".
TEST_P(Closing, WhatWasRevokedMeanwhile_IsFreed) {
  use(0, 4);
  ASSERT_TRUE(server->revoke(opens().at(1).id));
  use(4, kTogether - 4);
  EXPECT_TRUE(server->wait_until([](filer::nfs::Core& core) {
    size_t left = 0;
    core.states.each([&](const filer::state::State&) { ++left; });
    return left == 0;
  }));
}

TEST_P(Closing, DelayedByTheServer_IsDoneOnce) {
  server->faults().add(on::request_with(OP_CLOSE).nth(1), Answer{OP_CLOSE, NFS4ERR_DELAY});
  use(0, kTogether);
  EXPECT_TRUE(opens_become(0));
}

TEST_P(Closing, ReplyLostWithTheConnection_IsNotExecutedAgain) {
  server->faults().add(on::reply_to(OP_CLOSE).nth(1), Cut{});
  use(0, kTogether);
  EXPECT_TRUE(opens_become(0));
  EXPECT_EQ(server->executed(OP_CLOSE).executed, kTogether);
  EXPECT_EQ(mount->read_file(name(0)), "content");
}

// Section 8.4.2.1: opens are reclaimed for their users. A file whose CLOSE is delayed has no users.
TEST_P(Closing, RestartOfTheServer_ReclaimsNothing) {
  use(0, 3);
  const auto open = mount->open(name(3));
  server->restart();
  EXPECT_EQ(mount->read(open).value_or("error"), "content");
  EXPECT_EQ(opens().size(), 1u);
  EXPECT_EQ(mount->close(open), 0);
  EXPECT_TRUE(mount->unmount());
  EXPECT_TRUE(opens().empty());
}

// A server cannot grant a read delegation while any user has the file open for writing.
TEST_P(Closing, OfWhatWasWritten_ComesBeforeItIsOpenedToBeRead) {
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kRead; });
  use(0, 2, O_WRONLY);
  const auto file = mount->open(name(0));
  EXPECT_EQ(live_states(*server, StateKind::kDelegation).size(), 1u);
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(Closing, WhileEverythingIsOpenedAndClosed_LosesNothing) {
  make_mount(std::chrono::milliseconds(1));
  for (unsigned round = 0; round < 30; ++round) {
    std::vector<std::future<Result<client::OpenReply>>> opening;
    for (unsigned i = 0; i < kTogether; ++i) {
      opening.push_back(mount->start(
          mount->fs().open(mount->user(), mount->node(name(i)), i % 3 == 0 ? O_RDWR : O_RDONLY)));
    }
    std::vector<client::OpenFileRef> files;
    for (auto& o : opening) {
      const auto opened = o.get();
      ASSERT_TRUE(opened);
      files.push_back(opened->file);
    }
    for (const auto& file : files) EXPECT_EQ(mount->read(file).value_or("error"), "content");
    for (const auto& file : files) EXPECT_EQ(mount->close(file), 0);
  }
  EXPECT_TRUE(opens_become(0));
}

INSTANTIATE_TEST_SUITE_P(Loops, Closing, testing::Values(1, 4));

}  // namespace
}  // namespace nfsrdma::test

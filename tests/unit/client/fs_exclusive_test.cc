// SPDX-License-Identifier: Apache-2.0
// Exclusive create (RFC 8881 sections 18.16.3, 18.16.4): executed once, also across a restart. The file has
// real times, although the server keeps the verifier in them.
#include <cstdlib>

#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using filer::fault::Answer;
namespace on = filer::on;

struct Kept {
  unsigned loops;
  bool in_times;
};

class Exclusive : public testing::TestWithParam<Kept> {
 protected:
  void SetUp() override {
    server = start_filer();
    server->configure([](filer::nfs::Switches& s) { s.verifier_in_times = GetParam().in_times; });
    mount = std::make_unique<TestMount>(*server, TestMount::Settings{.loops = GetParam().loops});
  }
  // Checks the times of a new file, here and on the server.
  void expect_times_of_now() {
    const auto here = mount->stat("file");
    ASSERT_TRUE(here);
    const time_t now = here->ctime.tv_sec;  // the server's clock, which hardly moves in this test
    EXPECT_LT(std::abs(here->mtime.tv_sec - now), 60);
    EXPECT_LT(std::abs(here->atime.tv_sec - now), 60);
    EXPECT_EQ(here->mode & 07777, 0640u);
    const auto there = server->stat("/export/file");
    ASSERT_TRUE(there);
    EXPECT_LT(std::abs(there->modified.seconds - now), 60);
  }
  Result<client::OpenFileRef> create() { return mount->try_create("file", O_RDWR | O_EXCL, 0640); }
  uint64_t owed() const { return GetParam().in_times ? 1 : 0; }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
};

// "The client MUST immediately send a SETATTR to set attributes used to store the verifier. ... The
// subsequent SETATTR MUST NOT occur in the same COMPOUND request as the OPEN." If no attribute stores the
// verifier, no SETATTR is sent.
TEST_P(Exclusive, AttributesOfTheVerifier_AreSetAtOnceAndByThemselves) {
  const auto file = create();
  ASSERT_TRUE(file);
  EXPECT_EQ(server->executed(OP_SETATTR).succeeded, owed());
  EXPECT_EQ(mount->requests("SETATTR"), owed());
  expect_times_of_now();
  EXPECT_EQ(mount->close(*file), 0);
  EXPECT_EQ(errno_of(create()), EEXIST);
}

// "The request is presumed to be a duplicate of an earlier, successful request for which the reply was lost".
TEST_P(Exclusive, ExecutedBeforeARestart_IsTheCallersOwn) {
  server->faults().add(on::reply_to(OP_OPEN), filer::fault::Restart{});
  const auto file = create();
  ASSERT_TRUE(file);
  EXPECT_EQ(server->executed(OP_OPEN).succeeded, 2u);
  expect_times_of_now();
  EXPECT_EQ(mount->write(*file, 0, "text"), 0);
  EXPECT_EQ(mount->close(*file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "text");
}

TEST_P(Exclusive, RestartBehindTheCreate_SetsThemAllTheSame) {
  server->faults().add(on::request_with(OP_SETATTR), filer::fault::Restart{});
  const auto file = create();
  ASSERT_TRUE(file);
  expect_times_of_now();
  EXPECT_EQ(mount->close(*file), 0);
}

// The file exists and is open, and no other client has it.
TEST_P(Exclusive, TimesThatCannotBeSet_AreNoFailureOfTheCreate) {
  server->faults().add(on::request_with(OP_SETATTR), Answer{OP_SETATTR, NFS4ERR_PERM});
  const auto file = create();
  ASSERT_TRUE(file);
  EXPECT_EQ(mount->close(*file), 0);
}

INSTANTIATE_TEST_SUITE_P(Loops, Exclusive,
                         testing::Values(Kept{1, false}, Kept{1, true}, Kept{4, false}, Kept{4, true}),
                         [](const auto& kept) {
                           return std::to_string(kept.param.loops) +
                                  (kept.param.in_times ? "InTheTimes" : "Elsewhere");
                         });

}  // namespace
}  // namespace nfsrdma::test

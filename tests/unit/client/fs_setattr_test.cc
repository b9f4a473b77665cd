// SPDX-License-Identifier: Apache-2.0
// SETATTR after data that is still to be written: in one COMPOUND with it where possible, and never before it
// (RFC 8881 sections 18.30, 18.32).
#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using filer::fault::Answer;
using filer::state::StateKind;
namespace on = filer::on;

constexpr int64_t kTime = 1'000'000'000;

class SetattrLoops : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<filer::Server> server = start_filer();
  TestMount mount{*server, TestMount::Settings{.loops = GetParam()}};

  static client::SetAttributes time() {
    client::SetAttributes set;
    set.mtime = client::SetAttributes::Time{.now = false, .value = {.tv_sec = kTime, .tv_nsec = 7}};
    return set;
  }
  static client::SetAttributes mode(uint32_t bits) {
    client::SetAttributes set;
    set.mode = bits;
    return set;
  }
  Result<client::AttributesReply> setattr(const client::OpenFileRef& file, const client::SetAttributes& set,
                                          uint32_t uid = 0) {
    return mount.run(mount.fs().setattr(mount.user(uid), client::cached_open(file).node, set, file));
  }
  client::OpenFileRef written(std::string_view text, const char* name = "file") {
    auto file = mount.create(name);
    EXPECT_EQ(mount.write(file, 0, text), 0);
    return file;
  }
  // Counts COMPOUNDs with a WRITE and no SETATTR.
  uint64_t writes() { return mount.requests("WRITE"); }
  void expect_time() { EXPECT_EQ(server->stat("/export/file")->modified.seconds, kTime); }
};

// O_CREAT and O_TRUNC with a name that another client has just given to a file that is written here.
TEST_P(SetattrLoops, CreateThatMeetsAFileWrittenHere_LeavesItEmpty) {
  const auto plain = [](client::ClientOptions& o) { o.delegations = false; };
  TestMount writer(*server, {.loops = GetParam(), .options = plain});
  TestMount other(*server, {.loops = GetParam(), .options = plain});
  const auto file = writer.create("old");
  ASSERT_EQ(writer.write(file, 0, std::string(3000, 'x')), 0);
  ASSERT_GT(writer.fs().statistics().cache.dirty_bytes, 0u);
  ASSERT_EQ(other.rename("old", "new"), 0);
  const auto made = writer.create("new", O_RDWR | O_CREAT | O_TRUNC);
  EXPECT_EQ(writer.write(made, 0, "next"), 0);
  EXPECT_EQ(writer.close(made), 0);
  EXPECT_EQ(writer.close(file), 0);
  EXPECT_EQ(server->read_file("/export/new"), "next");
}

// As tar does with a small file.
TEST_P(SetattrLoops, SmallFileAndItsTime_AreOneCompound) {
  const auto file = written("text");
  const auto reply = setattr(file, time());
  ASSERT_TRUE(reply) << describe(reply.error());
  EXPECT_EQ(reply->attributes.size, 4u);
  EXPECT_EQ(reply->attributes.mtime.tv_sec, kTime);
  EXPECT_EQ(server->read_file("/export/file"), "text");
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  client::SetAttributes owner;
  owner.uid = 1000;
  owner.gid = 1000;
  ASSERT_TRUE(setattr(file, owner));
  ASSERT_TRUE(setattr(file, mode(0640)));
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(mount.requests("SETATTR"), 3u);
  EXPECT_EQ(writes() + mount.requests("COMMIT") + mount.requests("GETATTR"), 1u) << "the mount's limits";
  EXPECT_EQ(server->executed(OP_WRITE).executed, 1u);
  expect_time();
  EXPECT_EQ(mount.fs().statistics().cache.dirty_bytes, 0u);
}

TEST_P(SetattrLoops, EveryAttributeButTheSize_TakesTheDataAlong) {
  client::SetAttributes owner;
  owner.uid = 1000;
  for (const auto& set : {time(), mode(0600), owner}) {
    const auto file = written("text");
    ASSERT_TRUE(setattr(file, set));
    EXPECT_EQ(server->read_file("/export/file"), "text");
    EXPECT_EQ(mount.close(file), 0);
    EXPECT_EQ(writes(), 0u);
    ASSERT_EQ(mount.unlink("file"), 0);
  }
}

// A truncation uses an open's stateid, and is sent alone.
TEST_P(SetattrLoops, Size_IsSetBehindTheData) {
  const auto file = written("to be cut");
  client::SetAttributes set;
  set.size = 5;
  set.mtime = time().mtime;
  const auto reply = setattr(file, set);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->attributes.size, 5u);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "to be");
  EXPECT_EQ(writes(), 1u);
  expect_time();
}

TEST_P(SetattrLoops, LargeFile_IsWrittenFirst) {
  const std::string large(500'000, 'x');
  const auto file = written(large);
  ASSERT_EQ(mount.write(file, large.size(), "end"), 0);
  ASSERT_TRUE(setattr(file, time()));
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), large + "end");
  expect_time();
}

// Data is written with the credential of its writer.
TEST_P(SetattrLoops, AnotherUsersData_GoesByItself) {
  const auto file = written("text");
  EXPECT_EQ(errno_of(setattr(file, time(), 1000)), EPERM);
  EXPECT_EQ(writes(), 1u);
  EXPECT_EQ(server->read_file("/export/file"), "text");
  EXPECT_EQ(mount.close(file), 0);
}

// --- the server does only a part of it ---

// Section 18.32.3: "The server may write fewer bytes than requested by the client." The time is set again
// after the rest was written.
TEST_P(SetattrLoops, ServerThatWritesLess_IsGivenTheRestBeforeTheTimeCounts) {
  server->configure([](filer::nfs::Switches& s) { s.short_write_bytes = 10'000; });
  const std::string text(45'000, 's');
  const auto file = written(text);
  ASSERT_TRUE(setattr(file, time()));
  expect_time();
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), text);
  expect_time();
}

// The data may be written again after a restart; the time must be set after that.
TEST_P(SetattrLoops, ServerThatSyncsLess_CommitsBeforeTheTimeCounts) {
  server->configure([](filer::nfs::Switches& s) { s.writes_are_unstable = true; });
  const auto file = written("text");
  ASSERT_TRUE(setattr(file, time()));
  EXPECT_EQ(mount.requests("COMMIT"), 1u);
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  server->restart();
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "text");
  expect_time();
}

// fsync or close reports the error once. The attributes are set anyway, as by a separate SETATTR.
TEST_P(SetattrLoops, WriteThatFails_IsToldAtCloseAndTheAttributesAreSet) {
  for (const bool synced : {true, false}) {
    const auto file = written("text");
    server->faults().add(on::request_with(OP_WRITE), Answer{OP_WRITE, NFS4ERR_NOSPC});
    const auto reply = setattr(file, time());
    ASSERT_TRUE(reply) << describe(reply.error());
    EXPECT_EQ(reply->attributes.size, 0u);
    expect_time();
    if (synced) {
      EXPECT_EQ(mount.fsync(file), ENOSPC);
      EXPECT_EQ(mount.fsync(file), 0);
    }
    EXPECT_EQ(mount.close(file), synced ? 0 : ENOSPC);
    ASSERT_EQ(mount.unlink("file"), 0);
  }
}

TEST_P(SetattrLoops, AttributeThatIsRefused_IsToldAtOnceAndTheDataIsThere) {
  const auto file = written("text");
  server->faults().add(on::request_with(OP_SETATTR), Answer{OP_SETATTR, NFS4ERR_PERM});
  EXPECT_EQ(errno_of(setattr(file, time())), EPERM);
  EXPECT_EQ(server->read_file("/export/file"), "text");
  EXPECT_EQ(mount.stat("file")->size, 4u);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(writes(), 0u);
  EXPECT_EQ(server->executed(OP_SETATTR).executed, 0u) << "an answer is an answer";
}

TEST_P(SetattrLoops, TooBigTogether_GoesInTwo) {
  const auto file = written("text");
  server->faults().add(on::request_with(OP_SETATTR), Answer{OP_SEQUENCE, NFS4ERR_REQ_TOO_BIG});
  ASSERT_TRUE(setattr(file, time()));
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "text");
  EXPECT_EQ(writes(), 1u);
  expect_time();
}

// --- its state ---

TEST_P(SetattrLoops, OpenThatWasRevoked_IsOpenedAnew) {
  const auto file = written("text");
  ASSERT_TRUE(server->revoke(live_states(*server, StateKind::kOpen).at(0).id));
  ASSERT_TRUE(setattr(file, time()));
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "text");
  expect_time();
}

TEST_P(SetattrLoops, RestartAtAnyMoment_LosesNeitherDataNorTime) {
  for (const bool executed : {false, true}) {
    const auto file = written("text");
    server->faults().add(executed ? on::reply_to(OP_SETATTR) : on::request_with(OP_SETATTR),
                         filer::fault::Restart{});
    ASSERT_TRUE(setattr(file, time()));
    EXPECT_EQ(mount.close(file), 0);
    EXPECT_EQ(server->read_file("/export/file"), "text");
    expect_time();
    ASSERT_EQ(mount.unlink("file"), 0);
  }
}

// Bytes that are overwritten while the COMPOUND is in progress are written after it.
TEST_P(SetattrLoops, WriteOfTheSameBytesMeanwhile_ComesLater) {
  const auto file = written("first");
  const auto rule = server->faults().add(on::request_with(OP_SETATTR), filer::fault::Stall{});
  auto setting = mount.start(mount.fs().setattr(mount.user(), mount.node("file"), mode(0600), file));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  auto second = mount.start(mount.write_task(file, 0, "SECOND"));
  EXPECT_EQ(server->executed(OP_WRITE).executed, 0u);
  server->faults().release(rule);
  EXPECT_TRUE(setting.get());
  EXPECT_EQ(errno_of(second.get()), 0);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "SECOND");
}

// Section 10.4.4: the data is written before the delegation is returned.
TEST_P(SetattrLoops, RecallMeanwhile_WaitsForTheData) {
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  const auto file = written("text");
  ASSERT_EQ(mount.fs().statistics().delegations.held_write, 1u);
  const auto rule = server->faults().add(on::request_with(OP_SETATTR), filer::fault::Stall{});
  auto setting = mount.start(mount.fs().setattr(mount.user(), mount.node("file"), time(), file));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  TestMount other(*server);
  auto reading = std::async(std::launch::async, [&] { return other.read_file("file"); });
  EXPECT_TRUE(server->wait_until(
      [&](filer::nfs::Core&) { return mount.fs().statistics().delegations.recalled != 0; }));
  EXPECT_EQ(server->executed(OP_DELEGRETURN).executed, 0u);
  server->faults().release(rule);
  EXPECT_TRUE(setting.get());
  EXPECT_EQ(reading.get(), "text");
  EXPECT_EQ(other.stat("file")->mtime.tv_sec, kTime);
  EXPECT_EQ(mount.close(file), 0);
}

INSTANTIATE_TEST_SUITE_P(Loops, SetattrLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

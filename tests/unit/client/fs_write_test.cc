// SPDX-License-Identifier: Apache-2.0
// Written data: it is sent and committed in order, and every error is reported once (RFC 8881 sections 18.3,
// 18.32).
#include <random>
#include <thread>

#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using filer::fault::Answer;
namespace fault = filer::fault;
namespace on = filer::on;

class WriteLoops : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<filer::Server> server = start_filer();
  TestMount mount{*server, TestMount::Settings{.loops = GetParam()}};
  static TestMount::Settings with_wsize(uint32_t bytes) {
    return {.loops = GetParam(), .options = [=](client::ClientOptions& o) { o.wsize = bytes; }};
  }
  // The available memory, all the time.
  static TestMount::Settings with_memory(uint64_t bytes) {
    return {.loops = GetParam(), .options = [=](client::ClientOptions& o) {
              o.memory = [=] { return Memory{bytes, bytes}; };
            }};
  }
};

TEST_P(WriteLoops, SmallFile_IsOneStableWrite) {
  EXPECT_EQ(mount.write_file("file", "text"), 0);
  EXPECT_EQ(server->read_file("/export/file"), "text");
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  EXPECT_EQ(mount.requests("WRITE"), 1u);
  EXPECT_EQ(mount.requests("COMMIT"), 0u);
}

// While data is written, the size is new and the times are old, so the kernel may keep the attributes only
// until the WRITE's reply.
TEST_P(WriteLoops, AttributesWhileItIsWritten_AreNotForKeeping) {
  const auto file = mount.create("file");
  ASSERT_EQ(mount.write(file, 0, "text"), 0);
  const auto during = mount.lookup("file");
  ASSERT_TRUE(during);
  EXPECT_EQ(during->attributes.size, 4u);
  EXPECT_EQ(during->attributes_ttl, Duration::zero());
  ASSERT_EQ(mount.fsync(file), 0);
  const auto after = mount.lookup("file");
  ASSERT_TRUE(after);
  EXPECT_GT(after->attributes_ttl, Duration::zero());
  EXPECT_EQ(mount.close(file), 0);
}

// After a write the kernel fetches size and times by itself, but it would keep the mode.
TEST_P(WriteLoops, SetIdBitsThatTheServerTakesWithAWrite_AreTakenFromTheKernel) {
  for (const uint32_t mode : {0777u, 06777u}) {
    const std::string name = std::to_string(mode);
    server->make_file("/export/" + name, "data", mode);
    const client::NodeRef node = mount.node(name);
    ASSERT_EQ(mount.stat(name)->mode & 07777u, mode);
    const auto opened = mount.run(mount.fs().open(mount.user(1000, 1000), node, O_WRONLY));
    ASSERT_TRUE(opened) << describe(opened.error());
    ASSERT_GT(mount.lookup(name)->attributes_ttl, Duration::zero()) << "they are the kernel's to keep";
    const unsigned before = mount.front_end.attributes(node);
    ASSERT_EQ(mount.write(opened->file, 0, "text"), 0);
    EXPECT_EQ(mount.fsync(opened->file), 0);
    EXPECT_EQ(mount.front_end.attributes(node) - before, mode == 0777u ? 0u : 1u);
    EXPECT_EQ(mount.stat(name)->mode & 07777u, 0777u);
    EXPECT_EQ(mount.close(opened->file), 0);
  }
}

// The server executed the WRITE while the file had two names; its reply comes when the file has one.
TEST_P(WriteLoops, AnsweredAfterAnotherNameWasRemoved_DoesNotBringTheOldLinkCountBack) {
  const auto file = mount.create("file");
  ASSERT_EQ(mount.link("file", "other"), 0);
  const auto rule = server->faults().add(on::reply_to(OP_WRITE), filer::fault::Stall{});
  ASSERT_EQ(mount.write(file, 0, "text"), 0);
  ASSERT_TRUE(server->faults().wait_fired(rule));
  EXPECT_EQ(mount.unlink("other"), 0);
  server->faults().release(rule);
  ASSERT_TRUE(eventually([&] { return mount.fs().statistics().cache.dirty_bytes == 0; }));
  EXPECT_EQ(mount.stat("file")->nlink, 1u);
  EXPECT_EQ(mount.close(file), 0);
}

TEST_P(WriteLoops, Fsync_LeavesNothingUnstable) {
  const auto file = mount.create("file");
  const std::string large(500'000, 'x');
  ASSERT_EQ(mount.write(file, 0, large), 0);
  ASSERT_EQ(mount.write(file, large.size(), "end"), 0);
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  EXPECT_EQ(server->read_file("/export/file"), large + "end");
  EXPECT_EQ(mount.fs().statistics().cache.dirty_bytes, 0u);
  EXPECT_EQ(mount.fs().statistics().cache.uncommitted_bytes, 0u);
  EXPECT_EQ(mount.close(file), 0);
}

// Section 18.3.3: "The offset specifies the position within the file where the flush is to begin." Another
// client's data elsewhere in the file is not ours to commit.
TEST_P(WriteLoops, Fsync_CommitsWhatWasWritten_NotTheWholeFile) {
  const auto file = mount.create("file");
  ASSERT_EQ(mount.write(file, 0, std::string(200'000, 'x')), 0);
  ASSERT_EQ(mount.fsync(file), 0);
  ASSERT_FALSE(server->stat("/export/file")->unstable);
  TestMount other(*server);
  const auto theirs = other.open("file", O_RDWR);
  ASSERT_EQ(other.write(theirs, 0, std::string(100'000, 'y')), 0);
  ASSERT_TRUE(eventually([&] { return other.fs().statistics().cache.dirty_bytes == 0; }));
  ASSERT_EQ(mount.write(file, 150'000, std::string(100'000, 'z')), 0);
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_TRUE(server->stat("/export/file")->unstable);
  EXPECT_EQ(other.close(theirs), 0);
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  EXPECT_EQ(mount.close(file), 0);
}

TEST_P(WriteLoops, SynchronousWrite_IsStableWhenItReturns) {
  const auto file = mount.create("file", O_RDWR | O_SYNC);
  ASSERT_EQ(mount.write(file, 0, "text"), 0);
  EXPECT_EQ(server->read_file("/export/file"), "text");
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  EXPECT_EQ(mount.close(file), 0);
}

// Section 18.3.3: "If stable is FILE_SYNC4, the server MUST commit the data written plus all file system
// metadata to stable storage before returning results." If the server says that it did not, the client sends
// COMMIT.
TEST_P(WriteLoops, ServerThatSyncsLessThanItWasAsked_IsToldToCommit) {
  server->configure([](filer::nfs::Switches& s) { s.writes_are_unstable = true; });
  const auto file = mount.create("synchronous", O_RDWR | O_SYNC);
  ASSERT_EQ(mount.write(file, 0, "text"), 0);
  EXPECT_FALSE(server->stat("/export/synchronous")->unstable);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(mount.write_file("small", "in one piece"), 0);
  EXPECT_FALSE(server->stat("/export/small")->unstable);
  EXPECT_EQ(mount.requests("COMMIT"), 2u);
}

// The same server loses unstable data in a restart. Data that is written again is not stable either, until a
// COMMIT succeeds.
TEST_P(WriteLoops, ServerThatSyncsLessAndRestarts_LosesNothing) {
  server->configure([](filer::nfs::Switches& s) { s.writes_are_unstable = true; });
  const auto file = mount.create("file");
  const std::string text(300'000, 'x');
  ASSERT_EQ(mount.write(file, 0, text), 0);
  EXPECT_TRUE(
      server->wait_until([](filer::nfs::Core& core) { return core.journal.count(OP_WRITE).succeeded >= 1; }));
  server->restart();
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  EXPECT_EQ(server->read_file("/export/file"), text);
  EXPECT_EQ(mount.close(file), 0);
}

TEST_P(WriteLoops, ServerThatWritesLess_IsGivenTheRest) {
  server->configure([](filer::nfs::Switches& s) { s.short_write_bytes = 10'000; });
  std::string text(95'000, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i / 97 % 26);
  EXPECT_EQ(mount.write_file("file", text), 0);
  EXPECT_EQ(server->read_file("/export/file"), text);
}

// Otherwise the data would be written again for ever, and fsync and close would wait.
TEST_P(WriteLoops, ServerThatWritesLessUnderAnotherVerifierEachTime_EndsWithEioOnce) {
  server->configure([](filer::nfs::Switches& s) {
    s.short_write_bytes = 10'000;
    s.writes_are_unstable = true;
  });
  uint64_t turn = 0;
  const auto another = [&] {
    server->with_core([&](filer::nfs::Core& c) { c.write_verifier = verifier4::of(++turn); });
  };
  const auto rule = server->faults().add(on::request_with(OP_WRITE).always(), fault::Call{another});
  const auto file = mount.create("file");
  EXPECT_EQ(mount.write(file, 0, std::string(15'000, 'x')), 0);
  EXPECT_EQ(mount.fsync(file), EIO);
  EXPECT_LE(mount.requests("WRITE"), 32u);
  server->faults().remove(rule);
  EXPECT_EQ(mount.write(file, 0, std::string(15'000, 'y')), 0);
  EXPECT_EQ(mount.fsync(file), 0) << "told once";
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), std::string(15'000, 'y'));
}

TEST_P(WriteLoops, ServerThatReadsLess_IsAskedForTheRest) {
  std::string text(95'000, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i / 97 % 26);
  server->make_file("/export/file", text);
  server->configure([](filer::nfs::Switches& s) { s.short_read_bytes = 10'000; });
  const auto file = mount.open("file");
  EXPECT_EQ(mount.read(file, 0, 100'000).value_or("error"), text);
  EXPECT_EQ(mount.read(file, 94'990, 100'000).value_or("error"), text.substr(94'990));
  EXPECT_EQ(mount.read(file, 95'000, 10).value_or("error"), "");
  EXPECT_EQ(mount.read(file, 1 << 30, 10).value_or("error"), "");
  EXPECT_EQ(mount.close(file), 0);
}

TEST_P(WriteLoops, SparseBeyondFourGigabytes_IsWhereItWasWritten) {
  const auto file = mount.create("file");
  constexpr uint64_t kFar = (uint64_t{5} << 30) + 3;
  ASSERT_EQ(mount.write(file, kFar, "far"), 0);
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_EQ(server->stat("/export/file")->size, kFar + 3);
  EXPECT_EQ(*mount.read(file, kFar - 2, 10), std::string("\0\0far", 5));
  EXPECT_EQ(mount.close(file), 0);
}

TEST_P(WriteLoops, OffsetBeyondTheLargestFile_IsTooBig) {
  const auto file = mount.create("file");
  EXPECT_EQ(mount.write(file, INT64_MAX, "x"), EFBIG);
  EXPECT_EQ(mount.close(file), 0);
}

// Section 5.8.2.17, maxfilesize: "Maximum supported file size for the file system of this object." A write
// that must fail later is refused at once.
TEST_P(WriteLoops, OffsetBeyondTheFileSystemsLargestFile_IsTooBig) {
  constexpr uint64_t kMost = uint64_t{1} << 44;
  server->with_core([](filer::nfs::Core& core) { core.tree.walk("/export")->fs->max_file_bytes = kMost; });
  TestMount told(*server);  // it fetches the limits when it mounts
  const auto file = told.create("file");
  EXPECT_EQ(told.write(file, kMost - 1, "xx"), EFBIG);
  EXPECT_EQ(told.write(file, kMost - 1, "x"), 0);
  EXPECT_EQ(told.close(file), 0);
}

TEST_P(WriteLoops, WrongDescriptor_IsRefusedHere) {
  server->make_file("/export/file", "content");
  const auto reader = mount.open("file", O_RDONLY);
  const auto writer = mount.open("file", O_WRONLY);
  EXPECT_EQ(mount.write(reader, 0, "x"), EBADF);
  EXPECT_EQ(errno_of(mount.read(writer)), EBADF);
  mount.close(reader);
  mount.close(writer);
}

// Random writes, large and small, overlapping, compared with a string.
TEST_P(WriteLoops, AnyOrderOfWrites_EqualsAString) {
  std::minstd_rand random(GetParam());
  const auto file = mount.create("file");
  std::string model;
  for (int step = 0; step < 300; ++step) {
    const size_t at = random() % 400'000;
    const size_t size = random() % 4 == 0 ? 1 + random() % 120'000 : 1 + random() % 3000;
    const std::string piece(size, static_cast<char>('a' + step % 26));
    if (model.size() < at + size) model.resize(at + size);
    model.replace(at, size, piece);
    ASSERT_EQ(mount.write(file, at, piece), 0);
    if (random() % 16 == 0) {
      const size_t from = random() % model.size();
      ASSERT_EQ(*mount.read(file, from, 50'000), model.substr(from, 50'000)) << step;
    }
    if (random() % 40 == 0) {
      ASSERT_EQ(mount.fsync(file), 0);
    }
  }
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), model);
}

TEST_P(WriteLoops, TruncationBetweenWrites_KeepsItsPlace) {
  const auto file = mount.create("file");
  const client::NodeRef node = mount.node("file");
  ASSERT_EQ(mount.write(file, 0, std::string(100'000, 'a')), 0);
  client::SetAttributes set;
  set.size = 10;
  ASSERT_TRUE(mount.run(mount.fs().setattr(mount.user(), node, set, file)));
  ASSERT_EQ(mount.write(file, 20, "bb"), 0);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), std::string(10, 'a') + std::string(10, '\0') + "bb");
}

// --- errors ---

TEST_P(WriteLoops, NoSpace_IsToldOnceAtFsync) {
  const auto file = mount.create("file");
  server->faults().add(on::request_with(OP_WRITE), Answer{OP_WRITE, NFS4ERR_NOSPC});
  ASSERT_EQ(mount.write(file, 0, std::string(100'000, 'x')), 0) << "not known yet";
  EXPECT_EQ(mount.fsync(file), ENOSPC);
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_EQ(mount.write(file, 0, "works again"), 0);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "works again");
}

TEST_P(WriteLoops, NoSpace_IsToldOnceAtClose) {
  for (const auto& [status, error] :
       {std::pair{NFS4ERR_NOSPC, ENOSPC}, std::pair{NFS4ERR_DQUOT, EDQUOT}, std::pair{NFS4ERR_FBIG, EFBIG},
        std::pair{NFS4ERR_IO, EIO}, std::pair{NFS4ERR_ROFS, EROFS}, std::pair{NFS4ERR_ACCESS, EACCES}}) {
    server->faults().add(on::request_with(OP_WRITE), Answer{OP_WRITE, status});
    const auto file = mount.create("file");
    ASSERT_EQ(mount.write(file, 0, "text"), 0);
    EXPECT_EQ(mount.close(file), error) << name_of(status);
    EXPECT_EQ(mount.write_file("file", "text"), 0) << "the next descriptor begins without it";
  }
}

TEST_P(WriteLoops, ErrorOfCommit_IsToldOnce) {
  const auto file = mount.create("file");
  ASSERT_EQ(mount.write(file, 0, std::string(100'000, 'x')), 0);
  server->faults().add(on::request_with(OP_COMMIT), Answer{OP_COMMIT, NFS4ERR_IO});
  EXPECT_EQ(mount.fsync(file), EIO);
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_EQ(mount.close(file), 0);
}

TEST_P(WriteLoops, ServerThatIsReallyFull_LosesNothingItAcknowledged) {
  server->set_space("/export", 200'000);
  const auto file = mount.create("file");
  ASSERT_EQ(mount.write(file, 0, std::string(100'000, 'a')), 0);
  ASSERT_EQ(mount.fsync(file), 0);
  (void)mount.write(file, 100'000, std::string(500'000, 'b'));
  EXPECT_EQ(mount.fsync(file), ENOSPC);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file")->substr(0, 100'000), std::string(100'000, 'a'));
}

// The caller may have been answered early (EINTR) and asks again: the error is reported until a caller gets
// it.
TEST_P(WriteLoops, ErrorThatNobodyHeard_IsToldAgain) {
  const auto file = mount.create("file");
  ASSERT_EQ(mount.write(file, 0, "text"), 0);
  server->faults().add(on::request_with(OP_WRITE), Answer{OP_WRITE, NFS4ERR_NOSPC});
  EXPECT_EQ(errno_of(mount.run(mount.fs().fsync(mount.user(), file, false))), ENOSPC);
  EXPECT_EQ(errno_of(mount.run(mount.fs().flush(mount.user(), file, 1))), ENOSPC);
  EXPECT_EQ(mount.fsync(file), ENOSPC) << "now it is heard";
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_EQ(mount.close(file), 0);
}

// fsync(2), close(2): each open file description reports the error once, whoever wrote. Descriptions opened
// afterwards do not report it.
TEST_P(WriteLoops, ErrorOfAFileOpenedTwice_IsToldOnceToEach) {
  const auto writer = mount.create("file"), reader = mount.open("file", O_RDONLY);
  const auto closed = mount.open("file", O_RDWR);
  server->faults().add(on::request_with(OP_WRITE), Answer{OP_WRITE, NFS4ERR_NOSPC});
  ASSERT_EQ(mount.write(writer, 0, std::string(100'000, 'x')), 0);
  EXPECT_EQ(mount.fsync(writer), ENOSPC);
  const auto later = mount.open("file", O_RDWR);
  EXPECT_EQ(mount.fsync(reader), ENOSPC);
  EXPECT_EQ(mount.close(closed), ENOSPC);
  for (const auto& file : {writer, reader, later}) {
    EXPECT_EQ(mount.fsync(file), 0);
    EXPECT_EQ(mount.close(file), 0);
  }
}

// Two callers wait for the error at once; only one of them reports it.
TEST_P(WriteLoops, ErrorThatTwoWaitedFor_IsToldOne) {
  const auto file = mount.create("file");
  ASSERT_EQ(mount.write(file, 0, "text"), 0);
  server->faults().add(on::request_with(OP_WRITE), Answer{OP_WRITE, NFS4ERR_NOSPC});
  EXPECT_EQ(errno_of(mount.run(mount.fs().fsync(mount.user(), file, false))), ENOSPC);
  EXPECT_EQ(errno_of(mount.run(mount.fs().fsync(mount.user(), file, false))), ENOSPC);
  EXPECT_TRUE(mount.fs().take_error(file));
  EXPECT_FALSE(mount.fs().take_error(file));
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_EQ(mount.close(file), 0);
}

// The kernel has pages that the server did not accept.
TEST_P(WriteLoops, FailedWrite_MakesTheKernelForgetItsPages) {
  const auto file = mount.create("file");
  const unsigned before = mount.front_end.data(mount.node("file"));
  ASSERT_EQ(mount.write(file, 0, "text"), 0);
  server->faults().add(on::request_with(OP_WRITE), Answer{OP_WRITE, NFS4ERR_NOSPC});
  EXPECT_EQ(mount.fsync(file), ENOSPC);
  EXPECT_GT(mount.front_end.data(mount.node("file")), before);
  EXPECT_EQ(mount.close(file), 0);
}

// Two writes of the same bytes; nobody waits for the first one any more. The server must get them in order,
// however long the first one takes.
TEST_P(WriteLoops, SynchronousWritesOfTheSameBytes_KeepTheirOrder) {
  const auto file = mount.create("file", O_RDWR | O_SYNC);
  server->faults().add(on::request_with(OP_WRITE), Answer{OP_WRITE, NFS4ERR_DELAY});
  auto first = mount.start(mount.write_task(file, 0, "first"));
  ASSERT_TRUE(eventually([&] { return mount.fs().statistics().cache.dirty_bytes != 0; }));
  auto second = mount.start(mount.write_task(file, 0, "SECOND"));
  EXPECT_EQ(errno_of(first.get()), 0);
  EXPECT_EQ(errno_of(second.get()), 0);
  EXPECT_EQ(server->read_file("/export/file"), "SECOND");
  EXPECT_EQ(mount.close(file), 0);
}

// A write that waits for another one keeps its place before later writes, whatever these wait for, and also
// if nobody waits for its reply any more.
TEST_P(WriteLoops, WriteThatWaits_DoesNotTakeTheBytesOfALaterOne) {
  constexpr size_t kPart = 128u << 10;
  for (const int synchronous : {0, O_SYNC}) {
    const auto file = mount.create("file", O_RDWR | synchronous);
    const auto stalled = server->faults().add(on::request_with(OP_WRITE), fault::Stall{});
    std::vector<std::future<Result<>>> writes;
    const auto begin_to_write = [&](uint64_t offset, size_t size, char c) {
      writes.push_back(mount.start(mount.write_task(file, offset, std::string(size, c))));
      mount.turn_every_loop();
    };
    begin_to_write(0, kPart, '1');
    ASSERT_TRUE(server->faults().wait_fired(stalled));
    begin_to_write(0, 2 * kPart, '2');
    begin_to_write(kPart, kPart, '3');
    begin_to_write(kPart + 100, 100, '4');
    server->faults().release(stalled);
    for (auto& w : writes) EXPECT_EQ(errno_of(w.get()), 0);
    EXPECT_EQ(mount.fsync(file), 0);
    std::string expected = std::string(kPart, '2') + std::string(kPart, '3');
    expected.replace(kPart + 100, 100, 100, '4');
    EXPECT_TRUE(server->read_file("/export/file") == expected) << synchronous;
    EXPECT_EQ(mount.close(file), 0);
  }
}

// A caller that waits for all written data waits also for such a write, even if it is sent only then.
TEST_P(WriteLoops, WriteThatWaits_IsWaitedForByWhoAsksForAll) {
  const auto file = mount.create("file", O_RDWR | O_SYNC);
  const auto first = server->faults().add(on::request_with(OP_WRITE), fault::Stall{});
  const auto second = server->faults().add(on::request_with(OP_WRITE).nth(2), fault::Stall{});
  auto one = mount.start(mount.write_task(file, 0, "one"));
  ASSERT_TRUE(server->faults().wait_fired(first));
  auto two = mount.start(mount.write_task(file, 0, "two"));
  mount.turn_every_loop();
  client::SetAttributes empty;
  empty.size = 0;
  auto truncating = mount.start(mount.fs().setattr(mount.user(), mount.node("file"), empty, file));
  server->faults().release(first);
  ASSERT_TRUE(server->faults().wait_fired(second));
  mount.settle();
  EXPECT_EQ(truncating.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  server->faults().release(second);
  EXPECT_TRUE(truncating.get() && one.get() && two.get());
  EXPECT_EQ(server->read_file("/export/file"), "");
  EXPECT_EQ(mount.close(file), 0);
}

// fcntl(2) set O_DIRECT after the open.
TEST_P(WriteLoops, DirectWrite_IsStableWhenItReturns) {
  const auto file = mount.create("file");
  BufferPool pool;
  const Slice data = pool.slice(4096);
  client::RequestContext context = mount.user();
  context.direct = true;
  ASSERT_EQ(errno_of(mount.run(mount.fs().write(context, file, 0, data))), 0);
  EXPECT_EQ(server->stat("/export/file")->size, 4096u);
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  EXPECT_EQ(mount.close(file), 0);
}

// Data that is overwritten before it was sent is not sent.
TEST_P(WriteLoops, TheSameBytesAgain_AreOneWrite) {
  const auto file = mount.create("file");
  std::string expected(300, 'a');
  ASSERT_EQ(mount.write(file, 0, expected), 0);
  for (int i = 0; i < 60; ++i) {
    const auto at = static_cast<size_t>(i * 7 % 250);
    const std::string text(90, static_cast<char>('b' + i % 20));  // some of it is beyond the end
    ASSERT_EQ(mount.write(file, at, text), 0);
    expected.resize(std::max(expected.size(), at + text.size()));
    expected.replace(at, text.size(), text);
  }
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), expected);
  EXPECT_LE(mount.requests("WRITE"), 2u) << "the timer may send it once";
}

TEST_P(WriteLoops, SynchronousWriteThatFails_SaysSoItself) {
  const auto file = mount.create("file", O_RDWR | O_SYNC);
  server->faults().add(on::request_with(OP_WRITE), Answer{OP_WRITE, NFS4ERR_NOSPC});
  EXPECT_EQ(mount.write(file, 0, "text"), ENOSPC);
  EXPECT_EQ(mount.fsync(file), 0) << "told already";
  EXPECT_EQ(mount.close(file), 0);
}

// Stable WRITEs would each cost a disk write, and sequential ones each a round trip.
TEST_P(WriteLoops, SynchronousWriteLongerThanWsize_IsUnderWayAtOnceAndCommittedOnce) {
  TestMount small(*server, with_wsize(65536));
  const auto file = small.create("file", O_RDWR | O_SYNC);
  const std::string text(4 * 65536 + 100, 's');
  const auto stalled = server->faults().add(on::request_with(OP_WRITE), fault::Stall{});
  auto write = small.start(small.write_task(file, 0, text));
  EXPECT_TRUE(
      server->wait_until([](filer::nfs::Core& core) { return core.journal.count(OP_WRITE).succeeded == 4; }));
  EXPECT_TRUE(server->stat("/export/file")->unstable);
  server->faults().release(stalled);
  EXPECT_EQ(errno_of(write.get()), 0);
  EXPECT_EQ(server->read_file("/export/file"), text);
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  EXPECT_EQ(small.requests("WRITE"), 5u);
  EXPECT_EQ(small.requests("COMMIT"), 1u);
  EXPECT_EQ(small.close(file), 0);
}

// Section 18.32.3: the verifier "is a cookie that the client can use to determine whether a server has
// changed instance state (e.g., server restart) between a call to WRITE and a subsequent call to either WRITE
// or COMMIT."
TEST_P(WriteLoops, SynchronousWriteLongerThanWsize_SurvivesARestartInTheMiddle) {
  TestMount small(*server, with_wsize(65536));
  for (const bool commit : {false, true}) {
    const std::string name = commit ? "commit" : "write";
    const auto file = small.create(name, O_RDWR | O_SYNC);
    server->faults().add(commit ? on::request_with(OP_COMMIT) : on::request_with(OP_WRITE).nth(3),
                         fault::Restart{});
    const std::string text(4 * 65536 + 100, commit ? 'c' : 'w');
    EXPECT_EQ(small.write(file, 0, text), 0);
    EXPECT_EQ(server->read_file("/export/" + name), text);
    EXPECT_FALSE(server->stat("/export/" + name)->unstable);
    EXPECT_EQ(small.close(file), 0);
  }
}

// The new server gets the first part, and COMMIT returns the same verifier. The other parts were lost.
TEST_P(WriteLoops, SynchronousWriteLongerThanWsize_OfWhichOnlyTheFirstPartCameAfterARestart_IsWrittenAgain) {
  TestMount small(*server, with_wsize(65536));
  const auto file = small.create("file", O_RDWR | O_SYNC);
  const std::string text(4 * 65536, 'r');
  server->faults().add(on::request_with(OP_WRITE), fault::Stall{});
  auto write = small.start(small.write_task(file, 0, text));
  EXPECT_TRUE(
      server->wait_until([](filer::nfs::Core& core) { return core.journal.count(OP_WRITE).succeeded == 3; }));
  server->restart();
  EXPECT_EQ(errno_of(write.get()), 0);
  EXPECT_EQ(server->read_file("/export/file"), text);
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  EXPECT_EQ(small.close(file), 0);
}

TEST_P(WriteLoops, SynchronousWriteLongerThanWsize_ThatFailsInOnePart_SaysSoItself) {
  TestMount small(*server, with_wsize(65536));
  const auto file = small.create("file", O_RDWR | O_SYNC);
  server->faults().add(on::request_with(OP_WRITE).nth(2), Answer{OP_WRITE, NFS4ERR_NOSPC});
  EXPECT_EQ(small.write(file, 0, std::string(200'000, 'x')), ENOSPC);
  EXPECT_FALSE(server->stat("/export/file")->unstable) << "what the other parts have brought";
  EXPECT_EQ(small.fsync(file), 0) << "told already";
  EXPECT_EQ(small.close(file), 0);
}

// --- how much may be in flight ---

// A lost or slow WRITE delays only callers that need its bytes.
TEST_P(WriteLoops, OneWriteThatIsNotAnswered_DoesNotHoldUpTheOthers) {
  TestMount small(*server, with_wsize(65536));
  const auto file = small.create("file");
  constexpr size_t kPieces = 8;
  const std::string piece(65536, 'p');
  const auto stalled = server->faults().add(on::request_with(OP_WRITE), fault::Stall{});
  std::vector<std::future<Result<>>> writes;
  for (size_t i = 0; i < kPieces; ++i)
    writes.push_back(small.start(small.write_task(file, i * piece.size(), piece)));
  EXPECT_TRUE(server->wait_until(
      [](filer::nfs::Core& core) { return core.journal.count(OP_WRITE).succeeded == kPieces - 1; }));
  const auto numbers = [&] { return small.fs().statistics().cache; };
  EXPECT_TRUE(eventually([&] { return numbers().uncommitted_bytes == (kPieces - 1) * piece.size(); }))
      << "and they are answered";
  EXPECT_EQ(numbers().dirty_bytes, piece.size());
  server->faults().release(stalled);
  for (auto& w : writes) EXPECT_EQ(errno_of(w.get()), 0);
  EXPECT_EQ(small.close(file), 0);
  EXPECT_EQ(server->stat("/export/file")->size, kPieces * piece.size());
  EXPECT_FALSE(server->stat("/export/file")->unstable);
}

// Writers wait while this much is unanswered. Each one's latest piece comes on top.
TEST_P(WriteLoops, MoreThanTheDirtyLimit_MakesWritersWait) {
  constexpr size_t kWriters = 3;
  const std::string piece(1 << 20, 'p');
  for (const uint64_t memory : {uint64_t{0}, uint64_t{64} << 30}) {
    TestMount slow(*server, with_memory(memory));
    const uint64_t limit = client::WriteLimits::fitting(memory, 0).unanswered();
    const uint64_t each = limit + 4 * piece.size();  // so that no writer ends without waiting
    const auto dirty = [&] { return slow.fs().statistics().cache.dirty_bytes; };
    std::atomic<uint64_t> most{0};
    const auto writer = [&](client::OpenFileRef file) -> Task<int> {
      for (uint64_t at = 0; at < each; at += piece.size()) {
        auto write = slow.write_task(file, at, piece);
        const auto written = co_await std::move(write);
        if (!written) co_return written.error().errnum;
        const uint64_t now = dirty();
        for (uint64_t known = most; now > known && !most.compare_exchange_weak(known, now);) continue;
      }
      co_return 0;
    };
    std::vector<client::OpenFileRef> files;
    for (size_t i = 0; i < kWriters; ++i) files.push_back(slow.create("file" + std::to_string(i)));
    const auto stalled = server->faults().add(on::request_with(OP_WRITE).always(), fault::Stall{});
    std::vector<std::future<int>> writers;
    for (const auto& file : files) writers.push_back(slow.start(writer(file)));
    EXPECT_TRUE(eventually([&] { return dirty() > limit; }));
    slow.turn_every_loop();  // every writer that can continue has done so
    EXPECT_LE(dirty(), limit + kWriters * piece.size());
    for (auto& w : writers) EXPECT_EQ(w.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    server->faults().release(stalled);
    for (auto& w : writers) EXPECT_EQ(w.get(), 0);
    server->faults().remove(stalled);
    EXPECT_LE(most, limit + kWriters * piece.size());
    for (size_t i = 0; i < kWriters; ++i) {
      EXPECT_EQ(slow.close(files[i]), 0);
      EXPECT_EQ(server->stat("/export/file" + std::to_string(i))->size, each);
    }
  }
}

// The client keeps what the server holds unstable. In a small container that must not use up the memory.
TEST_P(WriteLoops, LittleMemory_IsNotFilledWithWhatIsNotCommitted) {
  TestMount small(*server, with_memory(0));
  const auto limits = client::WriteLimits::fitting(0, 0);
  const std::string piece(1 << 20, 'p');
  const uint64_t all = 3 * limits.uncommitted();
  const auto numbers = [&] { return small.fs().statistics().cache; };
  const auto writer = [&](client::OpenFileRef file) -> Task<int> {
    for (uint64_t at = 0; at < all; at += piece.size()) {
      auto write = small.write_task(file, at, piece);
      const auto written = co_await std::move(write);
      if (!written) co_return written.error().errnum;
    }
    co_return 0;
  };
  const auto file = small.create("file");
  const auto stalled = server->faults().add(on::request_with(OP_COMMIT).always(), fault::Stall{});
  auto writing = small.start(writer(file));
  const TimePoint soon = Clock::now() + std::chrono::seconds(20);
  // Waits until all WRITEs are answered and no more are sent.
  const auto nothing = []() -> Task<int> { co_return 0; };
  uint64_t before = 0;
  for (unsigned unchanged = 0; unchanged < 16 && Clock::now() < soon;) {
    for (unsigned i = 0; i < GetParam(); ++i) small.run(nothing());
    const auto n = numbers();
    const bool waits = n.dirty_bytes == 0 && n.uncommitted_bytes > limits.uncommitted();
    unchanged = waits && n.uncommitted_bytes == before ? unchanged + 1 : 0;
    before = n.uncommitted_bytes;
  }
  EXPECT_GT(before, limits.uncommitted());
  EXPECT_LE(before, limits.uncommitted() + limits.unanswered() + piece.size());
  EXPECT_EQ(writing.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  server->faults().release(stalled);
  EXPECT_EQ(writing.get(), 0);
  EXPECT_EQ(small.close(file), 0);
  EXPECT_EQ(server->stat("/export/file")->size, all);
}

// One file system of the export may be slow, or one of several servers may not answer.
TEST_P(WriteLoops, ACommitThatTakesLong_HoldsUpNoOtherFile) {
  TestMount small(*server, with_memory(0));
  const auto limits = client::WriteLimits::fitting(0, 0);
  const std::string piece(1 << 20, 'p');
  const auto slow = small.create("slow"), other = small.create("other");
  const auto stalled = server->faults().add(on::request_with(OP_COMMIT), fault::Stall{});
  const auto writer = [&](client::OpenFileRef file, uint64_t all) -> Task<int> {
    for (uint64_t at = 0; at < all; at += piece.size()) {
      auto write = small.write_task(file, at, piece);
      const auto written = co_await std::move(write);
      if (!written) co_return written.error().errnum;
    }
    co_return 0;
  };
  auto writing = small.start(writer(slow, 3 * limits.uncommitted()));
  const auto kept = [&] { return small.fs().statistics().cache.uncommitted_bytes; };
  EXPECT_TRUE(eventually([&] { return kept() > limits.uncommitted(); }));
  auto beside = small.start(writer(other, 4 * piece.size()));
  EXPECT_EQ(beside.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(writing.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  server->faults().release(stalled);
  EXPECT_EQ(beside.get(), 0);
  EXPECT_EQ(writing.get(), 0);
  EXPECT_EQ(small.close(slow), 0);
  EXPECT_EQ(small.close(other), 0);
}

// Each few bytes take a page.
TEST_P(WriteLoops, LittleMemory_IsNotFilledWithPagesOfSmallWrites) {
  TestMount small(*server, with_memory(0));
  const auto limits = client::WriteLimits::fitting(0, 0);
  const auto file = small.create("file");
  const std::string piece(100, 'p');
  for (uint64_t i = 0; i < limits.buffers() / 4096 + 1024; ++i) {
    ASSERT_EQ(small.write(file, i * 8192, piece), 0);
    ASSERT_LE(small.buffers().outstanding_bytes(), limits.buffers() + 4096);
  }
  EXPECT_EQ(small.close(file), 0);
}

// If memory becomes short, and also after some time, data is committed without another write or a close.
TEST_P(WriteLoops, WhatNobodyTouchesAnyMore_IsCommitted) {
  for (const bool little : {true, false}) {
    std::atomic<uint64_t> available{uint64_t{1} << 40};
    TestMount slow(
        *server, TestMount::Settings{.loops = GetParam(), .options = [&](client::ClientOptions& o) {
                                       o.memory = [&] { return Memory{uint64_t{1} << 40, available.load()}; };
                                       if (!little) o.uncommitted_for = std::chrono::milliseconds(100);
                                     }});
    const auto file = slow.create("file");
    const std::string piece(1 << 20, 'p');
    // Less than the amount that starts a COMMIT.
    for (uint64_t at = 0; at < (20u << 20); at += piece.size()) ASSERT_EQ(slow.write(file, at, piece), 0);
    if (little) available = 0;
    EXPECT_TRUE(server->wait_until([&](filer::nfs::Core& core) {
      return core.journal.count(OP_COMMIT).executed > 0;
    })) << (little ? "for want of memory" : "in time")
        << ", of " << slow.fs().statistics().cache.uncommitted_bytes << " bytes";
    EXPECT_EQ(slow.close(file), 0);
    EXPECT_FALSE(server->stat("/export/file")->unstable);
    server->clear_journal();
  }
}

// More data than may be in flight at once: all of it arrives.
TEST_P(WriteLoops, MoreThanTheDirtyLimit_ArrivesWhole) {
  const auto file = mount.create("file");
  const std::string piece(1 << 20, 'p');
  std::vector<std::future<Result<>>> writes;
  constexpr size_t kPieces = 100;
  for (size_t i = 0; i < kPieces; ++i)
    writes.push_back(mount.start(mount.write_task(file, i * piece.size(), piece)));
  for (auto& w : writes) EXPECT_EQ(errno_of(w.get()), 0);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->stat("/export/file")->size, kPieces * piece.size());
  EXPECT_FALSE(server->stat("/export/file")->unstable);
}

// --- over RDMA ---

class WriteOverRdma : public testing::TestWithParam<rdma::Versions> {
 protected:
  std::unique_ptr<filer::Server> server = [] {
    filer::nfs::Options options;
    options.rdma.listen = true;
    options.rdma.devices = false;
    options.manual_clock = true;
    return start_filer(std::move(options));
  }();
  TestMount mount{*server, {.options = [this](client::ClientOptions& o) {
                    o.transport = client::TransportKind::kSoftwareRdma;
                    o.port = server->rdma_port();
                    o.rdma_versions = GetParam();
                  }}};
};

// The server reads from the memory into which the front end received the data: it gets what is there when it
// fetches, which is after the call has arrived.
TEST_P(WriteOverRdma, LargePayload_IsFetchedFromWhereItWasDelivered) {
  for (const size_t size : {size_t{128} << 10, size_t{1} << 20}) {
    SCOPED_TRACE(size);
    const auto file = mount.create("file");
    const Slice payload = mount.memory(size);
    std::fill(payload.bytes.begin(), payload.bytes.end(), std::byte{'a'});
    const auto overwrite = [bytes = payload.bytes] { std::fill(bytes.begin(), bytes.end(), std::byte{'b'}); };
    const auto rule = server->faults().add(on::header().always(), fault::Call{overwrite});
    ASSERT_EQ(errno_of(mount.run(mount.fs().write(mount.user(), file, 0, payload))), 0);
    EXPECT_EQ(mount.close(file), 0);
    EXPECT_TRUE(server->read_file("/export/file") == std::string(size, 'b')) << "it was copied before";
    server->faults().remove(rule);
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, WriteOverRdma,
                         testing::Values(rdma::Versions::kOnly1, rdma::Versions::kOnly2));
INSTANTIATE_TEST_SUITE_P(Loops, WriteLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

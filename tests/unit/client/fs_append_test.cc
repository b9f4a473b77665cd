// SPDX-License-Identifier: Apache-2.0
// O_APPEND writes at the end of the file, also if the kernel's end is out of date (RFC 8881 sections 10.3.1,
// 10.3.2).
#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using client::LockType;
namespace on = filer::on;

class AppendLoops : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<filer::Server> server = start_filer();
  TestMount mount{*server, TestMount::Settings{.loops = GetParam()}};
  TestMount other{*server, TestMount::Settings{.loops = GetParam()}};
  std::shared_ptr<client::Cancellation> caller = std::make_shared<client::Cancellation>();

  Task<Result<>> append_task(client::OpenFileRef file, uint64_t end, std::string_view text, bool direct) {
    const Slice data = mount.memory(text.size());
    std::copy(text.begin(), text.end(), reinterpret_cast<char*>(data.bytes.data()));
    client::RequestContext ctx = mount.user();
    ctx.append = true;
    ctx.direct = direct;
    ctx.cancellation = caller;
    return mount.fs().write(std::move(ctx), std::move(file), end, data);
  }
  // As the kernel sends an append while it believes that the file ends at `end`.
  int append(const client::OpenFileRef& file, uint64_t end, std::string_view text, bool direct = false) {
    return errno_of(mount.run(append_task(file, end, text, direct)));
  }
  static int empty(TestMount& m, const client::OpenFileRef& file) {
    client::SetAttributes set;
    set.size = 0;
    return errno_of(m.run(m.fs().setattr(m.user(), m.node("file"), set, file)));
  }
  void other_appends(uint64_t at, std::string_view text) {
    const auto file = other.open("file", O_WRONLY);
    ASSERT_EQ(other.write(file, at, text), 0);
    ASSERT_EQ(other.close(file), 0);
  }
};

// "the client ... declares the cached data (as well as the cached attributes) as invalid": only the daemon
// has seen the new end, in the OPEN's reply.
TEST_P(AppendLoops, BehindWhatAnotherClientHasAppended_AfterAnOpen) {
  ASSERT_EQ(mount.write_file("file", "aaaa\n"), 0);
  other_appends(5, "bbbb\n");
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  const unsigned dropped = mount.front_end.data(mount.node("file"));
  EXPECT_EQ(append(file, 5, "cccc\n"), 0);
  EXPECT_GT(mount.front_end.data(mount.node("file")), dropped) << "the kernel has it where it said";
  EXPECT_EQ(append(file, 10, "dddd\n"), 0) << "where the kernel thinks that it ends now";
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "aaaa\nbbbb\ncccc\ndddd\n");
}

TEST_P(AppendLoops, BehindWhatAnotherClientHasAppended_UnderALock) {
  ASSERT_EQ(mount.write_file("file", "aaaa\n"), 0);
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  other_appends(5, "bbbb\n");
  ASSERT_EQ(mount.lock(file, LockType::kWrite), 0);
  EXPECT_EQ(append(file, 5, "cccc\n"), 0);
  ASSERT_EQ(mount.lock(file, LockType::kUnlock), 0);
  EXPECT_EQ(server->read_file("/export/file"), "aaaa\nbbbb\ncccc\n");
  EXPECT_EQ(mount.close(file), 0);
}

// The process is killed while the client asks for the end, and loses its lock. The append would then land in
// another client's data.
TEST_P(AppendLoops, AbandonedWhileItAsksForTheEnd_IsNotMade) {
  for (const bool direct : {false, true}) {
    caller = std::make_shared<client::Cancellation>();
    ASSERT_EQ(mount.write_file("file", "aaaa\n"), 0);
    const auto file = mount.open("file", O_WRONLY | O_APPEND);
    other_appends(5, "bbbb\n");
    ASSERT_EQ(mount.lock(file, LockType::kWrite), 0);
    const auto stalled = server->faults().add(on::reply_to(nfs4::OP_GETATTR), filer::fault::Stall{});
    auto append = mount.start(append_task(file, 5, "cccc\n", direct));
    ASSERT_TRUE(server->faults().wait_fired(stalled));
    caller->cancel();
    ASSERT_EQ(mount.lock(file, LockType::kUnlock), 0);
    other_appends(10, "dddd\n");
    server->faults().release(stalled);
    EXPECT_EQ(errno_of(append.get()), EINTR);
    EXPECT_EQ(mount.fsync(file), 0);
    EXPECT_EQ(server->read_file("/export/file"), "aaaa\nbbbb\ndddd\n");
    caller = nullptr;
    EXPECT_EQ(this->append(file, 5, "eeee\n", direct), 0) << "nothing is left of it";
    EXPECT_EQ(mount.close(file), 0);
    EXPECT_EQ(server->read_file("/export/file"), "aaaa\nbbbb\ndddd\neeee\n");
  }
}

TEST_P(AppendLoops, ToAFileThatAnotherClientHasTruncated_LeavesNoHole) {
  ASSERT_EQ(mount.write_file("file", "aaaaaaaaaa"), 0);
  const auto elsewhere = other.open("file", O_WRONLY);
  ASSERT_EQ(empty(other, elsewhere), 0);
  ASSERT_EQ(other.close(elsewhere), 0);
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  EXPECT_EQ(append(file, 10, "new"), 0);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "new");
}

// The same with uncommitted data here: the server's size includes it.
TEST_P(AppendLoops, ToAFileThatAnotherClientHasTruncated_WithUncommittedData) {
  ASSERT_EQ(mount.write_file("file", ""), 0);
  const auto writer = mount.open("file", O_WRONLY);
  const std::string much(1u << 20, 'a');
  ASSERT_EQ(mount.write(writer, 0, much), 0);
  ASSERT_TRUE(eventually([&] { return mount.requests("WRITE") != 0; }));
  const auto elsewhere = other.open("file", O_WRONLY);
  ASSERT_EQ(empty(other, elsewhere), 0);
  ASSERT_EQ(other.write(elsewhere, 0, "other"), 0);
  ASSERT_EQ(other.close(elsewhere), 0);
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  EXPECT_EQ(append(file, much.size(), "new"), 0);
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "othernew");
  EXPECT_EQ(mount.close(file), 0);
  mount.close(writer);
}

// The kernel splits a write(2) with O_DIRECT into parts. It sends them at once, and several loops start them
// in any order.
TEST_P(AppendLoops, PartsOfOneDirectWriteInAnyOrder_LieInTheirs) {
  ASSERT_EQ(mount.write_file("file", "head"), 0);
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  ASSERT_EQ(mount.stat("file")->size, 4u);
  const uint64_t asked = mount.requests("GETATTR");
  const auto stalled = server->faults().add(on::request_with(nfs4::OP_WRITE).always(), filer::fault::Stall{});
  auto third = mount.start(append_task(file, 10, "333", true));
  ASSERT_TRUE(server->faults().wait_fired(stalled, 1));
  auto second = mount.start(append_task(file, 7, "222", true));
  auto first = mount.start(append_task(file, 4, "111", true));
  ASSERT_TRUE(server->faults().wait_fired(stalled, 3));
  server->faults().release(stalled);
  EXPECT_TRUE(first.get() && second.get() && third.get());
  EXPECT_EQ(server->read_file("/export/file"), "head111222333");
  EXPECT_EQ(mount.requests("GETATTR"), asked) << "the kernel's end was the file's";
  EXPECT_EQ(mount.close(file), 0);
}

// The same if all parts have to move further out: one GETATTR for all.
TEST_P(AppendLoops, PartsOfOneDirectWriteBehindAnotherClient_StayTogether) {
  ASSERT_EQ(mount.write_file("file", "head"), 0);
  ASSERT_EQ(mount.stat("file")->size, 4u);
  other_appends(4, "another's");
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  const auto stalled = server->faults().add(on::request_with(nfs4::OP_GETATTR), filer::fault::Stall{});
  auto second = mount.start(append_task(file, 7, "222", true));
  ASSERT_TRUE(server->faults().wait_fired(stalled));
  auto first = mount.start(append_task(file, 4, "111", true));
  auto third = mount.start(append_task(file, 10, "333", true));
  mount.settle();
  EXPECT_EQ(first.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  server->faults().release(stalled);
  EXPECT_TRUE(first.get() && second.get() && third.get());
  EXPECT_EQ(server->read_file("/export/file"), "headanother's111222333");
  // The same offset again: nobody waited for that write, and the kernel's end did not move.
  EXPECT_EQ(append(file, 4, "444", true), 0);
  EXPECT_EQ(server->read_file("/export/file"), "headanother's111222333444");
  EXPECT_EQ(mount.close(file), 0);
}

// One part starts after the parts on both sides of it ended.
TEST_P(AppendLoops, PartOfADirectWriteThatComesLate_LiesBetweenTheOthers) {
  ASSERT_EQ(mount.write_file("file", "head"), 0);
  ASSERT_EQ(mount.stat("file")->size, 4u);
  other_appends(4, "another's");
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  EXPECT_EQ(append(file, 4, "111", true), 0);
  EXPECT_EQ(append(file, 10, "333", true), 0);
  EXPECT_EQ(append(file, 7, "222", true), 0);
  EXPECT_EQ(append(file, 13, "444", true), 0) << "the next write(2)";
  EXPECT_EQ(server->read_file("/export/file"), "headanother's111222333444");
  EXPECT_EQ(mount.close(file), 0);
}

// After a truncation, the file's size is below the end of an earlier write(2). An append there is not a late
// part of that write.
TEST_P(AppendLoops, DirectWriteAfterATruncation_IsNoLatePartOfAnOlderOne) {
  ASSERT_EQ(mount.write_file("file", ""), 0);
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  EXPECT_EQ(append(file, 0, "1111", true), 0);
  EXPECT_EQ(append(file, 4, "2222", true), 0);
  ASSERT_EQ(empty(mount, file), 0);
  other_appends(0, "cccc");
  ASSERT_EQ(mount.lock(file, LockType::kWrite), 0);
  EXPECT_EQ(append(file, 0, "dddd", true), 0);
  EXPECT_EQ(server->read_file("/export/file"), "ccccdddd");
  EXPECT_EQ(mount.close(file), 0);
}

TEST_P(AppendLoops, DirectWriteAfterATruncation_LeavesNoHole) {
  ASSERT_EQ(mount.write_file("file", "head"), 0);
  ASSERT_EQ(mount.stat("file")->size, 4u);
  other_appends(4, "xyz");
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  EXPECT_EQ(append(file, 4, "1111", true), 0);
  ASSERT_EQ(empty(mount, file), 0);
  EXPECT_EQ(append(file, 0, "222", true), 0);
  EXPECT_EQ(server->read_file("/export/file"), "222");
  EXPECT_EQ(mount.close(file), 0);
}

// The WRITE's reply brings no size. The old size must not be used for appending, and must not be reported.
TEST_P(AppendLoops, WriteWhoseAttributesCannotBeHad_CountsAsWritten) {
  ASSERT_EQ(mount.write_file("file", "head"), 0);
  // Under a delegation no GETATTR of the change attribute precedes the WRITE.
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  const auto file = mount.open("file", O_RDWR | O_APPEND);
  const auto refused = server->faults().add(on::request_with(nfs4::OP_WRITE),
                                            filer::fault::Answer{nfs4::OP_GETATTR, nfs4::NFS4ERR_IO});
  EXPECT_EQ(append(file, 4, "more", true), 0);
  ASSERT_TRUE(server->faults().wait_fired(refused));
  EXPECT_EQ(mount.stat("file")->size, 8u);
  EXPECT_EQ(append(file, 8, "again"), 0);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "headmoreagain");
}

// No request is sent while the kernel's end is correct, whether the data is held, in flight or uncommitted.
TEST_P(AppendLoops, AloneWithTheFile_NothingIsAsked) {
  const auto file = mount.create("file", O_WRONLY | O_APPEND);
  const uint64_t asked = mount.requests("GETATTR");
  std::string text;
  for (int n = 0; n < 300; ++n) {
    const std::string line(n % 10 == 0 ? 70'000 : 100, static_cast<char>('a' + n % 26));
    ASSERT_EQ(append(file, text.size(), line, n % 50 == 7), 0);
    text += line;
    if (n % 100 == 50) {
      ASSERT_EQ(mount.fsync(file), 0);
    }
  }
  EXPECT_EQ(mount.requests("GETATTR"), asked);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), text);
}

INSTANTIATE_TEST_SUITE_P(Loops, AppendLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

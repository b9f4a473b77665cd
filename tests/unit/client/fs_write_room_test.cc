// SPDX-License-Identifier: Apache-2.0
// A mount keeps a limited amount of written data: further writes wait. If nobody waits for such a write any
// more (its process was killed, or got EINTR), its data is dropped.
#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using client::Cancellation;
namespace fault = filer::fault;
namespace on = filer::on;

class WriteRoom : public testing::TestWithParam<unsigned> {
 protected:
  static constexpr size_t kPiece = 1u << 20;
  static constexpr client::WriteLimits limits = client::WriteLimits::fitting(0, 0);

  std::unique_ptr<filer::Server> server = start_filer();
  TestMount mount{*server, TestMount::Settings{.loops = GetParam(), .options = [](client::ClientOptions& o) {
                                                 o.memory = [] { return Memory{0, 0}; };
                                               }}};
  // Flags of the next write.
  bool direct = false, append = false;

  // One write(2) whose caller may go away.
  struct Write {
    Loop* loop;
    std::shared_ptr<Cancellation> caller = std::make_shared<Cancellation>();
    std::future<Result<>> done = {};
  };
  Write begin(const client::OpenFileRef& file, uint64_t offset, char letter) {
    Write w{&mount.next_loop()};
    client::RequestContext ctx = mount.user();
    ctx.cancellation = w.caller;
    ctx.direct = direct;
    ctx.append = append;
    const Slice data = mount.memory(kPiece);
    std::fill(data.bytes.begin(), data.bytes.end(), static_cast<std::byte>(letter));
    w.done = start_on(*w.loop, mount.fs().write(std::move(ctx), file, offset, data));
    return w;
  }
  // Lets the loop run as far as it can, and returns whether the write ended.
  static bool ended(const Write& w) {
    const auto nothing = []() -> Task<int> { co_return 0; };
    start_on(*w.loop, nothing()).get();
    return w.done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  static bool abandon(Write& w) {
    w.caller->cancel();
    return ended(w);
  }
  uint64_t dirty() { return mount.fs().statistics().cache.dirty_bytes; }
  uint64_t uncommitted() { return mount.fs().statistics().cache.uncommitted_bytes; }
  auto stall(nfs_opnum4 op) { return server->faults().add(on::request_with(op).always(), fault::Stall{}); }
  // A piece of each letter.
  static std::string pieces(std::string_view letters) {
    std::string all;
    for (const char letter : letters) all += std::string(kPiece, letter);
    return all;
  }
  // Writes pieces one after the other until a write waits, and returns that one.
  Write fill(const client::OpenFileRef& file, std::vector<Write>& accepted) {
    for (;;) {
      const uint64_t before = dirty();
      Write w = begin(file, accepted.size() * kPiece, 'a');
      ended(w);
      if (dirty() == before) return w;
      accepted.push_back(std::move(w));
    }
  }
  void abandon_many(const client::OpenFileRef& file);
};

// Kills each caller as soon as its write waits. Writes that were accepted before arrive completely, the
// others not at all.
void WriteRoom::abandon_many(const client::OpenFileRef& file) {
  const auto stalled = stall(OP_WRITE);
  std::vector<Write> accepted, left;
  for (size_t i = 0; i < 300; ++i) {
    const uint64_t before = dirty();
    const uint64_t offset = append ? accepted.size() * kPiece : i * kPiece;
    Write w = begin(file, offset, static_cast<char>('a' + i % 26));
    ended(w);
    const bool is_accepted = dirty() != before;
    const bool over = abandon(w);
    if (!is_accepted && over) {
      EXPECT_EQ(errno_of(w.done.get()), EINTR) << i;
      continue;
    }
    (is_accepted ? accepted : left).push_back(std::move(w));
  }
  EXPECT_TRUE(left.empty()) << left.size() << " wait without a caller";
  EXPECT_GT(dirty(), limits.unanswered());
  EXPECT_LE(dirty(), limits.unanswered() + kPiece);
  EXPECT_LE(mount.buffers().outstanding_bytes(), limits.buffers());
  server->faults().release(stalled);
  for (Write& w : accepted) EXPECT_EQ(errno_of(w.done.get()), 0);
  for (Write& w : left) w.done.get();
  server->faults().remove(stalled);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_TRUE(server->read_file("/export/file") ==
              pieces(std::string_view("abcdefghijklmnopqrstuvwxyz").substr(0, accepted.size())));
}

TEST_P(WriteRoom, WhoseCallersAreKilledWhileTheyWait_AreNotKept) {
  abandon_many(mount.create("file"));
}

TEST_P(WriteRoom, DirectOnesWhoseCallersAreKilled_AreNotKept) {
  direct = true;
  abandon_many(mount.create("file"));
}

TEST_P(WriteRoom, SynchronousOnesWhoseCallersAreKilled_AreNotKept) {
  abandon_many(mount.create("file", O_RDWR | O_SYNC));
}

TEST_P(WriteRoom, AppendsWhoseCallersAreKilled_AreNotKept) {
  append = true;
  abandon_many(mount.create("file", O_WRONLY | O_APPEND));
}

TEST_P(WriteRoom, DirectAppendsWhoseCallersAreKilled_AreNotKept) {
  append = direct = true;
  abandon_many(mount.create("file", O_WRONLY | O_APPEND));
}

// The same if a COMMIT makes the room.
TEST_P(WriteRoom, WhoseCallersAreKilledBehindACommit_AreNotKept) {
  const auto file = mount.create("file");
  const auto stalled = stall(OP_COMMIT);
  const TimePoint soon = Clock::now() + std::chrono::seconds(20);
  std::string accepted;
  std::vector<Write> left;
  for (size_t i = 0; i < 100; ++i) {
    const char letter = static_cast<char>('a' + i % 26);
    Write w = begin(file, accepted.size() * kPiece, letter);
    // It first waits for WRITEs, which are answered, and then for the COMMIT.
    while (!ended(w) && !(dirty() == 0 && uncommitted() > limits.uncommitted()) && Clock::now() < soon)
      std::this_thread::yield();
    if (ended(w)) {
      EXPECT_EQ(errno_of(w.done.get()), 0);
      accepted += letter;
    } else if (abandon(w)) {
      EXPECT_EQ(errno_of(w.done.get()), EINTR);
    } else {
      left.push_back(std::move(w));
    }
  }
  EXPECT_TRUE(left.empty()) << left.size() << " wait without a caller";
  EXPECT_GT(uncommitted(), limits.uncommitted());
  EXPECT_LE(uncommitted(), limits.uncommitted() + limits.unanswered() + kPiece);
  server->faults().release(stalled);
  for (Write& w : left) w.done.get();
  server->faults().remove(stalled);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_TRUE(server->read_file("/export/file") == pieces(accepted));
}

// Writes of the same bytes that have room wait for one another and hold their memory meanwhile.
TEST_P(WriteRoom, WritesOfTheSameBytes_ArePartOfWhatIsKept) {
  const auto file = mount.create("file");
  const auto stalled = stall(OP_WRITE);
  std::vector<Write> accepted, dropped;
  char last = 0;
  for (size_t i = 0; i < 300; ++i) {
    const char letter = static_cast<char>('a' + i % 26);
    Write w = begin(file, 0, letter);
    const bool at_once = ended(w);
    const bool is_accepted = at_once || !abandon(w);
    if (is_accepted) last = letter;
    (is_accepted ? accepted : dropped).push_back(std::move(w));
  }
  EXPECT_FALSE(dropped.empty());
  EXPECT_LE(mount.buffers().outstanding_bytes(), limits.buffers() + kPiece);
  server->faults().release(stalled);
  for (Write& w : accepted) EXPECT_EQ(errno_of(w.done.get()), 0);
  for (Write& w : dropped) EXPECT_EQ(errno_of(w.done.get()), EINTR);
  server->faults().remove(stalled);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_TRUE(server->read_file("/export/file") == std::string(kPiece, last));
}

// The caller's next write must stay.
TEST_P(WriteRoom, WhatIsWrittenAfterAnAbandonedOne_IsNotWrittenOver) {
  const auto file = mount.create("file");
  const auto stalled = stall(OP_WRITE);
  std::vector<Write> accepted;
  Write old = fill(file, accepted);
  EXPECT_TRUE(abandon(old));
  Write next = begin(file, accepted.size() * kPiece, 'n');
  EXPECT_FALSE(ended(next)) << "there is no room for it either";
  server->faults().release(stalled);
  EXPECT_EQ(errno_of(next.done.get()), 0);
  EXPECT_EQ(errno_of(old.done.get()), EINTR);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_TRUE(server->read_file("/export/file") == pieces(std::string(accepted.size(), 'a') + 'n'));
}

// A file without data in flight waits for no other file, whose server may not answer.
TEST_P(WriteRoom, AFileAlone_HasRoomForOneWrite) {
  const auto file = mount.create("file"), other = mount.create("other");
  const auto stalled = stall(OP_WRITE);
  std::vector<Write> accepted;
  Write waiting = fill(file, accepted);
  Write first = begin(other, 0, 'f');
  EXPECT_TRUE(ended(first));
  Write second = begin(other, kPiece, 's');
  EXPECT_FALSE(ended(second));
  EXPECT_LE(dirty(), limits.unanswered() + 2 * kPiece);
  server->faults().release(stalled);
  for (Write* w : {&waiting, &first, &second}) EXPECT_EQ(errno_of(w->done.get()), 0);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(mount.close(other), 0);
  EXPECT_TRUE(server->read_file("/export/file") == pieces(std::string(accepted.size() + 1, 'a')));
  EXPECT_TRUE(server->read_file("/export/other") == pieces("fs"));
}

// The waiting writes need more memory than the buffers have. They block no other write, and make room for one
// another.
TEST_P(WriteRoom, MoreThatWaitThanThereIsMemory_AllArrive) {
  const auto file = mount.create("file");
  const size_t count = limits.buffers() / kPiece + 8;
  for (const bool stable : {false, true}) {
    direct = stable;
    const auto stalled = stall(OP_WRITE);
    std::vector<Write> writes;
    for (size_t i = 0; i < count; ++i) writes.push_back(begin(file, i * kPiece, stable ? 's' : 'u'));
    for (const Write& w : writes) ended(w);
    EXPECT_LE(dirty(), limits.unanswered() + GetParam() * kPiece) << "the latest of each loop";
    server->faults().release(stalled);
    for (Write& w : writes) EXPECT_EQ(errno_of(w.done.get()), 0);
    server->faults().remove(stalled);
    EXPECT_EQ(mount.fsync(file), 0);
    EXPECT_EQ(server->stat("/export/file")->size, count * kPiece);
  }
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_TRUE(server->read_file("/export/file") == pieces(std::string(count, 's')));
}

INSTANTIATE_TEST_SUITE_P(Loops, WriteRoom, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

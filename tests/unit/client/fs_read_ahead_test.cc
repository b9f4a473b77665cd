// SPDX-License-Identifier: Apache-2.0
// How far a mount reads ahead, and when it stops, while the server does not answer.
#include "tests/unit/client/support/data_cache_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
namespace fault = filer::fault;

class ReadAheadLoops : public DataCacheLoops {
 protected:
  static constexpr size_t kPiece = 64u << 10;

  size_t asked_ahead() {
    size_t count = 0;
    for (const auto& compound : server->journal())
      count += compound.has(OP_READ) && compound.has(OP_GETATTR) ? 1 : 0;
    return count;
  }
  // Starts reads in the order of the calls, on any number of loops: their data is in flight, and they wait
  // for it.
  std::future<Result<client::ReadReply>> start_reading(const client::OpenFileRef& file, uint64_t offset) {
    return start_on(mount->loops()[0], mount->fs().read(mount->user(), file, offset, kPiece));
  }
  // `count` reads of kRead each, from the `first` on.
  void read_unhurriedly(const client::OpenFileRef& file, uint64_t first, uint64_t count) {
    for (uint64_t at = first * kRead; at < (first + count) * kRead; at += kRead) {
      ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, 'a', at)) << at;
      wait_for_what_is_on_its_way();
    }
  }
  // READs of one piece each, and only few may be in flight.
  void mount_with_small_pieces_and_few_slots() {
    server->set_limits("/export", kPiece, 255);
    mount = make_mount(keep_data);
    server->set_target_slots(8);
    ASSERT_TRUE(mount->stat("file")) << "learns of them";
  }
};

// The first read predicts twice its length, which is more than the limit. (If the application itself keeps as
// much in flight, nothing is read ahead.)
TEST_P(ReadAheadLoops, WhatIsUnderWay_IsAtMostReadAheadKb) {
  for (const uint64_t most : {64u << 10, 256u << 10, 512u << 10, 1u << 20}) {
    SCOPED_TRACE(most);
    mount = make_mount([most](client::ClientOptions& o) {
      keep_data(o);
      o.read_ahead_bytes = most;
    });
    const auto rule = server->faults().add(read_ahead_reply().always(), fault::Stall{});
    const auto file = mount->open("file");
    ASSERT_EQ(*mount->read(file, 0, most / 4 * 3), content(most / 4 * 3));
    pass_every_connection();
    EXPECT_EQ(numbers().ahead_bytes, 0u) << "all of it is under way";
    EXPECT_EQ(numbers().data_bytes, most);
    server->faults().release(rule);
    wait_for_what_is_on_its_way();
    EXPECT_EQ(numbers().ahead_bytes, most) << "and no more until the application reads on";
    mount->close(file);
  }
}

// A seek cancels what the stream would have requested at the next opportunity.
TEST_P(ReadAheadLoops, AfterASeek_NothingMoreOfTheOldStreamIsAskedFor) {
  for (const bool seeks : {false, true}) {
    SCOPED_TRACE(seeks);
    mount_with_small_pieces_and_few_slots();
    server->clear_journal();
    const auto rule = server->faults().add(read_ahead_reply().always(), fault::Stall{});
    const auto file = mount->open("file");
    ASSERT_EQ(*mount->read(file, 0, kPiece), content(kPiece));
    auto second = start_reading(file, kPiece), third = start_reading(file, 2 * kPiece);
    pass_every_connection();
    const size_t under_way = asked_ahead();
    EXPECT_EQ(under_way, 4u) << "half of the slots";
    if (seeks) {
      EXPECT_EQ(*mount->read(file, 3 * kMiB + 5 * 4096, 4096), content(4096, 'a', 3 * kMiB + 5 * 4096));
    }
    server->faults().release(rule);
    EXPECT_TRUE(second.get() && third.get());
    wait_for_what_is_on_its_way();
    if (seeks) {
      EXPECT_EQ(asked_ahead(), under_way);
    } else {
      EXPECT_GT(asked_ahead(), under_way);
    }
    mount->close(file);
  }
}

// Read-ahead data is dropped with its version. It is then read ahead again, not by single READs.
TEST_P(ReadAheadLoops, WhatGoesWithAnotherVersion_IsReadAheadAgain) {
  const auto file = mount->open("file");
  read_unhurriedly(file, 0, 8);
  ASSERT_TRUE(change_behind_our_back());
  auto other_user = mount->user(1000, 1000);  // sends ACCESS, whose reply has attributes
  EXPECT_EQ(errno_of(mount->run(mount->fs().access(other_user, mount->node("file"), R_OK))), 0);
  mount->turn_every_loop();
  read_unhurriedly(file, 8, 2);
  const uint64_t hits = numbers().data_hit_bytes, refused = numbers().ahead_refused_bytes;
  read_unhurriedly(file, 10, 6);
  EXPECT_EQ(numbers().data_hit_bytes, hits + 6 * kRead);
  EXPECT_EQ(numbers().ahead_refused_bytes, refused);
  mount->close(file);
}

// Nothing is read ahead while the file is being written; it is read ahead afterwards.
TEST_P(ReadAheadLoops, WhatWasNotAskedForWhileWeWrote_IsAfterwards) {
  const auto file = mount->open("file", O_RDWR);
  EXPECT_EQ(mount->write(file, 4 * kMiB - 4096, content(4096, 'c')), 0);
  read_unhurriedly(file, 0, 4);
  EXPECT_EQ(mount->fsync(file), 0);
  mount->turn_every_loop();
  read_unhurriedly(file, 4, 1);
  const uint64_t hits = numbers().data_hit_bytes;
  read_unhurriedly(file, 5, 4);
  EXPECT_EQ(numbers().data_hit_bytes, hits + 4 * kRead);
  mount->close(file);
}

TEST_P(ReadAheadLoops, WhatThereWasNoRoomFor_IsReadAheadWhenThereIs) {
  std::atomic<uint64_t> available{64 * kMiB};
  mount = make_mount([&](client::ClientOptions& o) {
    keep_data(o);
    o.read_ahead_bytes = 8 * kMiB;
    o.memory = [&] { return Memory{64 * kMiB, available}; };
  });
  server->make_file("/export/big", content(16 * kMiB), 0666);
  const auto rule = server->faults().add(read_ahead_reply().always(), fault::Stall{});
  auto big = mount->open("big");
  ASSERT_TRUE(mount->read(big, 0, 4 * kMiB));
  ASSERT_TRUE(wait_for([](const auto& n) { return n.data_bytes > client::DataCache::kLeastRoom; }));
  available = 0;
  ASSERT_TRUE(wait_for([](const auto& n) { return n.data_limit_bytes == client::DataCache::kLeastRoom; }));
  auto file = mount->open("file");
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(mount->read(file, i * kRead, kRead));
  EXPECT_EQ(numbers().data_hits, 0u);
  server->faults().release(rule);
  wait_for_what_is_on_its_way();
  read_unhurriedly(file, 4, 1);
  const uint64_t hits = numbers().data_hit_bytes;
  read_unhurriedly(file, 5, 4);
  EXPECT_EQ(numbers().data_hit_bytes, hits + 4 * kRead);
  mount->close(std::move(file));
  mount->close(std::move(big));
  mount.reset();
}

// Many concurrent readers, of one file or of several, do not evict each other's read-ahead.
TEST_P(ReadAheadLoops, ManyDescriptors_LeaveEachOtherWhatTheyReadAhead) {
  constexpr uint64_t kReaders = 12, kEach = 2 * kMiB;
  for (uint64_t i = 0; i < kReaders; ++i)
    server->make_file("/export/f" + std::to_string(i), content(kEach), 0666);
  server->make_file("/export/all", content(kReaders * kEach), 0666);
  for (const bool one_file : {false, true}) {
    SCOPED_TRACE(one_file);
    mount = make_mount([](client::ClientOptions& o) {
      keep_data(o);
      o.cache_bytes = 4 * kMiB;
    });
    std::vector<client::OpenFileRef> files;
    for (uint64_t i = 0; i < kReaders; ++i)
      files.push_back(mount->open(one_file ? "all" : "f" + std::to_string(i)));
    for (uint64_t at = 0; at < kEach; at += kRead) {
      for (uint64_t i = 0; i < kReaders; ++i) {
        const uint64_t from = one_file ? i * kEach : 0;
        ASSERT_EQ(*mount->read(files[i], from + at, kRead), content(kRead, 'a', from + at));
      }
      wait_for_what_is_on_its_way();
    }
    EXPECT_EQ(numbers().ahead_wasted_bytes, 0u);
    EXPECT_GE(numbers().data_hit_bytes, kReaders * kEach / 4 * 3) << "and much of it was read ahead";
    for (auto& file : files) mount->close(std::move(file));
  }
}

// Section 16.2.3: the COMPOUND's status is "the value of the status of the last operation executed". The READ
// before it succeeded, but the whole COMPOUND is repeated.
TEST_P(ReadAheadLoops, DelayBehindTheData_IsNoDefectOfTheReply) {
  const auto rule =
      server->faults().add(read_ahead_request().times(2), fault::Answer{OP_GETATTR, NFS4ERR_DELAY});
  const auto file = open_with_data_ahead();
  EXPECT_TRUE(server->faults().wait_fired(rule, 2));
  EXPECT_EQ(*mount->read(file, kKept, kRead), content(kRead, 'a', kKept));
  for (const auto& connection : mount->fs().statistics().transports) EXPECT_EQ(connection.bad_messages, 0u);
  mount->close(file);
}

// RFC 8166 section 3.3.1: "A Requester MUST NOT send unacknowledged requests in excess of the Responder's
// granted credit limit." Read-ahead takes at most half of the granted credits on each connection, so
// application requests do not wait behind it.
class ReadAheadOverRdma : public testing::TestWithParam<unsigned> {
 protected:
  static filer::nfs::Options with_rdma() {
    filer::nfs::Options options;
    options.rdma.listen = true;
    options.rdma.devices = false;
    return options;
  }
  std::unique_ptr<filer::Server> server = start_filer(with_rdma());
};

TEST_P(ReadAheadOverRdma, OfAServerThatGrantsFewCredits_LeavesHalfOfThem) {
  constexpr size_t kPiece = 64u << 10;
  constexpr uint32_t kGranted = 6, kAhead = 2;  // one is reserved for lease renewal
  server->make_file("/export/file", content(4 * kMiB), 0666);
  server->set_limits("/export", kPiece, 255);
  server->faults().add(filer::on::reply_to(OP_SEQUENCE).always(), fault::Credits{kGranted});
  TestMount mount(*server, {.loops = GetParam(), .options = [&](client::ClientOptions& o) {
                              keep_data(o);
                              o.transport = client::TransportKind::kSoftwareRdma;
                              o.port = server->rdma_port();
                            }});
  auto ask_on_every_connection = [&, asked = 0]() mutable {
    // One after the other: what the first loop started on the other loops is sent before these lookups.
    for (unsigned i = 0; i < GetParam(); ++i) {
      auto asking = mount.fs().lookup(mount.user(), mount.root(), "absent " + std::to_string(asked++));
      const auto answer = start_on(mount.loops()[i], std::move(asking));
      ASSERT_EQ(answer.wait_for(std::chrono::seconds(20)), std::future_status::ready)
          << "waits behind what is read ahead";
    }
  };
  ask_on_every_connection();  // now each connection has its grant
  ASSERT_TRUE(mount.stat("file"));
  const auto rule = server->faults().add(read_ahead_reply().always(), fault::Stall{});
  const auto file = mount.open("file");
  EXPECT_EQ(*mount.read(file, 0, kPiece), content(kPiece));
  std::vector<std::future<Result<client::ReadReply>>> reads;
  for (uint64_t i = 1; i < 4; ++i) {
    auto reading = mount.fs().read(mount.user(), file, i * kPiece, kPiece);
    reads.push_back(start_on(mount.loops()[0], std::move(reading)));
  }
  ask_on_every_connection();
  size_t ahead = 0;
  for (const auto& compound : server->journal())
    ahead += compound.has(OP_READ) && compound.has(OP_GETATTR) ? 1 : 0;
  EXPECT_EQ(ahead, kAhead * GetParam());
  server->faults().release(rule);
  for (auto& read : reads) EXPECT_TRUE(read.get());
  mount.close(file);
}

INSTANTIATE_TEST_SUITE_P(Loops, ReadAheadOverRdma, testing::Values(1u, 4u));
INSTANTIATE_TEST_SUITE_P(Loops, ReadAheadLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

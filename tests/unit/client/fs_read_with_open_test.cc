// SPDX-License-Identifier: Apache-2.0
// Small files are read in the COMPOUND that opens them (RFC 8881 section 16.2.3.1.2, "the current stateid").
#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using filer::fault::Answer;
using filer::fault::Cut;
using filer::fault::Mangle;
namespace on = filer::on;

class ReadWithOpen : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    server = start_filer();
    server->make_file("/export/file", "content", 0666);
    make_mount(16u << 20);
  }
  void make_mount(uint64_t cache_bytes) {
    mount.reset();
    mount = std::make_unique<TestMount>(
        *server, TestMount::Settings{.loops = GetParam(), .options = [=](client::ClientOptions& o) {
                                       o.cache_bytes = cache_bytes;
                                       o.read_ahead_bytes = 1u << 20;
                                     }});
  }
  uint64_t reads() { return server->executed(OP_READ).executed; }
  // Opens and reads the file. Returns its content, and the number of READs.
  std::string use(const char* path, uint64_t* with_open = nullptr) {
    const uint64_t before = reads();
    const auto file = mount->open(path);
    if (with_open != nullptr) *with_open = reads() - before;
    std::string text = mount->read(file).value_or("error");
    EXPECT_EQ(mount->close(file), 0);
    return text;
  }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
};

TEST_P(ReadWithOpen, OneRequestBringsASmallFile) {
  ASSERT_TRUE(mount->lookup("file"));
  const auto file = mount->open("file");
  ASSERT_EQ(reads(), 1u);
  for (const filer::nfs::ExecutedCompound& c : server->journal()) {
    if (c.has(OP_READ)) {
      EXPECT_TRUE(c.has(OP_OPEN));
    }
  }
  EXPECT_EQ(mount->read(file).value_or("error"), "content");
  EXPECT_EQ(*mount->read(file, 3, 4), "tent");
  EXPECT_EQ(reads(), 1u);
  EXPECT_EQ(mount->close(file), 0);
}

// If a server's change attribute comes from a clock, two changes within a tick look the same. A write here
// between the READ and its reply must be detected without it.
TEST_P(ReadWithOpen, WrittenHereMeanwhile_IsNotKept_WhateverTheChangeAttributeSays) {
  server->faults().add(on::any_request(), filer::fault::TellChange{filer::tree::ChangeTold::kFrozen});
  const client::NodeRef node = mount->node("file");
  for (const bool truncation : {false, true}) {
    const auto writer = mount->open("file", O_RDWR);
    ASSERT_EQ(mount->write(writer, 0, "content"), 0);
    ASSERT_EQ(mount->fsync(writer), 0);
    const uint64_t before = reads();
    const auto stalled = server->faults().add(on::reply_to(OP_READ), filer::fault::Stall{});
    auto opening = mount->start(mount->fs().open(mount->user(), node, O_RDONLY));
    const bool read = server->wait_until(
        [&](filer::nfs::Core& core) { return core.journal.count(OP_READ).executed == before + 1; });
    if (truncation) {
      client::SetAttributes set;
      set.size = 3;
      EXPECT_TRUE(mount->run(mount->fs().setattr(mount->user(), node, set, writer)));
    } else {
      EXPECT_EQ(mount->write(writer, 0, "CONTENT"), 0);
      EXPECT_EQ(mount->fsync(writer), 0);
    }
    server->faults().release(stalled);
    const auto reader = opening.get();
    ASSERT_TRUE(read && reader);
    EXPECT_EQ(mount->read(reader->file).value_or("error"), truncation ? "con" : "CONTENT");
    EXPECT_EQ(mount->close(reader->file), 0);
    EXPECT_EQ(mount->close(writer), 0);
  }
}

TEST_P(ReadWithOpen, OfEverySizeAroundTheLimit) {
  for (const size_t size : {1u, 4095u, 4096u, 4097u, 65535u, 65536u, 65537u}) {
    std::string content(size, 'x');
    content.back() = 'y';
    const std::string name = "file" + std::to_string(size);
    server->make_file("/export/" + name, content, 0666);
    uint64_t with_open = 0;
    EXPECT_EQ(use(name.c_str(), &with_open), content.substr(0, 1 << 16));
    EXPECT_EQ(with_open, size <= 65536 ? 1u : 0u) << size;
  }
}

TEST_P(ReadWithOpen, WhatTheKernelHas_IsNotReadAgain) {
  EXPECT_EQ(use("file"), "content");
  uint64_t with_open = 9;
  EXPECT_EQ(use("file", &with_open), "content");
  EXPECT_EQ(with_open, 0u);
}

// The kernel keeps whole pages that it got in a write, and no others.
TEST_P(ReadWithOpen, WhatWasWrittenHere_IsReadIfItIsPartsOfPages) {
  EXPECT_EQ(mount->write_file("pages", std::string(8192, 'x')), 0);
  uint64_t with_open = 9;
  use("pages", &with_open);
  EXPECT_EQ(with_open, 0u);
  EXPECT_EQ(mount->write_file("parts", "some bytes"), 0);
  EXPECT_EQ(use("parts", &with_open), "some bytes");
  EXPECT_EQ(with_open, 1u);
  use("parts", &with_open);
  EXPECT_EQ(with_open, 0u) << "now the kernel has it";
}

TEST_P(ReadWithOpen, AnotherClientsChange_IsSeen) {
  EXPECT_EQ(use("file"), "content");
  server->write_file("/export/file", 0, "CONTENT");
  EXPECT_EQ(use("file"), "CONTENT");
  server->write_file("/export/file", 0, "longer than before");
  EXPECT_EQ(use("file"), "longer than before");
}

// The last operation of the COMPOUND shows that the file was the same before and after the READ.
TEST_P(ReadWithOpen, AChangeInTheMiddle_IsNotKept) {
  ASSERT_TRUE(mount->lookup("file"));
  server->faults().add(on::reply_to(OP_OPEN).nth(1),
                       Mangle{[](ByteVector& reply) { reply.back() ^= std::byte{1}; }});
  const auto file = mount->open("file");
  EXPECT_EQ(reads(), 1u);
  EXPECT_EQ(mount->read(file).value_or("error"), "content");
  EXPECT_EQ(reads(), 2u);
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(ReadWithOpen, AServerWithoutTheCurrentStateid_IsAskedOnce) {
  server->make_file("/export/another", "another", 0666);
  server->faults().add(on::request_with(OP_OPEN).nth(1), Answer{OP_READ, NFS4ERR_BAD_STATEID});
  EXPECT_EQ(use("file"), "content");
  uint64_t with_open = 9;
  EXPECT_EQ(use("another", &with_open), "another");
  EXPECT_EQ(with_open, 0u);
}

// READ says that the file is empty, and the change attribute is the same as before: no cached data stays.
TEST_P(ReadWithOpen, NothingComes_WhateverTheChangeAttributeSays) {
  server->faults().add(on::any_request().always(),
                       filer::fault::TellChange{filer::tree::ChangeTold::kFrozen});
  server->make_file("/export/long", std::string(60000, 'x'), 0666);
  const auto reader = mount->open("long");
  EXPECT_EQ(mount->read(reader, 0, 100).value_or("error"), std::string(100, 'x'));
  const auto writer = mount->open("long", O_RDWR);
  ASSERT_EQ(mount->write(writer, 5000, std::string(100, 'y')), 0);
  ASSERT_EQ(mount->fsync(writer), 0);
  ASSERT_GT(mount->fs().statistics().cache.data_bytes, 0u) << "but for a page";
  TestMount other(*server);
  client::SetAttributes set;
  set.size = 0;
  ASSERT_TRUE(other.run(other.fs().setattr(other.user(), other.node("long"), set, nullptr)));
  const uint64_t before = reads();
  const auto again = mount->open("long");
  EXPECT_EQ(reads(), before + 1) << "it has come with the OPEN";
  EXPECT_EQ(mount->fs().statistics().cache.data_bytes, 0u);
  EXPECT_EQ(mount->close(again), 0);
  EXPECT_EQ(mount->close(writer), 0);
  EXPECT_EQ(mount->close(reader), 0);
}

TEST_P(ReadWithOpen, AReadThatFails_IsTheReadersToHear) {
  server->make_file("/export/another", "another", 0666);
  ASSERT_TRUE(mount->lookup("file"));
  server->faults().add(on::request_with(OP_OPEN).nth(1), Answer{OP_READ, NFS4ERR_IO});
  const auto file = mount->open("file");
  EXPECT_EQ(mount->read(file).value_or("error"), "content");
  EXPECT_EQ(mount->close(file), 0);
  uint64_t with_open = 0;
  EXPECT_EQ(use("another", &with_open), "another");
  EXPECT_EQ(with_open, 1u);
}

// Section 2.10.6.1.3: the server need not cache a reply with data (sa_cachethis is false), so the OPEN is
// executed again.
TEST_P(ReadWithOpen, ReplyLostWithTheConnection_LeavesOneOpen) {
  ASSERT_TRUE(mount->lookup("file"));
  server->faults().add(on::reply_to(OP_OPEN).nth(1), Cut{});
  EXPECT_EQ(use("file"), "content");
  EXPECT_TRUE(live_states(*server, filer::state::StateKind::kOpen).empty());
}

// The lost reply granted a delegation that the client does not know. It is returned when the server recalls
// it.
TEST_P(ReadWithOpen, DelegationOfALostReply_IsReturnedWhenItIsRecalled) {
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  ASSERT_TRUE(mount->lookup("file"));
  server->faults().add(on::reply_to(OP_OPEN).nth(1), Cut{});
  const auto file = mount->open("file");
  ASSERT_EQ(live_states(*server, filer::state::StateKind::kDelegation).size(), 1u);
  ASSERT_EQ(mount->fs().statistics().delegations.held_read, 0u);
  TestMount other(*server);
  const auto theirs = other.open("file", O_RDWR);
  EXPECT_EQ(mount->fs().statistics().delegations.revoked, 0u);
  EXPECT_EQ(other.close(theirs), 0);
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(ReadWithOpen, NotToBeWritten_NorWithoutACache) {
  ASSERT_TRUE(mount->lookup("file"));
  for (const int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_DIRECT}) {
    EXPECT_EQ(mount->close(mount->open("file", flags)), 0);
    EXPECT_EQ(reads(), 0u) << flags;
  }
  make_mount(0);
  uint64_t with_open = 9;
  EXPECT_EQ(use("file", &with_open), "content");
  EXPECT_EQ(with_open, 0u);
}

TEST_P(ReadWithOpen, FilesThatNobodyReads_AreOpenedWithout) {
  for (int i = 0; i < 96; ++i) server->make_file("/export/f" + std::to_string(i), "text", 0666);
  for (int i = 0; i < 96; ++i) EXPECT_EQ(mount->close(mount->open("f" + std::to_string(i))), 0);
  EXPECT_LE(reads(), 32u + 64u / 16u);
  uint64_t with_open = 0;
  for (int i = 0; i < 18; ++i) server->make_file("/export/g" + std::to_string(i), "text", 0666);
  int next = 0;
  while (next < 16 && with_open == 0) use(("g" + std::to_string(next++)).c_str(), &with_open);
  EXPECT_EQ(with_open, 1u) << "now and then it is tried again";
  use(("g" + std::to_string(next)).c_str(), &with_open);
  EXPECT_EQ(with_open, 1u) << "and where it was read, gone on with";
}

TEST_P(ReadWithOpen, UnderADelegation_ToTheSameRules) {
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kRead; });
  uint64_t with_open = 0;
  EXPECT_EQ(use("file", &with_open), "content");
  EXPECT_EQ(with_open, 1u);
  EXPECT_EQ(live_states(*server, filer::state::StateKind::kDelegation).size(), 1u);
}

// The data before the error is not the end of the file.
TEST_P(ReadWithOpen, APartOfALargeReadThatFails_FailsIt) {
  const std::string text(1u << 20, 'x');  // two READs
  server->make_file("/export/large", text, 0666);
  make_mount(0);
  const auto file = mount->open("large");
  for (const unsigned part : {1u, 2u}) {
    server->faults().add(on::request_with(OP_READ).nth(part), Answer{OP_READ, NFS4ERR_IO});
    const auto failed = mount->read(file, 0, text.size());
    ASSERT_FALSE(failed) << "part " << part << ": " << failed->size() << " bytes";
    EXPECT_EQ(failed.error().errnum, EIO);
    EXPECT_EQ(*mount->read(file, 0, text.size()), text);
  }
  EXPECT_EQ(mount->close(file), 0);
}

INSTANTIATE_TEST_SUITE_P(Loops, ReadWithOpen, testing::Values(1, 4));

}  // namespace
}  // namespace nfsrdma::test

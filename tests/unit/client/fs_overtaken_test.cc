// SPDX-License-Identifier: Apache-2.0
// Replies from before our change that arrive after its reply. Their file size must not reach the kernel: it
// would truncate its pages there and write only the rest.
//
// A WRITE over RDMA waits in the server for its data, so later requests overtake it. Replies on several
// connections have no order. Change attributes show which reply is older only if they grow (RFC 8881 section
// 5.8.1.4) and move with each change.

#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
namespace fault = filer::fault;
namespace on = filer::on;
using filer::tree::ChangeTold;

constexpr uint64_t kBefore = 1237, kPlace = 5000, kAfter = kPlace + 100'000;

class Overtaken : public testing::TestWithParam<std::tuple<ChangeTold, unsigned>> {
 protected:
  void SetUp() override {
    server->make_file("/export/file", std::string(kBefore, 'x'), 0666);
    server->faults().add(on::any_request(), fault::TellChange{std::get<0>(GetParam())});
    mount = std::make_unique<TestMount>(
        *server,
        TestMount::Settings{.loops = std::get<1>(GetParam()), .options = [](client::ClientOptions& o) {
                              o.lookupcache = client::LookupCache::kNone;  // each name is looked up
                            }});
    node = mount->node("file");
    file = mount->open("file", O_RDWR);
  }
  void TearDown() override {
    server->faults().release_all();
    EXPECT_EQ(mount->close(std::move(file)), 0);
    node.reset();
  }
  // Makes the file longer by a WRITE that the server executes when the test releases it.
  void write_further_out() {
    writing = server->faults().add(on::request_with(OP_WRITE), fault::Stall{});
    ASSERT_EQ(mount->write(file, kPlace, std::string(kAfter - kPlace, 'y')), 0);
    ASSERT_TRUE(server->faults().wait_fired(writing));
  }
  void let_it_be_executed() {
    server->faults().release(writing);
    EXPECT_TRUE(eventually([this] { return mount->fs().statistics().cache.dirty_bytes == 0; }));
  }

  std::unique_ptr<filer::Server> server = start_filer();
  std::unique_ptr<TestMount> mount;
  client::NodeRef node;
  client::OpenFileRef file;
  filer::FaultPlan::RuleId writing = 0;
};

// For the kernel a short reply means the end of the file.
TEST_P(Overtaken, Read_DoesNotEndWhereTheFileDidBefore) {
  const auto reading = server->faults().add(on::reply_to(OP_READ), fault::Stall{});
  write_further_out();
  auto read = mount->start(mount->fs().read(mount->user(), file, 0, 4096));
  ASSERT_TRUE(server->faults().wait_fired(reading));
  let_it_be_executed();
  server->faults().release(reading);
  EXPECT_EQ(read.get()->size, 4096u);
}

TEST_P(Overtaken, Lookup_DoesNotTellTheSizeOfBefore) {
  const auto looking = server->faults().add(on::reply_to(OP_LOOKUP), fault::Stall{});
  write_further_out();
  auto lookup = mount->start(mount->fs().lookup(mount->user(), mount->root(), "file"));
  ASSERT_TRUE(server->faults().wait_fired(looking));
  let_it_be_executed();
  server->faults().release(looking);
  EXPECT_EQ(lookup.get()->attributes.size, kAfter);
}

TEST_P(Overtaken, Listing_DoesNotTellTheSizeOfBefore) {
  write_further_out();
  const auto directory = mount->run(mount->fs().opendir(mount->user(), mount->root()));
  ASSERT_TRUE(directory);
  let_it_be_executed();
  const auto page = mount->run(mount->fs().readdir(mount->user(), directory->directory, 0, 4096, true));
  ASSERT_TRUE(page);
  for (const client::DirectoryEntry& e : page->entries) {
    if (e.entry && e.name == "file") {
      EXPECT_EQ(e.entry->attributes.size, kAfter);
    }
  }
  mount->run(mount->fs().releasedir(directory->directory));
  EXPECT_EQ(mount->stat("file")->size, kAfter);
}

// The reverse: the reply to a request that was sent later and executed earlier.
TEST_P(Overtaken, Truncation_TellsTheSizeThatItHasSet) {
  const auto setting = server->faults().add(on::request_with(OP_SETATTR), fault::Stall{});
  client::SetAttributes set;
  set.size = 10;
  auto truncation = mount->start(mount->fs().setattr(mount->user(), node, set, file));
  ASSERT_TRUE(server->faults().wait_fired(setting));
  auto other_user = mount->user(1000, 1000);  // sends ACCESS, whose reply has attributes
  EXPECT_EQ(errno_of(mount->run(mount->fs().access(other_user, node, R_OK))), 0);
  server->faults().release(setting);
  EXPECT_EQ(truncation.get()->attributes.size, 10u);
  EXPECT_EQ(mount->stat("file")->size, 10u);
}

INSTANTIATE_TEST_SUITE_P(Changes, Overtaken,
                         testing::Combine(testing::Values(ChangeTold::kTrue, ChangeTold::kFrozen,
                                                          ChangeTold::kRestless, ChangeTold::kBackwards),
                                          testing::Values(1u, 4u)));

}  // namespace
}  // namespace nfsrdma::test

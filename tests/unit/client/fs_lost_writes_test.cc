// SPDX-License-Identifier: Apache-2.0
// Unstable writes that a server restart lost, and read-ahead before they are written again (RFC 8881 section
// 18.32.3).
#include "tests/unit/client/support/data_cache_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
namespace on = filer::on;
namespace fault = filer::fault;

class LostWrites : public DataCacheLoops {
 protected:
  static constexpr uint64_t kFrom = kMiB, kTo = 4 * kMiB;

  // Reads `reads` pieces in order, which starts read-ahead.
  void read_in_order(const client::OpenFileRef& file, uint64_t reads) {
    for (uint64_t i = 0; i < reads; ++i) {
      ASSERT_EQ(*mount->read(file, i * kRead, kRead), content(kRead, 'a', i * kRead));
      wait_for_what_is_on_its_way();
    }
  }
  void write_and_leave_uncommitted(const client::OpenFileRef& file, uint64_t from, uint64_t to) {
    for (uint64_t at = from; at < to; at += kRead)
      ASSERT_EQ(mount->write(file, at, content(kRead, 'b', at)), 0);
    ASSERT_TRUE(wait_for([](const auto& n) { return n.dirty_bytes == 0 && n.uncommitted_bytes != 0; }));
  }
  void expect_written(const client::OpenFileRef& file, uint64_t from, uint64_t to) {
    ASSERT_TRUE(wait_for([](const auto& n) { return n.dirty_bytes == 0 && n.uncommitted_bytes == 0; }));
    for (uint64_t at = from; at < to; at += kRead) {
      EXPECT_EQ(server->read_file("/export/file")->substr(at, kRead), content(kRead, 'b', at)) << at;
      EXPECT_EQ(*mount->read(file, at, kRead), content(kRead, 'b', at)) << at;
    }
  }
};

TEST_P(LostWrites, ReadAheadBeforeTheyAreBack_IsNotKeptUnderADelegation) {
  const std::string other = content(kRead, 'o');
  server->make_file("/export/other", other, 0666);
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  mount = make_mount([](client::ClientOptions& o) {
    keep_data(o);
    o.read_ahead_bytes = 2 * kMiB;
    o.rsize = 128 * 1024;
  });
  server->set_target_slots(4);
  ASSERT_EQ(mount->mkdir("learns"), 0);
  const auto beside = mount->open("other", O_RDONLY), file = mount->open("file", O_RDWR);
  write_and_leave_uncommitted(file, kFrom, kTo);
  read_in_order(file, 3);
  const auto commit = server->faults().add(on::request_with(OP_COMMIT), fault::Stall{});
  const auto second = server->faults().add(read_ahead_request().nth(2), fault::Stall{});
  const auto third = server->faults().add(read_ahead_request().nth(3), fault::Stall{});
  const auto restart = server->faults().add(read_ahead_request(), fault::Restart{});
  ASSERT_EQ(*mount->read(file, 3 * kRead, kRead), content(kRead, 'a', 3 * kRead));
  ASSERT_TRUE(server->faults().wait_fired(restart));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(mount->read(beside, 0, kRead).value_or("error"), other);
  ASSERT_TRUE(server->faults().wait_fired(commit));
  ASSERT_TRUE(server->faults().wait_fired(second));
  ASSERT_TRUE(server->faults().wait_fired(third));
  const uint64_t refused = numbers().ahead_refused_bytes;
  server->faults().release(second);
  ASSERT_TRUE(wait_for([&](const auto& n) { return n.ahead_refused_bytes > refused; }));
  mount->turn_every_loop();
  EXPECT_TRUE(mount->stat("file"));
  mount->turn_every_loop();
  server->faults().release(third);
  wait_for_what_is_on_its_way(1);  // the COMMIT
  server->faults().release(commit);
  expect_written(file, kFrom, kTo);
  mount->close(file);
  mount->close(beside);
}

// The change attribute does not show the loss.
TEST_P(LostWrites, ReadAheadBeforeTheyAreBack_IsNotKeptWhereNothingTells) {
  constexpr uint64_t kWritten = 1152 * 1024;
  const std::string other = content(kRead, 'o');
  server->make_file("/export/other", other, 0666);
  server->configure([](filer::nfs::Switches& s) { s.change_told = filer::tree::ChangeTold::kFrozen; });
  mount = make_mount(keep_data);
  server->set_target_slots(4);
  ASSERT_EQ(mount->mkdir("learns"), 0);
  const auto beside = mount->open("other", O_RDONLY), file = mount->open("file", O_RDWR);
  write_and_leave_uncommitted(file, kWritten, kWritten + kRead);
  read_in_order(file, 2);
  const auto commit = server->faults().add(on::request_with(OP_COMMIT), fault::Stall{});
  const auto held = server->faults().add(read_ahead_request().nth(2).times(2), fault::Stall{});
  const auto restart = server->faults().add(read_ahead_request(), fault::Restart{});
  ASSERT_EQ(*mount->read(file, 2 * kRead, kRead), content(kRead, 'a', 2 * kRead));
  ASSERT_TRUE(server->faults().wait_fired(restart));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(mount->read(beside, 0, kRead).value_or("error"), other);
  ASSERT_TRUE(server->faults().wait_fired(commit));
  ASSERT_TRUE(server->faults().wait_fired(held, 2));
  server->faults().release(held);
  wait_for_what_is_on_its_way(1);  // the COMMIT
  server->faults().release(commit);
  expect_written(file, kWritten, kWritten + kRead);
  mount->close(file);
  mount->close(beside);
}

INSTANTIATE_TEST_SUITE_P(Each, LostWrites, testing::Values(1u, 3u));

}  // namespace
}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// Clients with expired leases, and the grace period (RFC 8881 sections 8.3, 8.4).

#include "tests/unit/filer/two_clients.h"

namespace nfsrdma::filer::test {
namespace {

using std::chrono::seconds;

class LeasesTest : public TwoClientsTest {
 protected:
  static nfsstat4 truncate(RawClient& client) {
    SETATTR4args args;
    args.obj_attributes.attrmask.set(FATTR4_SIZE);
    return client.run_at("/export/f", ops(args)).status;
  }
};

// The deny bits of an expired client yield to another client's remove or truncate (Expiry::kCourtesy).
TEST_F(LeasesTest, DenialsOfExpiredClients_YieldToRemovalAndTruncation) {
  server->configure([](nfs::Switches& s) { s.expiry = nfs::Expiry::kCourtesy; });
  one->open("/export/f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE);
  one->open("/export/g", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE);
  EXPECT_EQ(truncate(*two), NFS4ERR_LOCKED);
  EXPECT_EQ(two->run_at("/export", ops(REMOVE4args{"g"})).status, NFS4ERR_FILE_OPEN);
  server->advance_clock(seconds(60));
  two->run({});
  server->advance_clock(seconds(60));
  EXPECT_EQ(truncate(*two), NFS4_OK);
  EXPECT_EQ(two->run_at("/export", ops(REMOVE4args{"g"})).status, NFS4_OK);
}

TEST_F(LeasesTest, ExpiredClients_AreForgottenAfterADay) {
  server->configure([](nfs::Switches& s) { s.expiry = nfs::Expiry::kCourtesy; });
  one->open("/export/f");
  server->advance_clock(std::chrono::hours(24));
  EXPECT_EQ(one->run({}).status, NFS4_OK) << "it comes back, and has what nobody wanted";
  EXPECT_EQ(server->states().size(), 1u);
  server->advance_clock(std::chrono::hours(24) + seconds(91));
  EXPECT_EQ(one->run({}).status, NFS4ERR_BADSESSION);
  EXPECT_TRUE(server->states().empty());
}

// A client that lost state to another client may not reclaim after a restart of the process, because it would
// take that state back (the second edge condition of section 8.4.3).
TEST_F(LeasesTest, WhoLostSomething_MayNotReclaimInTheNextRun) {
  server->configure([](nfs::Switches& s) { s.expiry = nfs::Expiry::kCourtesy; });
  one->open("/export/f", OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_DENY_BOTH);
  one->open("/export/g");
  const auto may_reclaim = [&](const char* owner) {
    bool may = false;
    server->with_core([&](nfs::Core& core) { may = core.recovery.reclaimers(core.clients).contains(owner); });
    return may;
  };
  server->advance_clock(seconds(60));
  two->run({});
  server->advance_clock(seconds(60));
  EXPECT_TRUE(may_reclaim("one")) << "nothing was taken away";
  two->open("/export/f");
  EXPECT_FALSE(may_reclaim("one"));
  EXPECT_TRUE(may_reclaim("two"));
}

// "Some additional time in order to allow a client to ... effect lock reclaims may be added" (section
// 8.4.2.1): the grace period is extended while a client reclaims, but not without end.
TEST_F(LeasesTest, Grace_WaitsForWhoIsReclaiming) {
  std::vector<nfs_fh4> files;
  for (unsigned i = 0; i < 6; ++i) {
    const std::string name = "r" + std::to_string(i);
    server->make_file("/export/" + name, "x", 0666);
    one->open("/export/" + name);
    files.push_back(one->handle_of("/export/" + name));
  }
  server->restart();
  server->advance_clock(std::chrono::milliseconds(88'500));
  one->reconnect();
  ASSERT_TRUE(one->establish(false));
  OPEN4args reclaim = one->open_args("");
  reclaim.claim.claim = CLAIM_PREVIOUS;
  for (const nfs_fh4& file : files) {
    EXPECT_EQ(one->run(ops(PUTFH4args{file}, reclaim)).status, NFS4_OK);
    server->advance_clock(std::chrono::milliseconds(700));
  }
  EXPECT_TRUE(server->in_grace());
  server->advance_clock(seconds(1));
  EXPECT_FALSE(server->in_grace()) << "nobody reclaimed for a second";
}

}  // namespace
}  // namespace nfsrdma::filer::test

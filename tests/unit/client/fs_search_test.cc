// SPDX-License-Identifier: Apache-2.0
// Search permission on a mount for several users (RFC 8881 sections 6.2.1, 18.1.4). The kernel follows a
// cached name without a check, so it may cache only names that everybody may search for.
#include <algorithm>

#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
namespace on = filer::on;

constexpr uint32_t kAlice = 1000, kBob = 1001;

nfsace4 entry(ace_type type, const std::string& who, uint32_t flags = 0) {
  return {type, flags, ACE4_READ_DATA | ACE4_EXECUTE, who};
}

class SearchRights : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    server = start_filer();
    server->configure([](filer::nfs::Switches& s) { s.shows_acls = true; });
    server->make_directory("/export/d", 0777);
    server->make_file("/export/d/a", "content");
    mount = std::make_unique<TestMount>(
        *server, TestMount::Settings{.loops = GetParam(), .options = [](client::ClientOptions& o) {
                                       o.many_users = true;
                                       o.acregmin = o.acregmax = o.acdirmin = o.acdirmax =
                                           std::chrono::hours(1);
                                     }});
    directory = mount->node("d");
  }
  void shut_out_bob() {
    server->set_acl("/export/d", {entry(ACE4_ACCESS_DENIED_ACE_TYPE, std::to_string(kBob)),
                                  entry(ACE4_ACCESS_ALLOWED_ACE_TYPE, "EVERYONE@")});
  }
  Result<client::Entry> lookup_as(uint32_t uid, const std::string& name) {
    auto entry = mount->run(mount->fs().lookup(mount->user(uid, uid), directory, name));
    if (entry) known.push_back(entry->node);
    return entry;
  }
  bool kernel_may_keep(const std::string& name = "a") {
    const auto entry = lookup_as(kAlice, name);
    EXPECT_TRUE(entry);
    return entry && entry->entry_ttl > Duration::zero();
  }
  // Enough lookups that a request for the ACL is worthwhile.
  void walk() {
    for (int i = 0; i < 20; ++i) lookup_as(kAlice, "a");
  }
  // Counts requests for the ACL, or for attributes that have expired.
  uint64_t asked() {
    const auto journal = server->journal();
    return static_cast<uint64_t>(std::count_if(journal.begin(), journal.end(), [](const auto& c) {
      return c.ops.size() == 3 && c.ops.back().op == OP_GETATTR;
    }));
  }
  void expect_lent() {
    walk();
    EXPECT_TRUE(eventually([&] { return kernel_may_keep(); }));
  }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
  client::NodeRef directory;
  std::vector<client::NodeRef> known;  // nodes that the kernel knows
};

// "In general, it is not sufficient for the client to attempt to deduce access permissions by inspecting the
// uid, gid, and mode fields in the file attributes or by attempting to interpret the contents of the ACL
// attribute." (section 18.1.4)
TEST_P(SearchRights, WhomOnlyTheAclShutsOut_FindsNothing) {
  shut_out_bob();
  ASSERT_TRUE(lookup_as(kAlice, "a"));
  EXPECT_FALSE(kernel_may_keep()) << "the kernel would let Bob follow it";
  EXPECT_EQ(errno_of(lookup_as(kBob, "a")), EACCES) << "what Alice has learnt is not his";
  EXPECT_TRUE(lookup_as(kAlice, "a"));
}

TEST_P(SearchRights, AServerThatShowsNoAcls_MayObeyThem) {
  server->configure([](filer::nfs::Switches& s) { s.shows_acls = false; });
  shut_out_bob();
  walk();
  EXPECT_TRUE(eventually([&] { return asked() > 0; }));
  EXPECT_FALSE(kernel_may_keep());
  EXPECT_EQ(errno_of(lookup_as(kBob, "a")), EACCES);
}

// server_acls=none: the administrator says that nothing on the server has an ACL.
TEST_P(SearchRights, WhereModesSayEverything_TheKernelKeepsWhatEverybodyMayFollow) {
  server->configure([](filer::nfs::Switches& s) { s.shows_acls = false; });
  server->make_directory("/export/closed", 0750);
  server->make_file("/export/closed/a", "content");
  known.clear();
  directory = {};
  mount =
      std::make_unique<TestMount>(*server, TestMount::Settings{.loops = GetParam(), .options = [](auto& o) {
                                                                 o.many_users = true;
                                                                 o.server_acls = false;
                                                               }});
  directory = mount->node("d");
  server->clear_journal();
  EXPECT_TRUE(kernel_may_keep());
  EXPECT_EQ(asked(), 0u);
  directory = mount->node("closed");
  const auto entry = lookup_as(0, "a");
  ASSERT_TRUE(entry) << describe(entry.error());
  EXPECT_EQ(entry->entry_ttl, Duration::zero()) << "of a directory that not everybody may search";
  EXPECT_EQ(errno_of(lookup_as(kBob, "a")), EACCES);
}

TEST_P(SearchRights, NamesThatEverybodyMayFollow_AreLent) {
  EXPECT_FALSE(kernel_may_keep()) << "nobody has asked yet";
  server->clear_journal();
  expect_lent();
  EXPECT_EQ(asked(), 1u);
  EXPECT_TRUE(lookup_as(kBob, "a")->entry_ttl > Duration::zero());
  EXPECT_EQ(mount->requests("ACCESS"), 1u) << "Alice's, until it was known";
}

TEST_P(SearchRights, AnAclThatShutsSomebodyOut_IsAskedForOnce) {
  shut_out_bob();
  server->clear_journal();
  for (int turn = 0; turn < 5; ++turn) walk();
  EXPECT_TRUE(eventually([&] { return asked() > 0; }));
  EXPECT_FALSE(kernel_may_keep());
  for (int turn = 0; turn < 5; ++turn) walk();
  EXPECT_EQ(asked(), 1u);
}

// ls(1), and lookups after it, need no extra request for the ACL.
TEST_P(SearchRights, AListing_BringsTheAclAlong) {
  EXPECT_EQ(mount->list("d").size(), 1u);
  server->clear_journal();
  EXPECT_TRUE(kernel_may_keep());
  EXPECT_EQ(asked(), 0u);
  shut_out_bob();
  EXPECT_EQ(mount->list("d").size(), 1u);
  EXPECT_FALSE(kernel_may_keep()) << "another change attribute";
}

// A listing succeeds also if the server refuses the ACL.
TEST_P(SearchRights, AListingWithoutItsAcl_IsAListing) {
  server->configure([](filer::nfs::Switches& s) { s.refuses_acls = true; });
  EXPECT_EQ(mount->list("d").size(), 1u);
  EXPECT_FALSE(kernel_may_keep());
}

// Our own new names do not change who may search.
TEST_P(SearchRights, OwnChanges_LeaveNamesLent) {
  expect_lent();
  server->clear_journal();
  ASSERT_EQ(mount->write_file("d/b", ""), 0);
  EXPECT_TRUE(kernel_may_keep("b"));
  ASSERT_EQ(mount->unlink("d/b"), 0);
  EXPECT_TRUE(kernel_may_keep());
  EXPECT_EQ(asked(), 0u);
}

TEST_P(SearchRights, AnAclThatIsSetLater_TakesNamesBack) {
  expect_lent();
  shut_out_bob();
  mount->fs().doubt_ages();  // an hour later
  EXPECT_FALSE(kernel_may_keep()) << "another change attribute: it may be the ACL's";
  server->clear_journal();
  walk();
  EXPECT_TRUE(eventually([&] { return asked() > 0; }));
  EXPECT_FALSE(kernel_may_keep());
  EXPECT_TRUE(eventually([&] { return mount->front_end.names(directory).contains("a"); }));
  EXPECT_EQ(errno_of(lookup_as(kBob, "a")), EACCES);
  server->set_acl("/export/d", {});
  mount->fs().doubt_ages();
  expect_lent();
}

TEST_P(SearchRights, NamesThatWereNeverLent_AreNotTakenBack) {
  server->configure([](filer::nfs::Switches& s) { s.shows_acls = false; });
  for (const char* name : {"b", "c", "d"}) {
    server->make_file("/export/d/" + std::string(name), "content");
    EXPECT_GT(mount->list("d").size(), 1u);
    EXPECT_FALSE(kernel_may_keep());
    walk();
  }
  EXPECT_EQ(mount->front_end.names(directory), std::set<std::string>());
}

TEST_P(SearchRights, AQuestionThatFails_IsAskedAgain) {
  const auto alone = [](const filer::FaultEvent& e) {
    return !e.has(OP_LOOKUP) && !e.has(OP_READDIR) && !e.has(OP_ACCESS);
  };
  server->faults().add(on::request_with(OP_GETATTR).if_(alone).times(1),
                       filer::fault::Answer{OP_GETATTR, NFS4ERR_ACCESS});
  walk();
  EXPECT_FALSE(kernel_may_keep());
  expect_lent();
}

INSTANTIATE_TEST_SUITE_P(Loops, SearchRights, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

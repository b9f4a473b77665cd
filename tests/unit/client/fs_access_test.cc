// SPDX-License-Identifier: Apache-2.0
// ACCESS as an extra operation in other COMPOUNDs, and the listing that comes with a directory's opening (RFC
// 8881 sections 18.1, 18.23): which requests they save, and that their errors do no harm.
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using filer::fault::Answer;
namespace on = filer::on;

class AccessLoops : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    server = start_filer();
    server->make_directory("/export/d", 0777);
    server->make_file("/export/d/a", "content", 0640, 1000, 1000);
    server->make_file("/export/d/b", "content", 0640, 1000, 1000);
    start();
  }
  void start(std::function<void(client::ClientOptions&)> more = nullptr) {
    mount.reset();
    mount = std::make_unique<TestMount>(
        *server, TestMount::Settings{.loops = GetParam(), .options = [more](client::ClientOptions& o) {
                                       o.acregmin = o.acregmax = o.acdirmin = o.acdirmax =
                                           std::chrono::hours(1);
                                       if (more) more(o);
                                     }});
  }

  uint64_t executed(nfs_opnum4 op) { return server->executed(op).executed; }
  int access(std::string_view path, uint32_t uid, int mask) {
    return errno_of(mount->run(mount->fs().access(mount->user(uid, uid), mount->node(path), mask)));
  }
  Result<client::Entry> lookup_as(uint32_t uid, const client::NodeRef& directory, const std::string& name) {
    return mount->run(mount->fs().lookup(mount->user(uid, uid), directory, name));
  }
  client::OpenDirectoryRef opendir(std::string_view path) {
    auto opened = mount->run(mount->fs().opendir(mount->user(), mount->node(path)));
    EXPECT_TRUE(opened) << describe(opened.error());
    return opened ? opened->directory : nullptr;
  }
  std::set<std::string> first_page(const client::OpenDirectoryRef& directory) {
    std::set<std::string> names;
    auto page = mount->run(mount->fs().readdir(mount->user(), directory, 0, 4096, true));
    EXPECT_TRUE(page) << describe(page.error());
    if (page) {
      for (const auto& e : page->entries) names.insert(e.name);
    }
    return names;
  }
  void closedir(const client::OpenDirectoryRef& directory) { mount->run(mount->fs().releasedir(directory)); }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
};

TEST_P(AccessLoops, Lookup_BringsWhatTheUserMay) {
  const client::NodeRef directory = mount->node("d");
  const auto entry = lookup_as(1000, directory, "a");
  ASSERT_TRUE(entry);
  const auto access_as = [&](uint32_t uid, int mask) {
    return errno_of(mount->run(mount->fs().access(mount->user(uid, uid), entry->node, mask)));
  };
  EXPECT_EQ(access_as(1000, R_OK | W_OK), 0);
  EXPECT_EQ(access_as(1000, X_OK), EACCES);
  EXPECT_EQ(mount->requests("ACCESS"), 0u);
  EXPECT_EQ(access_as(1001, R_OK), EACCES) << "another user is asked for";
  EXPECT_EQ(mount->requests("ACCESS"), 1u);
}

// An answer for one user does not remove another user's.
TEST_P(AccessLoops, LookupByAnotherUser_LeavesWhatIsRemembered) {
  start([](client::ClientOptions& o) { o.lookupcache = client::LookupCache::kNone; });
  const client::NodeRef directory = mount->node("d");
  const auto entry = lookup_as(1000, directory, "a");
  ASSERT_TRUE(entry);
  ASSERT_TRUE(lookup_as(1001, directory, "a"));
  const auto requests = mount->requests("ACCESS");
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(errno_of(mount->run(mount->fs().access(mount->user(1000, 1000), entry->node, R_OK))), 0);
    EXPECT_EQ(errno_of(mount->run(mount->fs().access(mount->user(1001, 1001), entry->node, R_OK))), EACCES);
  }
  EXPECT_EQ(mount->requests("ACCESS"), requests);
}

TEST_P(AccessLoops, MkdirAndCreate_BringWhatTheMakerMay) {
  ASSERT_EQ(mount->mkdir("d/new", 0700), 0);
  ASSERT_EQ(mount->close(mount->create("d/file")), 0);
  const auto requests = mount->requests("ACCESS");
  EXPECT_EQ(access("d/new", 0, R_OK | W_OK | X_OK), 0);
  EXPECT_EQ(access("d/file", 0, R_OK | W_OK), 0);
  EXPECT_EQ(mount->requests("ACCESS"), requests);
}

// The first open under the delegation that came with CREATE needs no request either.
TEST_P(AccessLoops, AFileMadeUnderADelegation_IsOpenedWithoutAsking) {
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  const auto made = mount->create("d/file");
  ASSERT_EQ(mount->write(made, 0, "content"), 0);
  ASSERT_EQ(mount->close(made), 0);
  server->clear_journal();
  EXPECT_EQ(mount->read_file("d/file"), "content");
  EXPECT_EQ(executed(OP_OPEN), 0u);
  EXPECT_EQ(executed(OP_ACCESS), 0u);
}

// tar(1) sets mode, owner and times of the files that it creates.
TEST_P(AccessLoops, Setattr_BringsWhatTheUserMayNow) {
  const client::NodeRef node = mount->node("d/a");
  client::SetAttributes set;
  set.mode = 0440;
  const client::RequestContext owner = mount->user(1000, 1000);
  ASSERT_EQ(errno_of(mount->run(mount->fs().setattr(owner, node, set, nullptr))), 0);
  EXPECT_EQ(errno_of(mount->run(mount->fs().access(owner, node, R_OK))), 0);
  EXPECT_EQ(errno_of(mount->run(mount->fs().access(owner, node, W_OK))), EACCES);
  EXPECT_EQ(mount->requests("ACCESS"), 0u);
}

// Only we changed the directory, and mode and owner are the same.
TEST_P(AccessLoops, OwnChangesOfADirectory_LeaveWhatIsRememberedOfIt) {
  server->make_directory("/export/own", 0700, 1000, 1000);
  EXPECT_EQ(access("own", 1000, X_OK), 0);
  const client::NodeRef directory = mount->node("own");
  const auto make = [&](const std::string& name) {
    return errno_of(mount->run(mount->fs().mkdir(mount->user(1000, 1000), directory, name, 0755)));
  };
  ASSERT_EQ(make("one"), 0);
  const auto requests = mount->requests("ACCESS");
  ASSERT_EQ(make("two"), 0);
  EXPECT_EQ(access("own", 1000, X_OK), 0);
  EXPECT_EQ(mount->requests("ACCESS"), requests);
  // A change of the mode may be anyone's.
  client::SetAttributes set;
  set.mode = 0500;
  ASSERT_EQ(errno_of(mount->run(mount->fs().setattr(mount->user(1000, 1000), directory, set, nullptr))), 0);
  EXPECT_EQ(access("own", 1000, W_OK), EACCES);
}

TEST_P(AccessLoops, AnErrorOfTheExtraQuestion_SpoilsNothing) {
  for (const nfs_opnum4 op : {OP_LOOKUP, OP_CREATE, OP_OPEN, OP_SETATTR}) {
    server->faults().add(on::request_with(op)
                             .if_([op](const filer::FaultEvent& e) {
                               return op != OP_OPEN || e.has(OP_SAVEFH);  // the OPEN that creates
                             })
                             .always(),
                         Answer{OP_ACCESS, NFS4ERR_SERVERFAULT});
  }
  EXPECT_EQ(mount->stat("d/a")->size, 7u);
  client::SetAttributes set;
  set.mode = 0600;
  const auto changed = mount->run(mount->fs().setattr(mount->user(), mount->node("d/a"), set, nullptr));
  ASSERT_TRUE(changed) << describe(changed.error());
  EXPECT_EQ(changed->attributes.mode & 07777, 0600u);
  ASSERT_EQ(mount->mkdir("d/new"), 0);
  const auto getattrs = mount->requests("GETATTR"), lookups = mount->requests("LOOKUP");
  EXPECT_TRUE(mount->lookup("d/new"));
  EXPECT_EQ(mount->write_file("d/file", "text"), 0);
  EXPECT_EQ(server->read_file("/export/d/file"), "text");
  EXPECT_TRUE(mount->lookup("d/file"));
  EXPECT_EQ(mount->requests("LOOKUP"), lookups) << "the directory's attributes came before it";
  EXPECT_EQ(mount->requests("GETATTR"), getattrs);
}

// --- the opening of a directory ---

TEST_P(AccessLoops, OpeningADirectory_BringsItsEntries) {
  mount->node("d");
  server->clear_journal();
  const auto directory = opendir("d");
  EXPECT_EQ(mount->requests("READDIR"), 1u);
  EXPECT_EQ(first_page(directory), (std::set<std::string>{".", "..", "a", "b"}));
  EXPECT_EQ(mount->requests("READDIR"), 1u);
  EXPECT_EQ(mount->requests("ACCESS"), 0u);
  EXPECT_EQ(executed(OP_ACCESS), 1u);
  // rewinddir(3)
  server->make_file("/export/d/c", "");
  EXPECT_EQ(first_page(directory), (std::set<std::string>{".", "..", "a", "b", "c"}));
  EXPECT_EQ(mount->requests("READDIR"), 2u);
  closedir(directory);
}

TEST_P(AccessLoops, AListingThatTheKernelHas_IsAskedForNoMore) {
  EXPECT_EQ(mount->list("d").size(), 2u);
  const auto readdirs = mount->requests("READDIR");
  auto opened = mount->run(mount->fs().opendir(mount->user(), mount->node("d")));
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->keep_cache);
  closedir(opened->directory);
  EXPECT_EQ(mount->requests("READDIR"), readdirs);
  EXPECT_EQ(mount->requests("ACCESS"), 1u) << "what the directory is now";
}

// Two programs list a directory, and another client changes it in between. The kernel appends both replies to
// one listing.
TEST_P(AccessLoops, AListingMadeOfTwo_IsNotTheKernels) {
  start([](client::ClientOptions& o) { o.acdirmin = o.acdirmax = std::chrono::seconds(0); });
  const auto opendir_kept = [&] { return *mount->run(mount->fs().opendir(mount->user(), mount->node("d"))); };
  const auto read = [&](const client::OpenDirectoryRef& directory, uint64_t offset, size_t bytes) {
    return mount->run(mount->fs().readdir(mount->user(), directory, offset, bytes, false))->entries;
  };
  const auto read_all = [&](const client::OpenDirectoryRef& directory) {
    uint64_t offset = 0;
    for (auto entries = read(directory, 0, 4096); !entries.empty(); entries = read(directory, offset, 4096))
      offset = entries.back().next;
  };
  const auto first = opendir_kept(), second = opendir_kept();
  const auto begun = read(first.directory, 0, 130);
  ASSERT_EQ(begun.size(), 3u) << "one name has been told, and another has not";
  server->make_file("/export/d/new", "");
  ASSERT_TRUE(mount->stat("d")) << "which shows the change";
  read_all(second.directory);
  const auto third = opendir_kept();
  EXPECT_FALSE(third.keep_cache);
  read_all(third.directory);
  const auto fourth = opendir_kept();
  EXPECT_TRUE(fourth.keep_cache) << "that is one listing again";
  for (const auto& opened : {first, second, third, fourth}) closedir(opened.directory);
}

// The kernel considers a listing complete when it gets the empty reply, not after its last entry.
TEST_P(AccessLoops, AListingThatWasNotReadToItsEnd_IsNotTheKernels) {
  auto directory = opendir("d");
  first_page(directory);
  closedir(directory);
  const auto opened = mount->run(mount->fs().opendir(mount->user(), mount->node("d")));
  ASSERT_TRUE(opened);
  EXPECT_FALSE(opened->keep_cache);
  EXPECT_EQ(mount->requests("READDIR"), 2u);
  EXPECT_EQ(mount->requests("ACCESS"), 0u);
  closedir(opened->directory);
}

// fsync(2) of a directory, or openat(2) by its descriptor.
TEST_P(AccessLoops, ADirectoryThatIsOpenedForSomethingElse_IsNotListedAgain) {
  closedir(opendir("d"));
  EXPECT_EQ(mount->requests("READDIR"), 1u);
  closedir(opendir("d"));
  EXPECT_EQ(mount->requests("READDIR"), 1u);
  EXPECT_EQ(mount->requests("ACCESS"), 1u);
  EXPECT_EQ(mount->list("d").size(), 2u);
  EXPECT_EQ(mount->requests("READDIR"), 2u);
  server->make_file("/export/d/c", "");
  EXPECT_EQ(mount->list("d").size(), 3u);  // the opening showed that it changed
  const auto readdirs = mount->requests("READDIR");
  server->make_file("/export/d/d", "");
  client::SetAttributes set;
  set.mode = 0755;
  mount->run(mount->fs().setattr(mount->user(), mount->node("d"), set, nullptr));
  EXPECT_EQ(mount->list("d").size(), 4u);
  EXPECT_EQ(mount->requests("READDIR"), readdirs + 1) << "with the opening, after it was read";
}

TEST_P(AccessLoops, AChangeAfterTheOpening_IsInTheListing) {
  const auto directory = opendir("d");
  ASSERT_EQ(mount->write_file("d/c", ""), 0);
  ASSERT_EQ(mount->unlink("d/a"), 0);
  EXPECT_EQ(first_page(directory), (std::set<std::string>{".", "..", "b", "c"}));
  closedir(directory);
}

TEST_P(AccessLoops, AnErrorOfTheListing_IsToldToTheReader) {
  server->faults().add(on::request_with(OP_READDIR).times(2), Answer{OP_READDIR, NFS4ERR_IO});
  const auto directory = opendir("d");
  EXPECT_EQ(errno_of(mount->run(mount->fs().readdir(mount->user(), directory, 2, 4096, true))), EIO);
  EXPECT_EQ(first_page(directory), (std::set<std::string>{".", "..", "a", "b"}));
  closedir(directory);
  server->make_directory("/export/closed", 0711);
  const auto closed = mount->run(mount->fs().opendir(mount->user(1000, 1000), mount->node("closed")));
  EXPECT_EQ(errno_of(closed), EACCES);
}

// nfs(5)'s times are real time, so a suspension counts, although neither our clock nor the kernel's ran on.
TEST_P(AccessLoops, AfterASuspension_NothingIsBelievedForItsAge) {
  const auto directory = mount->node("d");
  EXPECT_EQ(mount->stat("d/a")->size, 7u);
  EXPECT_EQ(access("d/b", 1000, R_OK), 0);
  ASSERT_TRUE(server->write_file("/export/d/a", 0, "longer content"));
  EXPECT_EQ(mount->stat("d/a")->size, 7u) << "for an hour";
  EXPECT_TRUE(mount->front_end.names(directory).empty());
  mount->fs().doubt_ages();
  EXPECT_TRUE(mount->front_end.names(directory).contains("a"));
  server->clear_journal();
  EXPECT_EQ(mount->stat("d/a")->size, 14u);
  EXPECT_GT(executed(OP_GETATTR), 0u);
  server->clear_journal();
  EXPECT_EQ(access("d/b", 1000, R_OK), 0);
  EXPECT_EQ(executed(OP_ACCESS), 1u) << "nor an answer that was given for an hour";
}

// The server could not say whether our change was the only one, so the names also expire by the clock.
TEST_P(AccessLoops, AfterASuspension_UncertainNamesAreAskedForAgain) {
  server->configure([](filer::nfs::Switches& s) { s.atomic_change_info = false; });
  EXPECT_TRUE(mount->stat("d/a"));
  EXPECT_EQ(mount->mkdir("d/new"), 0);
  server->clear_journal();
  EXPECT_TRUE(mount->stat("d/a"));
  EXPECT_EQ(executed(OP_LOOKUP), 0u);
  mount->fs().doubt_ages();
  EXPECT_TRUE(mount->stat("d/a"));
  EXPECT_EQ(executed(OP_LOOKUP), 2u) << "of d, which says that it is what it was, and of a";
}

// A delegation's promise holds as long as the lease, and the lease counts a suspension.
TEST_P(AccessLoops, AfterASuspension_APromiseHolds) {
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  EXPECT_EQ(mount->read_file("d/a"), "content");
  const auto node = mount->node("d/a");
  mount->fs().doubt_ages();
  server->clear_journal();
  const auto opened = mount->run(mount->fs().open(mount->user(), node, O_RDONLY));
  ASSERT_TRUE(opened);
  EXPECT_TRUE(server->journal().empty());
  mount->close(opened->file);
}

INSTANTIATE_TEST_SUITE_P(Loops, AccessLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

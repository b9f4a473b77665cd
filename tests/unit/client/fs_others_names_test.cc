// SPDX-License-Identifier: Apache-2.0
// Other clients change names that are cached here, and this client is not told (RFC 8881 sections 10.3,
// 18.25, 18.26).
#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace std::chrono_literals;

class OthersNames : public testing::TestWithParam<unsigned> {
 protected:
  // The caches are valid for `believed`.
  void start(std::chrono::seconds believed = 1h) {
    mount = std::make_unique<TestMount>(
        *server, TestMount::Settings{.loops = GetParam(), .options = [believed](client::ClientOptions& o) {
                                       o.acregmin = o.acregmax = o.acdirmin = o.acdirmax = believed;
                                     }});
  }
  void lose_what_has_no_name() {
    server->configure([](filer::nfs::Switches& s) { s.preserve_unlinked = false; });
    server->with_core([](filer::nfs::Core& core) { core.tree.preserve_unlinked(false); });
  }
  // Opens a file that had two names. Another client has removed one; the cache still says two.
  client::OpenFileRef open_what_another_client_unlinks() {
    lose_what_has_no_name();
    start();
    const auto file = mount->create("file");
    EXPECT_EQ(mount->write(file, 0, "content"), 0);
    EXPECT_EQ(mount->fsync(file), 0);
    EXPECT_EQ(mount->link("file", "link"), 0);
    EXPECT_EQ(mount->stat("file")->nlink, 2u);
    TestMount other(*server);
    EXPECT_EQ(other.unlink("link"), 0);
    return file;
  }

  std::unique_ptr<filer::Server> server = start_filer();
  std::unique_ptr<TestMount> mount;
};

TEST_P(OthersNames, LastNameOfAnOpenFile_IsHiddenThoughItHadAnother) {
  const auto file = open_what_another_client_unlinks();
  EXPECT_EQ(mount->unlink("file"), 0);
  EXPECT_EQ(server->list("/export").size(), 1u) << "under a hidden name";
  EXPECT_EQ(mount->read(file).value_or("error"), "content");
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_TRUE(server->list("/export").empty());
}

TEST_P(OthersNames, LastNameThatIsReplaced_IsHiddenThoughItHadAnother) {
  const auto file = open_what_another_client_unlinks();
  ASSERT_EQ(mount->write_file("new", "new"), 0);
  EXPECT_EQ(mount->rename("new", "file"), 0);
  EXPECT_EQ(mount->read(file).value_or("error"), "content");
  EXPECT_EQ(mount->read_file("file"), "new");
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(server->list("/export"), std::vector<std::string>{"file"});
}

// After ESTALE the kernel repeats the path walk: it must not reach the same directory.
TEST_P(OthersNames, RenameIntoADirectoryThatWasReplaced_FindsTheNewOne) {
  start();
  ASSERT_EQ(mount->mkdir("d"), 0);
  ASSERT_EQ(mount->write_file("file", "content"), 0);
  ASSERT_EQ(errno_of(mount->lookup("d/there")), ENOENT);
  {
    TestMount other(*server);
    ASSERT_EQ(other.rmdir("d"), 0);
    ASSERT_EQ(other.mkdir("d"), 0);
  }
  EXPECT_EQ(mount->rename("file", "d/there"), ESTALE);
  EXPECT_EQ(mount->rename("file", "d/there"), 0);
  {
    TestMount other(*server);
    ASSERT_EQ(other.rename("d/there", "there"), 0);
    ASSERT_EQ(other.rmdir("d"), 0);
    ASSERT_EQ(other.mkdir("d"), 0);
    ASSERT_EQ(other.rename("there", "d/there"), 0);
  }
  EXPECT_EQ(mount->rename("d/there", "file"), ESTALE);
  EXPECT_EQ(mount->rename("d/there", "file"), 0);
}

TEST_P(OthersNames, DirectoryThatARenameReplaced_IsStillWhatItWas) {
  start();
  ASSERT_EQ(mount->mkdir("old", 0750), 0);
  ASSERT_EQ(mount->mkdir("new"), 0);
  const auto node = mount->node("old");
  ASSERT_EQ(mount->rename("new", "old"), 0);
  const auto attributes = mount->run(mount->fs().getattr(mount->user(), node, nullptr));
  ASSERT_TRUE(attributes) << describe(attributes.error());
  EXPECT_EQ(attributes->attributes.mode, uint32_t{S_IFDIR | 0750});
}

// POSIX, rmdir(): "If the directory's link count becomes 0 and no process has the directory open, the space
// occupied by the directory shall be freed". A process that has the directory open sees a link count of 0,
// even if the server has forgotten the directory.
TEST_P(OthersNames, DirectoryThatWeRemovedOrReplaced_HasNoLinks) {
  start();
  for (const char* name : {"removed", "replaced", "new"}) ASSERT_EQ(mount->mkdir(name), 0);
  const auto removed = mount->node("removed"), replaced = mount->node("replaced");
  ASSERT_EQ(mount->rmdir("removed"), 0);
  ASSERT_EQ(mount->rename("new", "replaced"), 0);
  const auto links = [&](const client::NodeRef& node) {
    const auto now = mount->run(mount->fs().getattr(mount->user(), node, nullptr));
    EXPECT_TRUE(now) << describe(now.error());
    return now ? now->attributes.nlink : 99;
  };
  EXPECT_EQ(links(removed), 0u);
  EXPECT_EQ(links(replaced), 0u);
  EXPECT_EQ(links(mount->node("replaced")), 2u);
  mount->fs().doubt_ages();
  EXPECT_EQ(links(removed), 0u) << "asked for again";
  EXPECT_EQ(links(replaced), 0u) << "asked for again";
}

// The kernel does not repeat the path walk for a name that is to be created (mkdir(2), link(2)), so the first
// answer must be the right error.
TEST_P(OthersNames, NameInADirectoryThatWasRemoved_IsAbsentAtOnce) {
  start();
  ASSERT_EQ(mount->mkdir("d"), 0);
  ASSERT_EQ(mount->mkdir("above"), 0);
  ASSERT_EQ(mount->mkdir("above/below"), 0);
  const auto d = mount->node("d"), below = mount->node("above/below");
  {
    TestMount other(*server);
    ASSERT_EQ(other.rmdir("d"), 0);
    ASSERT_EQ(other.rmdir("above/below"), 0);
    ASSERT_EQ(other.rmdir("above"), 0);
  }
  EXPECT_EQ(errno_of(mount->run(mount->fs().lookup(mount->user(), below, "name"))), ENOENT);
  EXPECT_EQ(errno_of(mount->run(mount->fs().lookup(mount->user(), d, "name"))), ENOENT);
}

TEST_P(OthersNames, NameInADirectoryThatWasReplaced_IsLookedForInTheNewOne) {
  start();
  ASSERT_EQ(mount->mkdir("d"), 0);
  const auto d = mount->node("d");
  {
    TestMount other(*server);
    ASSERT_EQ(other.rmdir("d"), 0);
    ASSERT_EQ(other.mkdir("d"), 0);
    ASSERT_EQ(other.write_file("d/name", "content"), 0);
  }
  EXPECT_EQ(errno_of(mount->run(mount->fs().lookup(mount->user(), d, "name"))), ESTALE)
      << "the kernel walks again";
  EXPECT_EQ(mount->read_file("d/name"), "content");
}

// A FUSE reply to open() carries no size, and a page fault does not fetch it.
TEST_P(OthersNames, SizeOfAnotherClientsDoing_IsNewsToTheKernelUntilItIsToldOne) {
  start();
  ASSERT_EQ(mount->write_file("file", "content"), 0);
  const auto node = mount->node("file");
  const auto is_news = [&] {
    const auto opened = mount->run(mount->fs().open(mount->user(), node, O_RDONLY));
    EXPECT_TRUE(opened);
    if (opened) mount->close(opened->file);
    return opened && opened->size_is_news;
  };
  EXPECT_FALSE(is_news());
  for (const char* text : {"more of it", "less"}) {
    {
      TestMount other(*server);
      ASSERT_EQ(other.write_file("file", text), 0);
    }
    EXPECT_TRUE(is_news()) << text;
    EXPECT_TRUE(is_news()) << text;
    EXPECT_EQ(mount->stat("file")->size, std::string_view(text).size());
    EXPECT_FALSE(is_news()) << text;
  }
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->write(file, 100, "ours"), 0);
  EXPECT_FALSE(is_news()) << "what is written through it, the kernel knows";
  ASSERT_EQ(mount->close(file), 0);
  EXPECT_FALSE(is_news());
}

// If the server cannot say whether our change was the only one (change_info4, section 18.26.3), names learnt
// earlier keep their remaining lifetime.
TEST_P(OthersNames, NameThatAChangeOfOursMakesUncertain_IsLentNoLongerThanWithoutIt) {
  server->configure([](filer::nfs::Switches& s) { s.atomic_change_info = false; });
  start();
  ASSERT_EQ(mount->write_file("file", "content"), 0);
  ASSERT_TRUE(mount->stat("file"));
  const TimePoint learnt = Clock::now();
  for (int n = 0; n < 10; ++n) ASSERT_EQ(mount->mkdir("d" + std::to_string(n)), 0);
  const Duration age = Clock::now() - learnt;
  const auto entry = mount->lookup("file");
  ASSERT_TRUE(entry);
  EXPECT_LE(entry->entry_ttl, 1h - age);
}

// rewinddir(3): "the directory stream shall refer to the current state of the corresponding directory, as a
// call to opendir() would have done" (POSIX). Linux checks the age of its listing only at opendir(3).
TEST_P(OthersNames, ListingThatStaysOpen_IsTakenBackWhenItIsOld) {
  start(1s);
  server->make_directory("/export/d", 0777);
  server->make_file("/export/d/a", "");
  const auto node = mount->node("d");
  const auto read_all = [&](const client::OpenDirectoryRef& directory) {
    for (uint64_t offset = 0;;) {
      const auto page = mount->run(mount->fs().readdir(mount->user(), directory, offset, 4096, true));
      if (!page || page->entries.empty()) return;
      offset = page->entries.back().next;
    }
  };
  auto opened = mount->run(mount->fs().opendir(mount->user(), node));
  ASSERT_TRUE(opened);
  read_all(opened->directory);
  EXPECT_TRUE(eventually([&] { return mount->front_end.data(node) == 1; }));
  const auto again = mount->run(mount->fs().opendir(mount->user(), node));
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->keep_cache);
  mount->run(mount->fs().releasedir(again->directory));
  mount->run(mount->fs().releasedir(opened->directory));
}

INSTANTIATE_TEST_SUITE_P(Loops, OthersNames, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

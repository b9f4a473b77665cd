// Directories that this mount has made and nobody else has changed: what is not among their names need not be
// asked for. Each way that knowledge ends (RFC 8881 sections 5.8.1.4, 10.8).
#include <sys/stat.h>

#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using namespace std::chrono_literals;
using client::ClientOptions;
using client::LookupCache;
using filer::fault::Answer;
namespace on = filer::on;

class KnownNamesLoops : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    begin([](ClientOptions&) {});
  }
  void begin(const std::function<void(ClientOptions&)>& options) {
    mount.reset();
    const auto all = [options](ClientOptions& o) {
      o.acdirmin = o.acdirmax = o.acregmin = o.acregmax = 24h;  // no test takes a thirtieth of that
      options(o);
    };
    mount = std::make_unique<TestMount>(*server, TestMount::Settings{.loops = GetParam(), .options = all});
  }

  // LOOKUPs it takes to find out that there is no such name.
  uint64_t cost(std::string_view path) {
    const auto before = mount->requests("LOOKUP");
    EXPECT_EQ(errno_of(mount->lookup(path)), ENOENT) << path;
    return mount->requests("LOOKUP") - before;
  }
  void expect_known() { EXPECT_EQ(cost("d/never" + std::to_string(++absent_)), 0u); }
  void expect_asked() { EXPECT_EQ(cost("d/never" + std::to_string(++absent_)), 1u); }
  // It was there before the client knew, and is seen.
  void expect_seen(const std::string& path) { EXPECT_TRUE(mount->lookup(path)) << path; }
  int mknod(std::string_view path) {
    const std::string name(path.substr(path.find('/') + 1));
    return errno_of(
        mount->run(mount->fs().mknod(mount->user(), mount->node("d"), name, S_IFIFO | 0600, 0, 0)));
  }

  std::unique_ptr<filer::Server> server = start_filer();
  std::unique_ptr<TestMount> mount;
  int absent_ = 0;
};

TEST_P(KnownNamesLoops, NewDirectory_NamesAreNotAskedFor) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  expect_known();
  ASSERT_EQ(mount->write_file("d/file", "text"), 0);
  ASSERT_EQ(mount->mkdir("d/inner"), 0);
  ASSERT_EQ(mount->symlink("target", "d/link"), 0);
  ASSERT_EQ(mount->link("d/file", "d/second"), 0);
  ASSERT_EQ(mount->rename("d/file", "d/moved"), 0);
  ASSERT_EQ(mount->unlink("d/second"), 0);
  ASSERT_EQ(mount->rmdir("d/inner"), 0);
  expect_known();
  EXPECT_EQ(cost("d/file") + cost("d/second") + cost("d/inner"), 0u);
  EXPECT_TRUE(mount->lookup("d/moved"));
  EXPECT_TRUE(mount->lookup("d/link"));
}

TEST_P(KnownNamesLoops, DirectoryThatWasThere_IsAsked) {
  server->make_directory("/export/d", 0777);
  ASSERT_TRUE(mount->lookup("d"));
  expect_asked();
  ASSERT_EQ(mount->write_file("d/file", ""), 0);
  expect_asked();
}

TEST_P(KnownNamesLoops, DirectoryWithinDirectories_IsKnownToo) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  ASSERT_EQ(mount->mkdir("d/e"), 0);
  ASSERT_EQ(mount->rename("d/e", "f"), 0);
  EXPECT_EQ(cost("d/e"), 0u);
  ASSERT_EQ(mount->rename("f", "d/g"), 0);
  EXPECT_TRUE(mount->lookup("d/g"));
  expect_known();
}

// What the kernel is told holds no longer than what the client itself believes, and no longer than an answer
// of the server's.
TEST_P(KnownNamesLoops, Answer_LastsAsLongAsItIsBelieved) {
  begin([](ClientOptions& o) { o.acdirmin = o.acdirmax = 3000s; });
  ASSERT_EQ(mount->mkdir("d"), 0);
  const auto implied = mount->run(mount->fs().lookup(mount->user(), mount->node("d"), "absent"));
  ASSERT_TRUE(implied);
  EXPECT_FALSE(implied->node);
  EXPECT_GT(implied->entry_ttl, Duration::zero());
  EXPECT_LE(implied->entry_ttl, 100s);
  server->make_directory("/export/other", 0777);
  const auto asked = mount->run(mount->fs().lookup(mount->user(), mount->node("other"), "absent"));
  ASSERT_TRUE(asked);
  EXPECT_GT(asked->entry_ttl, 100s);
}

TEST_P(KnownNamesLoops, AfterAPartOfAcdirmin_IsAskedFor) {
  begin([](ClientOptions& o) { o.acdirmin = 1s; });
  ASSERT_EQ(mount->mkdir("d"), 0);
  std::this_thread::sleep_for(1s / 25);
  expect_asked();
}

// O_CREAT is the server's to decide.
TEST_P(KnownNamesLoops, FileOfAnotherClient_IsOpenedAndNotReplaced) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  server->make_file("/export/d/theirs", "theirs", 0666);
  EXPECT_EQ(errno_of(mount->try_create("d/theirs", O_RDWR | O_EXCL)), EEXIST);
  expect_seen("d/theirs");
  const auto file = mount->try_create("d/theirs", O_RDWR);
  ASSERT_TRUE(file);
  EXPECT_EQ(*mount->read(*file), "theirs");
  EXPECT_EQ(mount->close(*file), 0);
}

// --- who may be told ---

// Another process may be about to look for what it had another client make.
TEST_P(KnownNamesLoops, ThreadThatDidNotMakeIt_IsAnsweredByTheServer) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  mount->call_as(TestMount::process(2));
  expect_asked();
  mount->call_as(0);
  expect_asked();
  mount->call_as(TestMount::process(1));
  expect_known();
}

TEST_P(KnownNamesLoops, WhoMayNotSearchIt_IsRefused) {
  ASSERT_EQ(mount->mkdir("d", 0700), 0);
  EXPECT_EQ(errno_of(mount->run(mount->fs().lookup(mount->user(1000, 1000), mount->node("d"), "absent"))),
            EACCES);
}

TEST_P(KnownNamesLoops, OptionsThatWantAbsentNamesAskedFor_AreHeeded) {
  for (const LookupCache cache : {LookupCache::kPositive, LookupCache::kNone}) {
    begin([&](ClientOptions& o) { o.lookupcache = cache; });
    ASSERT_EQ(mount->mkdir("d"), 0);
    EXPECT_GE(cost("d/absent"), 1u);
    EXPECT_GE(cost("d/absent"), 1u);
    EXPECT_EQ(server->executed(OP_READDIR).executed, 0u);
    ASSERT_EQ(mount->rmdir("d"), 0);
  }
  begin([](ClientOptions& o) { o.noac = true; });
  ASSERT_EQ(mount->mkdir("d"), 0);
  EXPECT_GE(cost("d/absent"), 1u);
  ASSERT_EQ(mount->rmdir("d"), 0);
  begin([](ClientOptions& o) { o.acdirmin = o.acdirmax = 0s; });
  ASSERT_EQ(mount->mkdir("d"), 0);
  EXPECT_GE(cost("d/absent"), 1u);
  EXPECT_EQ(server->executed(OP_READDIR).executed, 0u);
}

// Section 5.8.2.1, case_insensitive: another spelling of a name that is there is there, too.
TEST_P(KnownNamesLoops, FileSystemWithoutCase_IsAsked) {
  mount.reset();
  // lease_time, case_insensitive and maxname, as the mount asks for its limits.
  const auto rule = server->faults().add(
      on::reply_to(OP_GETATTR).always(), filer::fault::Mangle{[](ByteVector& reply) {
        const auto facts = {0, 0, 0, 90, 0, 0, 0, 0, 0, 0, 0, 255};
        const auto same = [](std::byte b, int v) { return std::to_integer<int>(b) == v; };
        const auto at = std::search(reply.begin(), reply.end(), facts.begin(), facts.end(), same);
        if (at != reply.end()) at[7] = std::byte{1};
      }});
  begin([](ClientOptions&) {});
  server->faults().remove(rule);
  ASSERT_EQ(mount->mkdir("d"), 0);
  expect_asked();
}

// Section 14: what is one name to the server may have several spellings where characters have several
// encodings.
TEST_P(KnownNamesLoops, NamesBeyondAscii_AreAskedFor) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  EXPECT_EQ(cost("d/\xc3\xa9"), 1u);
  expect_known();
}

// tar makes directories that only their owner may search, until it has filled them.
TEST_P(KnownNamesLoops, DirectoryOfItsOwnerOnly_IsNotAskedWhetherItMayBeSearched) {
  begin([](ClientOptions& o) { o.many_users = true; });
  ASSERT_EQ(mount->mkdir("d", 0700), 0);
  const client::NodeRef directory = mount->node("d");
  const auto before = mount->requests("ACCESS") + mount->requests("LOOKUP");
  std::vector<client::Entry> made;  // keeps the nodes, as the kernel does
  for (int i = 0; i < 5; ++i) {
    const std::string name = "inner" + std::to_string(i);
    const auto absent = mount->run(mount->fs().lookup(mount->user(), directory, name));
    ASSERT_TRUE(absent && !absent->node);
    EXPECT_EQ(absent->entry_ttl, Duration::zero()) << "the kernel would tell others, too";
    auto inner = mount->run(mount->fs().mkdir(mount->user(), directory, name, 0700));
    ASSERT_TRUE(inner);
    made.push_back(std::move(*inner));
  }
  EXPECT_EQ(mount->requests("ACCESS") + mount->requests("LOOKUP"), before);
}

// --- how it ends ---

TEST_P(KnownNamesLoops, ChangeByAnotherClient_EndsIt) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  server->make_file("/export/d/theirs", "");
  expect_known();  // nobody has said anything
  ASSERT_EQ(mount->write_file("d/ours", ""), 0);
  expect_seen("d/theirs");
  expect_asked();
}

TEST_P(KnownNamesLoops, ChangeByAnotherClientSeenInAttributes_EndsIt) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  ASSERT_EQ(mount->write_file("d/ours", ""), 0);
  server->make_file("/export/d/theirs", "");
  EXPECT_EQ(mount->list("d").size(), 2u);
  expect_seen("d/theirs");
  expect_asked();
}

// Also one that was undone.
TEST_P(KnownNamesLoops, ChangeAndBack_EndsIt) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  server->make_file("/export/d/theirs", "");
  server->remove_file("/export/d/theirs");
  ASSERT_EQ(mount->write_file("d/ours", ""), 0);
  expect_asked();
}

// Section 10.8: without `atomic`, nobody can say what happened between `before` and `after`.
TEST_P(KnownNamesLoops, ChangeInfoThatIsNotAtomic_EndsIt) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  server->configure([](filer::Switches& s) { s.atomic_change_info = false; });
  ASSERT_EQ(mount->write_file("d/ours", ""), 0);
  server->configure([](filer::Switches& s) { s.atomic_change_info = true; });
  expect_asked();
  ASSERT_EQ(mount->write_file("d/second", ""), 0);
  expect_asked();
}

// SETATTR tells no change attribute of before.
TEST_P(KnownNamesLoops, AttributeOfTheDirectorySet_EndsIt) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  server->make_file("/export/d/theirs", "");
  client::SetAttributes set;
  set.mode = 0700;
  ASSERT_TRUE(mount->run(mount->fs().setattr(mount->user(), mount->node("d"), set, nullptr)));
  expect_seen("d/theirs");
  expect_asked();
}

// The kernel forgets inodes it has no room for, and with them their names go here.
TEST_P(KnownNamesLoops, NameForgottenWhileItsFileIsThere_EndsIt) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  ASSERT_EQ(mknod("d/fifo"), 0);  // whose answer nobody keeps
  expect_seen("d/fifo");
  expect_asked();
}

// One that was removed is not missed.
TEST_P(KnownNamesLoops, RemovedFileForgotten_DoesNotEndIt) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  ASSERT_EQ(mount->mkdir("e"), 0);
  {
    const client::NodeRef directory = mount->node("d");
    auto made = mount->run(mount->fs().mknod(mount->user(), directory, "one", S_IFIFO | 0600, 0, 0));
    ASSERT_TRUE(made);
    ASSERT_EQ(mount->unlink("d/one"), 0);
    made = mount->run(mount->fs().mknod(mount->user(), directory, "two", S_IFIFO | 0600, 0, 0));
    ASSERT_TRUE(made);
    ASSERT_EQ(mount->rename("d/two", "e/two"), 0);
  }
  expect_known();
  EXPECT_EQ(cost("e/other"), 1u) << "that one has lost it";
}

TEST_P(KnownNamesLoops, UnknownFileMovedIn_EndsIt) {
  server->make_file("/export/theirs", "");
  ASSERT_EQ(mount->mkdir("d"), 0);
  const client::NodeRef directory = mount->node("d");
  ASSERT_TRUE(mount->run(mount->fs().rename(mount->user(), mount->root(), "theirs", directory, "in", 0)));
  expect_seen("d/in");
  expect_asked();
}

TEST_P(KnownNamesLoops, RestartOfTheServer_EndsIt) {
  ASSERT_EQ(mount->mkdir("d"), 0);
  ASSERT_EQ(mount->write_file("d/ours", ""), 0);
  expect_known();
  server->restart();
  ASSERT_TRUE(mount->run(mount->fs().statfs(mount->user(), mount->root())));
  expect_asked();
}

// --- what became of a name is not known ---

TEST_P(KnownNamesLoops, MadeButNotTold_IsAskedFor) {
  const auto lost = [&](nfs_opnum4 op, const char* name, const std::function<int(std::string)>& make) {
    const std::string path = std::string("d/") + name;
    ASSERT_EQ(mount->mkdir("d"), 0);
    ASSERT_EQ(mount->write_file("d/file", ""), 0);
    const auto rule = server->faults().add(on::request_with(op), Answer{OP_GETFH, NFS4ERR_SERVERFAULT});
    EXPECT_NE(make(path), 0);
    server->faults().remove(rule);
    expect_seen(path);
    ASSERT_TRUE(server->remove_file("/export/" + path));
    ASSERT_EQ(mount->unlink("d/file"), 0);
    ASSERT_EQ(mount->rmdir("d"), 0);
  };
  mount->expect_leftovers();
  lost(OP_CREATE, "link", [&](const std::string& path) { return mount->symlink("x", path); });
  lost(OP_OPEN, "new", [&](const std::string& path) { return errno_of(mount->try_create(path)); });
}

TEST_P(KnownNamesLoops, NameThatIsInTheWay_IsAskedFor) {
  const std::function<int()> makings[] = {
      [&] { return mount->mkdir("d/theirs"); },
      [&] { return mount->symlink("x", "d/theirs"); },
      [&] { return mount->link("d/ours", "d/theirs"); },
  };
  for (const auto& make : makings) {
    ASSERT_EQ(mount->mkdir("d"), 0);
    ASSERT_EQ(mount->write_file("d/ours", ""), 0);
    server->make_file("/export/d/theirs", "", 0666);
    EXPECT_EQ(make(), EEXIST);
    expect_seen("d/theirs");
    ASSERT_EQ(mount->unlink("d/theirs"), 0);
    ASSERT_EQ(mount->unlink("d/ours"), 0);
    ASSERT_EQ(mount->rmdir("d"), 0);
  }
}

// The name that a removed file has until it is closed is known, as any other of ours.
TEST_P(KnownNamesLoops, HiddenName_IsKnown) {
  server->configure([](filer::Switches& s) { s.preserve_unlinked = false; });
  server->with_core([](filer::Core& core) { core.tree.preserve_unlinked(false); });
  ASSERT_EQ(mount->mkdir("d"), 0);
  const auto file = mount->create("d/file");
  ASSERT_EQ(mount->unlink("d/file"), 0);
  const auto names = server->list("/export/d");
  ASSERT_EQ(names.size(), 1u);
  EXPECT_TRUE(mount->lookup("d/" + names[0]));
  EXPECT_EQ(cost("d/file"), 0u);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(cost("d/" + names[0]), 0u);
  expect_known();
}

// --- how it begins ---

// Operations of a COMPOUND are not one: somebody may have been faster in the new directory. READDIR tells.
TEST_P(KnownNamesLoops, DirectoryThatIsNotSeenEmpty_IsAsked) {
  server->faults().add(on::request_with(OP_READDIR), Answer{OP_READDIR, NFS4ERR_ACCESS});
  ASSERT_EQ(mount->mkdir("d"), 0);
  expect_asked();
  EXPECT_EQ(mount->stat("")->nlink, 3u) << "the parent's attributes came all the same";
  EXPECT_EQ(mount->requests("GETATTR"), 1u);
}

INSTANTIATE_TEST_SUITE_P(Loops, KnownNamesLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

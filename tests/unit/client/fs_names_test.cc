// SPDX-License-Identifier: Apache-2.0
// Names, attributes and their caches (RFC 8881 sections 5, 10.3, 10.4, 10.8; nfs(5)).
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/client/support/captured_log.h"
#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using namespace std::chrono_literals;
using client::ClientOptions;
using client::LookupCache;
using filer::fault::Answer;
namespace on = filer::on;

class NamesLoops : public testing::TestWithParam<unsigned> {
 protected:
  TestMount::Settings settings(std::function<void(ClientOptions&)> options = nullptr) const {
    return {.loops = GetParam(), .options = std::move(options)};
  }
  // The caches are valid for an hour.
  static void for_an_hour(ClientOptions& o) { o.acregmin = o.acregmax = o.acdirmin = o.acdirmax = 1h; }
  std::unique_ptr<filer::Server> server = start_filer();
};

TEST_P(NamesLoops, EveryKindOfObject_IsMadeAndSeen) {
  TestMount mount(*server, settings());
  EXPECT_EQ(mount.mkdir("d", 0750), 0);
  EXPECT_EQ(mount.write_file("d/file", "content"), 0);
  EXPECT_EQ(mount.link("d/file", "d/link"), 0);
  EXPECT_EQ(mount.symlink("../target", "d/symlink"), 0);
  const auto mknod = [&](const char* name, uint32_t mode, uint32_t major, uint32_t minor) {
    return errno_of(mount.run(mount.fs().mknod(mount.user(), mount.node("d"), name, mode, major, minor)));
  };
  EXPECT_EQ(mknod("fifo", S_IFIFO | 0600, 0, 0), 0);
  EXPECT_EQ(mknod("socket", S_IFSOCK | 0600, 0, 0), 0);
  EXPECT_EQ(mknod("block", S_IFBLK | 0600, 8, 1), 0);
  EXPECT_EQ(mknod("char", S_IFCHR | 0600, 1, 3), 0);
  EXPECT_EQ(mknod("regular", S_IFREG | 0604, 0, 0), 0);
  EXPECT_EQ(mknod("nothing", S_IFDIR | 0600, 0, 0), EINVAL);
  EXPECT_EQ(mount.stat("d")->mode, uint32_t{S_IFDIR | 0750});
  EXPECT_EQ(mount.stat("d/file")->nlink, 2u);
  EXPECT_EQ(mount.stat("d/file")->ino, mount.stat("d/link")->ino);
  EXPECT_EQ(mount.stat("d/char")->mode, uint32_t{S_IFCHR | 0600});
  EXPECT_EQ(mount.stat("d/block")->rdev_major, 8u);
  EXPECT_EQ(mount.stat("d/block")->rdev_minor, 1u);
  EXPECT_EQ(mount.stat("d/regular")->mode, uint32_t{S_IFREG | 0604});
  EXPECT_EQ(*mount.run(mount.fs().readlink(mount.user(), mount.node("d/symlink"))), "../target");
  EXPECT_EQ(mount.list("d").size(), 8u);
  EXPECT_TRUE(server->states().empty());
}

// Without the errors that the kernel finds by the cached types: a file onto a directory, a hard link of a
// directory.
TEST_P(NamesLoops, Errors_AreThoseOfPosix) {
  TestMount mount(*server, settings());
  ASSERT_EQ(mount.mkdir("d"), 0);
  ASSERT_EQ(mount.mkdir("full"), 0);
  ASSERT_EQ(mount.write_file("full/file", ""), 0);
  EXPECT_EQ(mount.mkdir("d"), EEXIST);
  EXPECT_EQ(errno_of(mount.try_create("full/file", O_RDWR | O_EXCL)), EEXIST);
  EXPECT_EQ(mount.rmdir("full"), ENOTEMPTY);
  EXPECT_EQ(mount.rename("d", "full"), ENOTEMPTY);
  EXPECT_EQ(mount.rename("full", "d"), 0);
  EXPECT_EQ(mount.rename("nothing", "x"), ENOENT);
  EXPECT_EQ(mount.unlink("nothing"), ENOENT);
  EXPECT_EQ(mount.rename("d", "d/inside"), EINVAL);
  EXPECT_EQ(mount.rename("d", "e", 1), EINVAL) << "RENAME_NOREPLACE cannot be had";
  EXPECT_EQ(mount.mkdir(std::string(256, 'x')), ENAMETOOLONG);
  EXPECT_EQ(mount.mkdir(std::string(255, 'x')), 0);
  EXPECT_EQ(errno_of(mount.lookup(std::string(256, 'x'))), ENAMETOOLONG);
  EXPECT_EQ(errno_of(mount.lookup("d/file/x")), ENOTDIR);
}

TEST_P(NamesLoops, AnyLegalUtf8_IsAName) {
  TestMount mount(*server, settings());
  for (const std::string name :
       {"\xc3\xa9t\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\x98", " ", "a b", "-", "...", "\x01", "\\"}) {
    EXPECT_EQ(mount.write_file(name, name), 0) << name;
    EXPECT_EQ(mount.read_file(name), name);
    EXPECT_EQ(server->read_file("/export/" + name), name);
  }
  EXPECT_EQ(mount.list("").size(), 9u);
}

TEST_P(NamesLoops, Attributes_AreSetTogetherAndAlone) {
  TestMount mount(*server, settings());
  ASSERT_EQ(mount.write_file("file", "content"), 0);
  const auto node = mount.node("file");
  client::SetAttributes set;
  set.mode = 06741;
  set.uid = 1234;
  set.gid = 5678;
  set.mtime = client::SetAttributes::Time{false, {1'000'000'000, 999'999'999}};
  set.atime = client::SetAttributes::Time{false, {-86400, 1}};
  auto reply = mount.run(mount.fs().setattr(mount.user(), node, set, nullptr));
  ASSERT_TRUE(reply) << describe(reply.error());
  const client::Attributes& a = reply->attributes;
  EXPECT_EQ(a.uid, 1234u);
  EXPECT_EQ(a.gid, 5678u);
  EXPECT_EQ(a.mtime.tv_sec, 1'000'000'000);
  EXPECT_EQ(a.mtime.tv_nsec, 999'999'999);
  EXPECT_EQ(a.atime.tv_sec, -86400);
  EXPECT_EQ(a.size, 7u);
  set = {};
  set.mtime = client::SetAttributes::Time{true, {}};
  reply = mount.run(mount.fs().setattr(mount.user(), node, set, nullptr));
  ASSERT_TRUE(reply);
  EXPECT_GT(reply->attributes.mtime.tv_sec, 1'000'000'000);
  EXPECT_EQ(reply->attributes.atime.tv_sec, -86400);
}

TEST_P(NamesLoops, Statfs_IsTheExports) {
  TestMount mount(*server, settings());
  server->set_space("/export", 1 << 20);
  const auto status = mount.run(mount.fs().statfs(mount.user(), mount.root()));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->total_bytes, uint64_t{1} << 20);
  EXPECT_LE(status->available_bytes, status->free_bytes);
  EXPECT_EQ(status->name_max, 255u);
}

TEST_P(NamesLoops, Access_IsTheServersAnswer) {
  TestMount mount(*server, settings());
  server->make_file("/export/secret", "content", 0640, 1000, 1000);
  const auto node = mount.node("secret");
  const auto access = [&](uint32_t uid, uint32_t gid, int mask) {
    return errno_of(mount.run(mount.fs().access(mount.user(uid, gid), node, mask)));
  };
  EXPECT_EQ(access(1000, 1000, R_OK | W_OK), 0);
  EXPECT_EQ(access(1001, 1000, R_OK), 0);
  EXPECT_EQ(access(1001, 1000, W_OK), EACCES);
  EXPECT_EQ(access(1001, 1001, R_OK), EACCES);
  EXPECT_EQ(access(1000, 1000, X_OK), EACCES);
  EXPECT_EQ(access(1001, 1001, F_OK), 0);
  EXPECT_EQ(errno_of(mount.run(mount.fs().open(mount.user(1001, 1001), node, O_RDONLY))), EACCES);
}

// --- caches ---

// The kernel follows a cached name without asking whether the user may search the directory.
TEST_P(NamesLoops, DirectoryClosedToSomeSearchers_LosesItsNames) {
  TestMount m(*server, settings());
  ASSERT_EQ(m.mkdir("d"), 0);
  ASSERT_EQ(m.write_file("d/f", "text"), 0);
  const client::NodeRef directory = m.node("d");
  ASSERT_GT(m.lookup("d/f")->entry_ttl.count(), 0);
  const auto chmod = [&](uint32_t mode) {
    client::SetAttributes set;
    set.mode = mode;
    return errno_of(m.run(m.fs().setattr(m.user(), directory, set, nullptr)));
  };
  ASSERT_EQ(chmod(0711), 0);
  EXPECT_EQ(m.front_end.names(directory), std::set<std::string>{});
  ASSERT_EQ(chmod(0600), 0);
  EXPECT_EQ(m.front_end.names(directory), std::set<std::string>{"f"});
  EXPECT_EQ(m.lookup("d/f")->entry_ttl.count(), 0);
  ASSERT_EQ(chmod(0755), 0);
  EXPECT_GT(m.lookup("d/f")->entry_ttl.count(), 0);
}

TEST_P(NamesLoops, FreshNames_CostNoRequest) {
  server->make_file("/export/file", "content");
  TestMount mount(*server, settings());
  EXPECT_TRUE(mount.lookup("file"));
  EXPECT_EQ(errno_of(mount.lookup("absent")), ENOENT);
  const auto lookups = mount.requests("LOOKUP");
  const auto getattrs = mount.requests("GETATTR");
  for (int n = 0; n < 50; ++n) {
    EXPECT_TRUE(mount.lookup("file"));
    EXPECT_EQ(errno_of(mount.lookup("absent")), ENOENT);
    EXPECT_EQ(mount.stat("file")->size, 7u);
  }
  EXPECT_EQ(mount.requests("LOOKUP"), lookups);
  EXPECT_EQ(mount.requests("GETATTR"), getattrs);
}

TEST_P(NamesLoops, OwnChanges_AreKnownAtOnceAndKeepTheRest) {
  TestMount mount(*server, settings());
  ASSERT_EQ(mount.mkdir("d"), 0);
  ASSERT_EQ(mount.write_file("d/kept", ""), 0);
  ASSERT_EQ(mount.write_file("d/a", ""), 0);
  EXPECT_TRUE(mount.lookup("d/kept"));
  EXPECT_EQ(errno_of(mount.lookup("d/b")), ENOENT);
  EXPECT_EQ(mount.rename("d/a", "d/b"), 0);
  EXPECT_EQ(mount.mkdir("d/c"), 0);
  EXPECT_EQ(mount.unlink("d/b"), 0);
  EXPECT_EQ(mount.symlink("x", "d/a"), 0);
  const auto lookups = mount.requests("LOOKUP");
  EXPECT_TRUE(mount.lookup("d/kept"));
  EXPECT_EQ(errno_of(mount.lookup("d/b")), ENOENT);
  EXPECT_TRUE(mount.lookup("d/c"));
  EXPECT_EQ(S_IFMT & mount.lookup("d/a")->attributes.mode, uint32_t{S_IFLNK});
  EXPECT_EQ(mount.requests("LOOKUP"), lookups) << "nothing of that had to be asked for";
}

// The name was absent, and now it exists or may exist.
TEST_P(NamesLoops, NameThatCouldNotBeMade_IsAskedFor) {
  TestMount mount(*server, settings(for_an_hour));
  ASSERT_EQ(mount.mkdir("d"), 0);
  ASSERT_EQ(mount.mkdir("from"), 0);
  ASSERT_EQ(mount.write_file("d/mine", ""), 0);
  const auto made_by_others = [&](const std::string& name, const std::function<int(std::string)>& make) {
    EXPECT_EQ(errno_of(mount.lookup("d/" + name)), ENOENT);
    server->make_directory("/export/d/" + name);
    server->make_file("/export/d/" + name + "/file", "");
    EXPECT_EQ(errno_of(mount.lookup("d/" + name)), ENOENT) << "remembered";
    EXPECT_NE(make("d/" + name), 0);
    EXPECT_TRUE(mount.lookup("d/" + name)) << name;
  };
  made_by_others("created", [&](auto name) { return errno_of(mount.try_create(name, O_RDWR | O_EXCL)); });
  made_by_others("directory", [&](auto name) { return mount.mkdir(name); });
  made_by_others("linked", [&](auto name) { return mount.link("d/mine", name); });
  made_by_others("renamed", [&](auto name) { return mount.rename("from", name); });
}

// The server executes RENAME, but not the operations behind it in the COMPOUND.
TEST_P(NamesLoops, RenameWhoseAnswerEndsEarly_HasMovedTheNames) {
  TestMount mount(*server, settings(for_an_hour));
  ASSERT_EQ(mount.mkdir("a"), 0);
  ASSERT_EQ(mount.mkdir("b"), 0);
  ASSERT_EQ(mount.write_file("a/from", "text"), 0);
  EXPECT_EQ(errno_of(mount.lookup("b/to")), ENOENT);
  server->faults().add(on::request_with(OP_RENAME), Answer{OP_GETATTR, NFS4ERR_IO});
  EXPECT_EQ(mount.rename("a/from", "b/to"), 0);
  EXPECT_EQ(mount.stat("b/to")->size, 4u);
  EXPECT_EQ(errno_of(mount.lookup("a/from")), ENOENT);
}

// Section 10.8: a reply tells the state when the request was executed, not when it arrives.
TEST_P(NamesLoops, LookupAnsweredAfterAnOwnChange_DoesNotHideTheChange) {
  server->make_file("/export/old", "");
  server->make_file("/export/moved", "");
  TestMount mount(*server, settings());
  const auto looked_up = [&](const std::string& name, const std::function<void()>& meanwhile) {
    const auto rule = server->faults().add(on::reply_to(OP_LOOKUP), filer::fault::Stall{});
    auto entry = mount.start(mount.fs().lookup(mount.user(), mount.root(), name));
    EXPECT_TRUE(server->faults().wait_fired(rule));
    meanwhile();
    server->faults().release(rule);
    return entry.get();
  };
  const auto absent = looked_up("new", [&] { EXPECT_EQ(mount.write_file("new", "text"), 0); });
  ASSERT_TRUE(absent);
  EXPECT_FALSE(absent->node);
  EXPECT_EQ(absent->entry_ttl, Duration::zero());
  EXPECT_TRUE(mount.lookup("new"));
  const auto there = looked_up("old", [&] { EXPECT_EQ(mount.unlink("old"), 0); });
  ASSERT_TRUE(there && there->node);
  EXPECT_EQ(there->entry_ttl, Duration::zero());
  EXPECT_EQ(errno_of(mount.lookup("old")), ENOENT);
  const auto renamed = looked_up("moved", [&] { EXPECT_EQ(mount.rename("moved", "here"), 0); });
  ASSERT_TRUE(renamed && renamed->node);
  EXPECT_EQ(renamed->entry_ttl, Duration::zero());
  EXPECT_EQ(errno_of(mount.lookup("moved")), ENOENT);
  EXPECT_TRUE(mount.lookup("here"));
}

TEST_P(NamesLoops, LookupAnsweredAfterAChangeByOthersWasSeen_IsAskedAgain) {
  TestMount mount(*server, settings());
  const auto rule = server->faults().add(on::reply_to(OP_LOOKUP), filer::fault::Stall{});
  auto absent = mount.start(mount.fs().lookup(mount.user(), mount.root(), "new"));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  server->make_file("/export/new", "");
  mount.list("");  // it fetches the directory's attributes
  server->faults().release(rule);
  const auto entry = absent.get();
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->entry_ttl, Duration::zero());
  EXPECT_TRUE(mount.lookup("new"));
}

TEST_P(NamesLoops, LookupCachePositive_AsksForAbsentNamesEachTime) {
  TestMount mount(*server, settings([](ClientOptions& o) { o.lookupcache = LookupCache::kPositive; }));
  server->make_file("/export/file", "");
  EXPECT_TRUE(mount.lookup("file"));
  EXPECT_EQ(errno_of(mount.lookup("absent")), ENOENT);
  server->make_file("/export/absent", "");
  EXPECT_TRUE(mount.lookup("absent"));
  const auto lookups = mount.requests("LOOKUP");
  (void)mount.lookup("file");
  EXPECT_LE(mount.requests("LOOKUP"), lookups + 1);
}

TEST_P(NamesLoops, LookupCacheNone_AsksForEveryNameEachTime) {
  TestMount mount(*server, settings([](ClientOptions& o) { o.lookupcache = LookupCache::kNone; }));
  server->make_file("/export/file", "");
  for (int n = 1; n <= 5; ++n) {
    const auto lookups = mount.requests("LOOKUP");
    EXPECT_TRUE(mount.lookup("file"));
    EXPECT_EQ(mount.requests("LOOKUP"), lookups + 1);
    EXPECT_EQ(mount.lookup("file")->entry_ttl, Duration::zero());
  }
}

TEST_P(NamesLoops, Noac_SeesEveryChangeAtOnce) {
  TestMount one(*server, settings([](ClientOptions& o) { o.noac = true; }));
  TestMount two(*server, settings([](ClientOptions& o) { o.noac = true; }));
  EXPECT_EQ(errno_of(two.lookup("file")), ENOENT);
  for (int n = 1; n <= 5; ++n) {
    EXPECT_EQ(one.write_file("file", std::string(static_cast<size_t>(n), 'x')), 0);
    EXPECT_EQ(two.stat("file")->size, static_cast<uint64_t>(n));
  }
  EXPECT_EQ(one.unlink("file"), 0);
  EXPECT_EQ(errno_of(two.lookup("file")), ENOENT);
  EXPECT_EQ(two.stat("")->ino, one.stat("")->ino);
  EXPECT_EQ(two.run(two.fs().getattr(two.user(), two.root(), nullptr))->ttl, Duration::zero());
}

TEST_P(NamesLoops, WithinAcregmin_AttributesAreRemembered) {
  TestMount mount(*server, settings(for_an_hour));
  server->make_file("/export/file", "content");
  EXPECT_EQ(mount.stat("file")->size, 7u);
  server->write_file("/export/file", 0, "much longer than before");
  EXPECT_EQ(mount.stat("file")->size, 7u) << "remembered";
  EXPECT_EQ(mount.read_file("file"), "much longer than before") << "an open asks";
  EXPECT_EQ(mount.stat("file")->size, 23u);
}

TEST_P(NamesLoops, ActimeoOver_IsAskedAgain) {
  TestMount mount(*server,
                  settings([](ClientOptions& o) { o.acregmin = o.acregmax = o.acdirmin = o.acdirmax = 1s; }));
  server->make_file("/export/file", "content");
  EXPECT_EQ(mount.stat("file")->size, 7u);
  EXPECT_EQ(errno_of(mount.lookup("new")), ENOENT);
  server->write_file("/export/file", 0, "much longer than before");
  server->make_file("/export/new", "");
  EXPECT_TRUE(eventually([&] { return mount.stat("file")->size == 23u; }));
  EXPECT_TRUE(eventually([&] { return mount.lookup("new").has_value(); }))
      << "the directory changed, so what was absent is asked for";
}

// --- close-to-open (section 10.3.1) ---

TEST_P(NamesLoops, OpenAfterCloseElsewhere_SeesTheData) {
  TestMount one(*server, settings()), two(*server, settings());
  for (int n = 0; n < 10; ++n) {
    const std::string text = "round " + std::to_string(n) + std::string(static_cast<size_t>(n * 50'000), 'x');
    EXPECT_EQ(one.write_file("file", text), 0);
    const auto file = two.open("file");
    EXPECT_EQ(*two.read(file, 0, 1 << 20), text);
    two.close(file);
    EXPECT_EQ(two.stat("file")->size, text.size());
  }
}

TEST_P(NamesLoops, KeepCache_IsSaidOnlyWhenNothingChanged) {
  TestMount one(*server, settings()), two(*server, settings());
  ASSERT_EQ(one.write_file("file", "content"), 0);
  const auto open_and_close = [&](TestMount& m) {
    auto opened = m.run(m.fs().open(m.user(), m.node("file"), O_RDONLY));
    EXPECT_TRUE(opened);
    m.close(opened->file);
    return opened->keep_cache;
  };
  open_and_close(two);
  EXPECT_TRUE(open_and_close(two));
  ASSERT_EQ(one.write_file("file", "other"), 0);
  EXPECT_FALSE(open_and_close(two));
  EXPECT_TRUE(open_and_close(two));
  EXPECT_TRUE(open_and_close(one)) << "what one wrote itself it has";
}

// RFC 8881 section 10.3.1: "cached data present on a client must be revalidated after doing an OPEN". This
// also holds if our own change follows another client's.
TEST_P(NamesLoops, KeepCache_IsNotSaidOfWhatAnotherClientWroteBetweenTwoWritesOfOurs) {
  TestMount one(*server, settings()), two(*server, settings());
  const auto file = one.create("file");
  ASSERT_EQ(one.write(file, 0, std::string(10'000, 'a')), 0);
  ASSERT_EQ(one.fsync(file), 0);
  const auto keep_cache = [&] {
    auto opened = one.run(one.fs().open(one.user(), one.node("file"), O_RDWR));
    EXPECT_TRUE(opened);
    one.close(opened->file);
    return opened->keep_cache;
  };
  ASSERT_EQ(one.write(file, 20'000, "ours"), 0);
  ASSERT_EQ(one.fsync(file), 0);
  EXPECT_TRUE(keep_cache()) << "only we have written";
  const unsigned before = one.front_end.data(one.node("file"));
  const auto theirs = two.open("file", O_RDWR);
  ASSERT_EQ(two.write(theirs, 5, "theirs"), 0);
  ASSERT_EQ(two.close(theirs), 0);
  ASSERT_EQ(one.write(file, 20'000, "ours"), 0);
  ASSERT_EQ(one.fsync(file), 0);
  EXPECT_EQ(one.front_end.data(one.node("file")), before + 1) << "the kernel is told as soon as it is known";
  ASSERT_EQ(two.close(two.open("file")), 0);
  ASSERT_EQ(one.close(file), 0);
  keep_cache();
  EXPECT_TRUE(keep_cache());
}

// Many WRITEs in parallel: the reply to each has attributes that the others have changed.
TEST_P(NamesLoops, KeepCache_IsSaidOfWhatWeWroteInParallel) {
  TestMount one(*server, settings());
  const auto file = one.create("file");
  for (uint64_t i = 0; i < 40; ++i) ASSERT_EQ(one.write(file, i * 1'000'000, std::string(200'000, 'a')), 0);
  ASSERT_EQ(one.close(file), 0);
  auto opened = one.run(one.fs().open(one.user(), one.node("file"), O_RDONLY));
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->keep_cache);
  one.close(opened->file);
  EXPECT_EQ(one.front_end.data(one.node("file")), 0u);
}

// chmod(2), link(2) and truncate(2) change the change attribute, too.
TEST_P(NamesLoops, KeepCache_IsNotSaidOfWhatAnotherClientWroteBeforeOurChmod) {
  TestMount one(*server, settings()), two(*server, settings());
  ASSERT_EQ(one.write_file("file", "content"), 0);
  const auto keep_cache = [&] {
    auto opened = one.run(one.fs().open(one.user(), one.node("file"), O_RDWR));
    EXPECT_TRUE(opened);
    one.close(opened->file);
    return opened->keep_cache;
  };
  const auto set_mode = [&](uint32_t mode) {
    client::SetAttributes set;
    set.mode = mode;
    return errno_of(one.run(one.fs().setattr(one.user(), one.node("file"), set, nullptr)));
  };
  keep_cache();
  EXPECT_EQ(set_mode(0600), 0);
  EXPECT_EQ(one.link("file", "other"), 0);
  EXPECT_TRUE(keep_cache()) << "only we have changed it";
  const unsigned before = one.front_end.data(one.node("file"));
  ASSERT_EQ(two.write_file("file", "theirs!"), 0);
  EXPECT_EQ(set_mode(0640), 0);
  EXPECT_EQ(one.front_end.data(one.node("file")), before + 1);
}

TEST_P(NamesLoops, ChangeByOthersSeenInPassing_ForgetsWhatTheKernelHas) {
  TestMount one(*server, settings()), two(*server, settings([](ClientOptions&o) { o.noac = true; }));
  ASSERT_EQ(one.write_file("file", "content"), 0);
  const auto node = two.node("file");
  const auto file = two.open("file");
  EXPECT_EQ(*two.read(file), "content");
  const unsigned before = two.front_end.data(node);
  ASSERT_EQ(one.write_file("file", "other"), 0);
  EXPECT_EQ(two.stat("file")->size, 5u);
  EXPECT_GT(two.front_end.data(node), before);
  two.close(file);
}

// --- files without a name (silly rename) ---

TEST_P(NamesLoops, RemovedWhileOpen_StaysUsable) {
  for (const bool preserving : {true, false}) {
    server->configure([=](filer::nfs::Switches& s) { s.preserve_unlinked = preserving; });
    server->with_core([=](filer::nfs::Core& core) { core.tree.preserve_unlinked(preserving); });
    TestMount mount(*server, settings());
    const auto file = mount.create("file");
    ASSERT_EQ(mount.write(file, 0, "before"), 0);
    EXPECT_EQ(mount.unlink("file"), 0);
    EXPECT_EQ(errno_of(mount.lookup("file")), ENOENT);
    EXPECT_EQ(mount.write(file, 6, " and after"), 0);
    EXPECT_EQ(mount.read(file).value_or("error"), "before and after");
    EXPECT_EQ(mount.fsync(file), 0);
    EXPECT_EQ(server->list("/export").size(), preserving ? 0u : 1u) << "hidden under another name";
    EXPECT_EQ(mount.close(file), 0);
    EXPECT_TRUE(server->list("/export").empty()) << "and gone with the last close";
  }
}

TEST_P(NamesLoops, ReplacedWhileOpen_StaysUsable) {
  server->configure([](filer::nfs::Switches& s) { s.preserve_unlinked = false; });
  server->with_core([](filer::nfs::Core& core) { core.tree.preserve_unlinked(false); });
  TestMount mount(*server, settings());
  ASSERT_EQ(mount.write_file("new", "new"), 0);
  const auto file = mount.create("file");
  ASSERT_EQ(mount.write(file, 0, "old"), 0);
  EXPECT_EQ(mount.rename("new", "file"), 0);
  EXPECT_EQ(mount.read(file).value_or("error"), "old");
  EXPECT_EQ(mount.read_file("file"), "new");
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->list("/export"), std::vector<std::string>{"file"});
}

TEST_P(NamesLoops, RemovedOneOfTwoNames_IsNotHidden) {
  server->configure([](filer::nfs::Switches& s) { s.preserve_unlinked = false; });
  server->with_core([](filer::nfs::Core& core) { core.tree.preserve_unlinked(false); });
  TestMount mount(*server, settings());
  const auto file = mount.create("file");
  EXPECT_EQ(mount.link("file", "second"), 0);
  EXPECT_EQ(mount.unlink("file"), 0);
  EXPECT_EQ(server->list("/export"), std::vector<std::string>{"second"});
  EXPECT_EQ(mount.write(file, 0, "text"), 0);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/second"), "text");
}

// close(2) has returned, and its RELEASE is in progress. Neither rmdir(2) nor a rename(2) onto the directory
// may fail because of the hidden name. The kernel is told when it is removed.
TEST_P(NamesLoops, DirectoryOfAHiddenName_GoesBehindTheLastClose) {
  server->configure([](filer::nfs::Switches& s) { s.preserve_unlinked = false; });
  server->with_core([](filer::nfs::Core& core) { core.tree.preserve_unlinked(false); });
  TestMount mount(*server, settings());
  for (const bool renamed_over : {false, true}) {
    SCOPED_TRACE(renamed_over);
    ASSERT_EQ(mount.mkdir("d"), 0);
    ASSERT_EQ(mount.mkdir("new"), 0);
    const auto file = mount.create("d/file");
    ASSERT_EQ(mount.unlink("d/file"), 0);
    const auto remove = [&]() -> Task<Result<>> {
      if (renamed_over) return mount.fs().rename(mount.user(), mount.root(), "new", mount.root(), "d", 0);
      return mount.fs().rmdir(mount.user(), mount.root(), "d");
    };
    EXPECT_EQ(errno_of(mount.run(remove())), ENOTEMPTY) << "it is open";
    const auto directory = mount.node("d");
    const std::string hidden = server->list("/export/d").at(0);
    const auto stalled =
        server->faults().add(filer::on::request_with(nfs4::OP_REMOVE), filer::fault::Stall{});
    auto closing = mount.start(mount.fs().release(mount.user(), file));
    ASSERT_TRUE(server->faults().wait_fired(stalled, 1));
    auto removing = mount.start(remove());
    mount.settle();
    EXPECT_EQ(removing.wait_for(0s), std::future_status::timeout);
    server->faults().release(stalled);
    closing.get();
    EXPECT_TRUE(removing.get());
    EXPECT_EQ(server->list("/export").size(), 1u);
    EXPECT_TRUE(mount.front_end.names(directory).contains(hidden));
    EXPECT_EQ(mount.rmdir(renamed_over ? "d" : "new"), 0);
  }
}

// RENAME moves the file that the name has on the server, not the one that is cached here.
TEST_P(NamesLoops, RenameOfANameThatAnotherClientHasGivenToAnotherFile_LeadsToThat) {
  server->make_file("/export/log", "first");
  server->make_file("/export/next", "second");
  TestMount mount(*server, settings());
  TestMount other(*server, settings());
  ASSERT_EQ(mount.read_file("log"), "first");
  ASSERT_EQ(other.rename("log", "log.1"), 0);
  ASSERT_EQ(other.rename("next", "log"), 0);
  ASSERT_EQ(mount.rename("log", "log.2"), 0);
  EXPECT_EQ(mount.read_file("log.2"), "second");
  EXPECT_EQ(mount.read_file("log.1"), "first");
}

// --- listings ---

// An entry that does not fit into the reply is not recorded as known to the kernel.
TEST_P(NamesLoops, EntriesOfAPage_FitIntoTheReply) {
  server->make_directory("/export/d");
  for (int i = 0; i < 300; ++i)
    server->make_file("/export/d/" + std::string(1 + i % 60, 'n') + std::to_string(i), "");
  TestMount mount(*server, settings());
  const auto directory = mount.run(mount.fs().opendir(mount.user(), mount.node("d")));
  ASSERT_TRUE(directory);
  for (const bool plus : {false, true}) {
    uint64_t offset = 0;
    size_t listed = 0;
    for (;;) {
      const auto page = mount.run(mount.fs().readdir(mount.user(), directory->directory, offset, 4096, plus));
      ASSERT_TRUE(page);
      if (page->entries.empty()) break;
      size_t used = 0;
      for (const auto& e : page->entries) used += ((plus ? 152 : 24) + e.name.size() + 7) / 8 * 8;
      EXPECT_LE(used, 4096u);
      listed += page->entries.size();
      offset = page->entries.back().next;
    }
    EXPECT_EQ(listed, 302u);
  }
  mount.run(mount.fs().releasedir(directory->directory));
}

TEST_P(NamesLoops, TenThousandEntries_AreListedOnce) {
  server->make_directory("/export/d");
  for (int i = 0; i < 10'000; ++i) server->make_file("/export/d/name " + std::to_string(i), "");
  TestMount mount(*server, settings());
  const std::vector<std::string> names = mount.list("d");
  EXPECT_EQ(names.size(), 10'000u);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 10'000u);
  EXPECT_LT(mount.requests("READDIR"), 30u);
}

// POSIX: an entry that is neither added nor removed while a directory is read is returned exactly once.
TEST_P(NamesLoops, ListedWhileOthersChangeIt_ReturnsTheUnchangedOnce) {
  for (const bool strict : {false, true}) {
    server->configure([=](filer::nfs::Switches& s) { s.strict_cookie_verifier = strict; });
    const std::string directory = strict ? "strict" : "lenient";
    server->make_directory("/export/" + directory, 0777);
    for (int i = 0; i < 10'000; ++i)
      server->make_file("/export/" + directory + "/kept " + std::to_string(i), "");
    TestMount mount(*server, settings());
    const auto handle = mount.run(mount.fs().opendir(mount.user(), mount.node(directory)));
    ASSERT_TRUE(handle);
    std::map<std::string, unsigned> seen;
    int round = 0;
    for (uint64_t offset = 0;; ++round) {
      const auto page =
          mount.run(mount.fs().readdir(mount.user(), handle->directory, offset, 32768, round % 2 == 0));
      ASSERT_TRUE(page) << describe(page.error());
      if (page->entries.empty()) break;
      for (const auto& e : page->entries) ++seen[e.name];
      offset = page->entries.back().next;
      const std::string path = "/export/" + directory + "/";
      server->make_file(path + "added " + std::to_string(round), "");
      if (round > 0) server->remove_file(path + "added " + std::to_string(round - 1));
    }
    unsigned kept = 0;
    for (const auto& [name, times] : seen) {
      EXPECT_EQ(times, 1u) << name;
      kept += name.starts_with("kept ");
    }
    EXPECT_EQ(kept, 10'000u);
    EXPECT_TRUE(seen.contains(".") && seen.contains(".."));
    EXPECT_GT(round, 5);
    mount.run(mount.fs().releasedir(handle->directory));
  }
}

// The server's cookies end with every change (section 18.23.3), but the entries keep their cookies.
TEST_P(NamesLoops, PlaceInAListingThatEnded_IsFoundAgain) {
  server->configure([](filer::nfs::Switches& s) { s.strict_cookie_verifier = true; });
  server->make_directory("/export/d", 0777);
  for (int i = 0; i < 3000; ++i) server->make_file("/export/d/name " + std::to_string(i), "");
  TestMount mount(*server, settings());
  const auto node = mount.node("d");
  const auto first = mount.run(mount.fs().opendir(mount.user(), node));
  const auto page = mount.run(mount.fs().readdir(mount.user(), first->directory, 0, 4096, false));
  ASSERT_TRUE(page && page->entries.size() > 2);
  const uint64_t place = page->entries.back().next;
  server->make_file("/export/d/added", "");
  const auto second = mount.run(mount.fs().opendir(mount.user(), node));
  const auto rest = mount.run(mount.fs().readdir(mount.user(), second->directory, place, 4096, true));
  ASSERT_TRUE(rest) << describe(rest.error());
  ASSERT_FALSE(rest->entries.empty());
  EXPECT_EQ(rest->entries[0].name, "name " + std::to_string(page->entries.size() - 2));
  const auto nowhere = mount.run(mount.fs().readdir(mount.user(), second->directory, 1 << 30, 4096, true));
  EXPECT_EQ(errno_of(nowhere), EIO);
}

// nfs-ganesha's cookies do this over a tmpfs whose files change places: the first entry follows the last one.
// Each name is listed once, whether the circle is within one reply or longer.
TEST_P(NamesLoops, CookiesInACircle_EveryNameOnceAndAnEnd) {
  server->configure([](filer::nfs::Switches& s) { s.looping_cookies = true; });
  for (const int names : {1, 2, 3, 700, 5000}) {
    const std::string path = "/export/d" + std::to_string(names);
    server->make_directory(path, 0777);
    for (int i = 0; i < names; ++i) server->make_file(path + "/name " + std::to_string(i), "");
    TestMount mount(*server, settings());
    const auto node = mount.node("d" + std::to_string(names));
    for (const bool plus : {false, true}) {
      const auto handle = mount.run(mount.fs().opendir(mount.user(), node));
      std::map<std::string, unsigned> seen;
      uint64_t offset = 0, middle = 0;
      for (;;) {
        const auto page = mount.run(mount.fs().readdir(mount.user(), handle->directory, offset, 4096, plus));
        ASSERT_TRUE(page) << describe(page.error());
        if (page->entries.empty()) break;
        for (const auto& e : page->entries) ++seen[e.name];
        offset = page->entries.back().next;
        if (middle == 0) middle = offset;
        ASSERT_EQ(seen[page->entries.back().name], 1u) << "and no end";
      }
      EXPECT_EQ(seen.size(), 2u + static_cast<unsigned>(names));
      for (const auto& [name, times] : seen) EXPECT_EQ(times, 1u) << name;
      // The listing ends also after a seekdir(3).
      size_t more = 0;
      for (offset = middle; more < 4u * static_cast<unsigned>(names) + 4;) {
        const auto page = mount.run(mount.fs().readdir(mount.user(), handle->directory, offset, 4096, plus));
        ASSERT_TRUE(page) << describe(page.error());
        if (page->entries.empty()) break;
        more += page->entries.size();
        offset = page->entries.back().next;
      }
      EXPECT_LE(more, 2u * static_cast<unsigned>(names)) << "no end";
      mount.run(mount.fs().releasedir(handle->directory));
    }
    EXPECT_EQ(mount.list("d" + std::to_string(names)).size(), static_cast<unsigned>(names));
  }
}

// People who may not read a mount's files may read its log: file names appear only from debug on.
TEST_P(NamesLoops, CookiesInACircle_AreToldOfWithoutTheNameBelowDebug) {
  server->configure([](filer::nfs::Switches& s) { s.looping_cookies = true; });
  server->make_directory("/export/precious", 0777);
  for (const char* name : {"a", "b", "c"}) server->make_file(std::string("/export/precious/") + name, "");
  for (const auto level : {spdlog::level::info, spdlog::level::debug}) {
    TestMount mount(*server, settings());
    const CapturedLog log(level);
    EXPECT_EQ(mount.list("precious").size(), 3u);
    EXPECT_TRUE(log.has("go in a circle")) << log.text();
    EXPECT_EQ(log.has("precious"), level == spdlog::level::debug) << log.text();
    EXPECT_EQ(log.has("find -inum"), level == spdlog::level::info) << log.text();
  }
}

// A READDIR's reply is returned in pieces. A file that we removed since is not returned.
TEST_P(NamesLoops, RemovedAfterItWasRead_IsNotListed) {
  server->make_directory("/export/d", 0777);
  for (int i = 0; i < 300; ++i) server->make_file("/export/d/name " + std::to_string(i), "");
  TestMount mount(*server, settings());
  const auto handle = mount.run(mount.fs().opendir(mount.user(), mount.node("d")));
  auto page = mount.run(mount.fs().readdir(mount.user(), handle->directory, 0, 4096, true));
  ASSERT_TRUE(page && !page->entries.empty() && page->entries.size() < 100);
  EXPECT_EQ(mount.unlink("d/name 298"), 0);
  EXPECT_TRUE(mount.lookup("d/name 297"));  // as the kernel does before a rename
  EXPECT_EQ(mount.rename("d/name 297", "d/name 299"), 0);
  std::map<std::string, client::DirectoryEntry> seen;
  while (!page->entries.empty()) {
    for (auto& e : page->entries) seen[e.name] = e;
    page =
        mount.run(mount.fs().readdir(mount.user(), handle->directory, page->entries.back().next, 4096, true));
    ASSERT_TRUE(page);
  }
  EXPECT_EQ(mount.requests("READDIR"), 1u);
  EXPECT_EQ(seen.size(), 300u) << "with . and ..";
  EXPECT_FALSE(seen.contains("name 297"));
  EXPECT_FALSE(seen.contains("name 298"));
  EXPECT_FALSE(seen["name 299"].entry) << "another file now";
  EXPECT_EQ(errno_of(mount.lookup("d/name 297")), ENOENT);
  EXPECT_EQ(errno_of(mount.lookup("d/name 298")), ENOENT);
  ASSERT_TRUE(seen["name 200"].entry);
  EXPECT_GT(seen["name 200"].entry->entry_ttl, Duration::zero()) << "the others are believed";
}

TEST_P(NamesLoops, RemovedByOthersAfterItWasRead_IsAskedFor) {
  server->make_directory("/export/d", 0777);
  for (int i = 0; i < 300; ++i) server->make_file("/export/d/name " + std::to_string(i), "");
  TestMount mount(*server, settings());
  const auto node = mount.node("d");
  const auto handle = mount.run(mount.fs().opendir(mount.user(), node));
  auto page = mount.run(mount.fs().readdir(mount.user(), handle->directory, 0, 4096, true));
  ASSERT_TRUE(page && page->entries.size() < 100);
  server->remove_file("/export/d/name 299");
  ASSERT_TRUE(mount.run(mount.fs().opendir(mount.user(), node))) << "it sees that the directory changed";
  std::vector<client::DirectoryEntry> rest;  // keeps the nodes, as the kernel does
  while (!page->entries.empty()) {
    page =
        mount.run(mount.fs().readdir(mount.user(), handle->directory, page->entries.back().next, 4096, true));
    ASSERT_TRUE(page);
    rest.insert(rest.end(), page->entries.begin(), page->entries.end());
  }
  ASSERT_EQ(rest.back().name, "name 299") << "what a listing has begun with may be given out";
  EXPECT_EQ(rest.back().entry->entry_ttl, Duration::zero());
  EXPECT_EQ(errno_of(mount.lookup("d/name 299")), ENOENT);
}

TEST_P(NamesLoops, Offsets_MayBeSoughtInAnyOrder) {
  server->make_directory("/export/d");
  for (int i = 0; i < 500; ++i) server->make_file("/export/d/name " + std::to_string(i), "");
  TestMount mount(*server, settings());
  const auto handle = mount.run(mount.fs().opendir(mount.user(), mount.node("d")));
  std::vector<std::pair<uint64_t, std::string>> order;  // offset before the entry, name
  for (uint64_t offset = 0;;) {
    const auto page = mount.run(mount.fs().readdir(mount.user(), handle->directory, offset, 4096, false));
    if (page->entries.empty()) break;
    for (const auto& e : page->entries) {
      order.emplace_back(offset, e.name);
      offset = e.next;
    }
  }
  ASSERT_EQ(order.size(), 502u);
  for (size_t i = 0; i < order.size(); i += 37) {
    const size_t at = order.size() - 1 - i;
    const auto page =
        mount.run(mount.fs().readdir(mount.user(), handle->directory, order[at].first, 64, false));
    ASSERT_FALSE(page->entries.empty());
    EXPECT_EQ(page->entries[0].name, order[at].second);
  }
}

TEST_P(NamesLoops, Readdirplus_FillsTheCaches) {
  server->make_directory("/export/d");
  for (int i = 0; i < 300; ++i)
    server->make_file("/export/d/name " + std::to_string(i), std::string(static_cast<size_t>(i), 'x'));
  TestMount mount(*server, settings());
  const auto handle = mount.run(mount.fs().opendir(mount.user(), mount.node("d")));
  std::vector<client::DirectoryEntry> all;  // keeps the nodes, as the kernel does
  for (uint64_t offset = 0;;) {
    const auto page = mount.run(mount.fs().readdir(mount.user(), handle->directory, offset, 65536, true));
    ASSERT_TRUE(page);
    if (page->entries.empty()) break;
    all.insert(all.end(), page->entries.begin(), page->entries.end());
    offset = page->entries.back().next;
  }
  const auto before = mount.requests("LOOKUP") + mount.requests("GETATTR");
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(mount.stat("d/name " + std::to_string(i))->size, static_cast<uint64_t>(i));
  }
  EXPECT_EQ(mount.requests("LOOKUP") + mount.requests("GETATTR"), before);
  for (const auto& e : all) {
    EXPECT_NE(e.ino, 0u);
    if (e.entry) {
      EXPECT_EQ(e.entry->attributes.ino, e.ino);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Loops, NamesLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test

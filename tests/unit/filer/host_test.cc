// SPDX-License-Identifier: Apache-2.0
// A host's directory as an export: behaviour that differs from memory. As root and as another user.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/unit/filer/host_fixture.h"

namespace nfsrdma::filer::test {
namespace {

// "If the object does exist and the stored verifier matches the client provided verifier, the server uses the
// existing object as the newly created object": also if the server was restarted in between.
TEST_F(HostTest, ExclusiveCreateSentAgainBehindARestart_IsTheSame) {
  const auto create = [&](uint64_t verifier) {
    OPEN4args args = client->open_args("made", OPEN4_SHARE_ACCESS_BOTH);
    args.openhow.opentype = OPEN4_CREATE;
    args.openhow.how.mode = EXCLUSIVE4_1;
    args.openhow.how.createverf = verifier4::of(verifier);
    return client->run_at("/export", ops(args)).status;
  };
  ASSERT_EQ(create(42), NFS4_OK);
  begin();
  EXPECT_EQ(create(7), NFS4ERR_EXIST);
  EXPECT_EQ(create(42), NFS4_OK);
  begin();
  fs::remove(inside() + "/made");
  std::ofstream(inside() + "/made") << "from the host";
  EXPECT_EQ(create(42), NFS4ERR_EXIST) << "another file of that name";
}

// "space_free: Free disk space in bytes", "space_avail: Disk space in bytes available to this user" (RFC 8881
// sections 5.8.2.33, 5.8.2.32): the blocks reserved for root are free, but not available.
TEST_F(HostTest, FreeSpace_IsNotWhatIsAvailable) {
  struct statvfs host {};
  ASSERT_EQ(statvfs(inside().c_str(), &host), 0);
  const auto told = client->attributes(
      "/export", bitmap4::of({FATTR4_SPACE_FREE, FATTR4_SPACE_AVAIL, FATTR4_FILES_FREE, FATTR4_FILES_AVAIL}));
  const auto near = [](uint64_t a, uint64_t b) {
    return std::max(a, b) - std::min(a, b) < (uint64_t{1} << 30);
  };
  EXPECT_TRUE(near(told.fs->space_avail, host.f_bavail * host.f_frsize)) << told.fs->space_avail;
  EXPECT_TRUE(near(told.fs->space_free, host.f_bfree * host.f_frsize)) << told.fs->space_free;
  EXPECT_GE(told.fs->files_free, told.fs->files_avail);
}

TEST_F(HostTest, WhatClientsWrite_IsOnTheHost_AndTheOtherWayRound) {
  struct stat facts {};
  std::ofstream(inside() + "/f") << "from the host";
  EXPECT_EQ(client->read("/export/f"), "from the host");
  EXPECT_EQ(client->write("/export/f", {}, uint64_t{5} << 30, "far").status, NFS4_OK);
  ASSERT_EQ(stat((inside() + "/f").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_size, (off_t{5} << 30) + 3);
  EXPECT_LT(facts.st_blocks, 1000) << "it is sparse";
}

// RFC 8881 section 5.8.2.17, maxfilesize: "Maximum supported file size for the file system of this object."
TEST_F(HostTest, LargestFile_IsWhatTheHostsFileSystemCanHave) {
  bitmap4 wanted;
  wanted.set(FATTR4_MAXFILESIZE);
  const uint64_t told = client->attributes("/export", wanted).fs->maxfilesize;
  const std::string path = inside() + "/f";
  std::ofstream(path) << "content";
  EXPECT_EQ(truncate(path.c_str(), static_cast<off_t>(told)), 0) << strerror(errno) << ", " << told;
  if (told == INT64_MAX) return;  // tmpfs
  EXPECT_NE(truncate(path.c_str(), static_cast<off_t>(told + 1)), 0);
  EXPECT_EQ(errno, EFBIG);
  EXPECT_EQ(client->write("/export/f", {}, told, "x").status, NFS4ERR_FBIG);
}

// "The server must vary the value of the write verifier at each server event or instantiation that may lead
// to a loss of uncommitted data": the host reports a failed write once, to whoever asks first.
TEST_F(HostTest, DataThatCannotBeWrittenOut_ChangesTheVerifier) {
  std::ofstream(inside() + "/f") << "content";
  RawClient other(*server, "other", client->user);
  ASSERT_TRUE(other.establish());
  const auto commit = [](RawClient& c) {
    return at<COMMIT4res>(c.run_at("/export/f", ops(COMMIT4args{0, 0})), 0);
  };
  const verifier4 before = other.write("/export/f", {}, 0, "theirs", UNSTABLE4).resok4.writeverf;
  EXPECT_EQ(client->write("/export/f", {}, 10, "ours", UNSTABLE4).resok4.writeverf, before);
  failing_fsyncs = 1;
  EXPECT_EQ(commit(*client).status, NFS4ERR_IO);
  const COMMIT4res committed = commit(other);
  EXPECT_EQ(committed.status, NFS4_OK);
  EXPECT_NE(committed.resok4.writeverf, before) << "what was written before may be lost";
  failing_fsyncs = 1;
  EXPECT_EQ(client->write("/export/f", {}, 10, "ours").status, NFS4ERR_IO) << "to stable storage";
  EXPECT_NE(commit(other).resok4.writeverf, committed.resok4.writeverf);
}

TEST_F(HostTest, SymbolicLinksAreNeverFollowed) {
  fs::create_symlink(outside(), inside() + "/way");
  fs::create_symlink(outside() + "/secret", inside() + "/link");
  EXPECT_EQ(client->run_at("/export/way", ops(LOOKUP4args{"secret"})).status, NFS4ERR_SYMLINK);
  EXPECT_EQ(client->run_at("/export/link", ops(READ4args{{}, 0, 10})).status, NFS4ERR_SYMLINK);
  EXPECT_EQ(client->run_at("/export", ops(client->open_args("link"))).status, NFS4ERR_SYMLINK);
  EXPECT_EQ(client->run_at("/export/way", ops(CREATE4args{{NF4DIR}, "d", {}})).status, NFS4ERR_NOTDIR);
  const auto reply = client->run_at("/export/link", ops(READLINK4args{}));
  EXPECT_EQ(at<READLINK4res>(reply, 0).resok4.link, outside() + "/secret");
}

TEST_F(HostTest, NamesThatAreNoNames_LeadNowhere) {
  for (const std::string name : {"..", ".", "../outside", "a/b", "/etc", ""}) {
    for (const Ops& op : {ops(LOOKUP4args{name}), ops(REMOVE4args{name}),
                          ops(CREATE4args{{NF4DIR}, name, {}}), ops(client->open_args(name))}) {
      const nfsstat4 status = client->run_at("/export", op).status;
      EXPECT_TRUE(status == NFS4ERR_BADNAME || status == NFS4ERR_BADCHAR || status == NFS4ERR_INVAL)
          << name << ": " << name_of(status);
    }
  }
  const std::string nul("secret\0", 7);
  EXPECT_EQ(client->run_at("/export", ops(LOOKUP4args{nul})).status, NFS4ERR_BADCHAR);
  EXPECT_TRUE(fs::exists(outside() + "/secret"));
}

TEST_F(HostTest, LookupParent_EndsAtTheExport) {
  fs::create_directories(inside() + "/a/b");
  const auto reply = client->run_at("/export/a/b", ops(LOOKUPP4args{}, LOOKUPP4args{}, GETFH4args{}));
  EXPECT_EQ(at<GETFH4res>(reply, 2).resok4.object, client->handle_of("/export"));
  const auto above = client->run_at("/export", ops(LOOKUPP4args{}, LOOKUP4args{"outside"}));
  EXPECT_EQ(above.status, NFS4ERR_NOENT) << "above the export is the pseudo file system";
}

TEST_F(HostTest, ADirectoryThatWasMovedOut_HasNoWayUp) {
  fs::create_directories(inside() + "/a");
  const nfs_fh4 moved = client->handle_of("/export/a");
  fs::rename(inside() + "/a", outside() + "/a");
  const auto reply = client->run(ops(PUTFH4args{moved}, LOOKUPP4args{}));
  EXPECT_EQ(reply.status, NFS4ERR_STALE);
}

TEST_F(HostTest, ForgedHandles_AreBadHandles) {
  std::ofstream(inside() + "/f") << "x";
  const nfs_fh4 real = client->handle_of("/export/f");
  ASSERT_EQ(put(real), NFS4_OK);
  const ConstBytes bytes = real.bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    ByteVector forged(bytes.begin(), bytes.end());
    forged[i] ^= std::byte{1};
    EXPECT_EQ(put(nfs_fh4(forged)), NFS4ERR_BADHANDLE) << "byte " << i;
  }
  EXPECT_EQ(put(nfs_fh4(bytes.first(bytes.size() - 1))), NFS4ERR_BADHANDLE);
  EXPECT_EQ(put(nfs_fh4(bytes.first(9))), NFS4ERR_BADHANDLE);
}

TEST_F(HostTest, HandlesSurviveARestart_AndRenames_AndAreStaleAfterRemoval) {
  fs::create_directories(inside() + "/d/e");
  std::ofstream(inside() + "/d/e/f") << "content";
  std::ofstream(inside() + "/d/gone") << "x";
  const nfs_fh4 file = client->handle_of("/export/d/e/f");
  const nfs_fh4 dir = client->handle_of("/export/d/e");
  const nfs_fh4 gone = client->handle_of("/export/d/gone");
  fs::remove(inside() + "/d/gone");
  fs::rename(inside() + "/d/e", inside() + "/moved");
  begin();
  EXPECT_EQ(put(file), NFS4_OK);
  EXPECT_EQ(put(dir), NFS4_OK);
  EXPECT_EQ(put(gone), NFS4ERR_STALE);
  EXPECT_EQ(client->handle_of("/export/moved/f"), file);
  std::ofstream(inside() + "/d/gone") << "another file, perhaps with the same inode";
  EXPECT_EQ(put(gone), NFS4ERR_STALE);
}

// A handle from a larger or another export opens nothing.
TEST_F(HostTest, HandlesOfAnotherDirectory_AreBadHandles) {
  fs::create_directory(inside() + "/public");
  std::ofstream(inside() + "/private") << "secret";
  std::ofstream(inside() + "/public/f") << "content";
  std::vector<nfs_fh4> old;
  for (const char* path : {"/export", "/export/private", "/export/public", "/export/public/f"})
    old.push_back(client->handle_of(path));
  for (const std::string& other : {inside() + "/public", outside()}) {
    begin(other);
    for (const nfs_fh4& handle : old) EXPECT_EQ(put(handle), NFS4ERR_BADHANDLE) << other;
    EXPECT_EQ(client->run(ops(PUTFH4args{old[0]}, CREATE4args{{NF4DIR}, "made", {}})).status,
              NFS4ERR_BADHANDLE);
  }
  fs::create_directory_symlink(inside(), directory.path() + "/another name");
  begin(directory.path() + "/another name");
  for (const nfs_fh4& handle : old) EXPECT_EQ(put(handle), NFS4_OK) << "it is the same directory";
}

TEST_F(HostTest, ChangeAttribute_MovesWithEveryChange) {
  std::ofstream(inside() + "/f") << "x";
  nfs4::changeid4 last = change();
  for (int i = 0; i < 50; ++i) {  // many within one tick of the host's clock
    ASSERT_EQ(
        client->write("/export/f", {}, 0, std::string(1, static_cast<char>('a' + i % 26)), UNSTABLE4).status,
        NFS4_OK);
    const nfs4::changeid4 now = change();
    EXPECT_GT(now, last);
    last = now;
  }
  EXPECT_EQ(change(), last) << "without a change it stays";
  std::ofstream(inside() + "/f", std::ios::app) << "by the host";
  EXPECT_GT(change(), last);
}

TEST_F(HostTest, ChangeAttribute_IsTheSameAfterARestart) {
  std::ofstream(inside() + "/f") << "x";
  pass_tick(inside() + "/f");
  const nfs4::changeid4 before = change();
  begin();
  EXPECT_EQ(change(), before);
}

TEST_F(HostTest, AnUnlinkedOpenFile_LivesUntilItsClose) {
  std::ofstream(inside() + "/f") << "content";
  const stateid4 id = client->open("/export/f");
  const nfs_fh4 handle = client->handle_of("/export/f");
  EXPECT_EQ(client->run_at("/export", ops(REMOVE4args{"f"})).status, NFS4_OK);
  EXPECT_FALSE(fs::exists(inside() + "/f"));
  EXPECT_EQ(client->run(ops(PUTFH4args{handle}, READ4args{id, 0, 10})).status, NFS4_OK);
  EXPECT_EQ(client->run(ops(PUTFH4args{handle}, WRITE4args{id, 0, FILE_SYNC4, {}})).status, NFS4_OK);
  EXPECT_EQ(client->run(ops(PUTFH4args{handle}, CLOSE4args{0, id})).status, NFS4_OK);
  EXPECT_EQ(put(handle), NFS4ERR_STALE);
}

TEST_F(HostTest, ReclaimAfterAnotherRun) {
  std::ofstream(inside() + "/f") << "content";
  client->open("/export/f");
  const nfs_fh4 handle = client->handle_of("/export/f");
  nfs::Options options{.exports = {}, .state_directory = directory.path() + "/state"};
  options.directories = {{.path = "/export", .directory = inside(), .squash = tree::Squash::kNone}};
  server.reset();
  server = start_server(std::move(options));
  EXPECT_TRUE(server->in_grace());
  RawClient stranger(*server, "stranger", User{.uid = geteuid()});
  ASSERT_TRUE(stranger.establish());
  EXPECT_EQ(stranger.run_at("/export", ops(stranger.open_args("f"))).status, NFS4ERR_GRACE);
  RawClient back(*server, "client", User{.uid = geteuid(), .gid = getegid()});
  ASSERT_TRUE(back.establish(false));
  OPEN4args reclaim = back.open_args("");
  reclaim.claim.claim = CLAIM_PREVIOUS;
  EXPECT_EQ(back.run(ops(PUTFH4args{handle}, reclaim)).status, NFS4_OK);
  EXPECT_EQ(back.run(ops(RECLAIM_COMPLETE4args{false})).status, NFS4_OK);
  EXPECT_FALSE(server->in_grace()) << "everybody is back";
}

TEST_F(HostTest, WhatIsNotThere_CannotBeExported) {
  nfs::Options options{.exports = {}};
  options.directories = {{.path = "/export", .directory = directory.path() + "/none"}};
  const auto failed = Server::start(std::move(options));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().errnum, ENOENT);
}

TEST_F(HostTest, ReadOnly_ChangesNothing) {
  std::ofstream(inside() + "/f") << "content";
  server->set_read_only("/export", true);
  EXPECT_EQ(client->run_at("/export", ops(REMOVE4args{"f"})).status, NFS4ERR_ROFS);
  EXPECT_EQ(client->run_at("/export", ops(CREATE4args{{NF4DIR}, "d", {}})).status, NFS4ERR_ROFS);
  EXPECT_EQ(client->write("/export/f", {}, 0, "x").status, NFS4ERR_ROFS);
  EXPECT_EQ(client->read("/export/f"), "content");
}

// A directory that this process may read but not search can be listed, with rdattr_error in place of the
// attributes (RFC 8881 section 18.23.3).
TEST_F(HostTest, DirectoryThatCannotBeSearched_IsListedWithErrors) {
  if (geteuid() == 0) GTEST_SKIP() << "root may search every directory";
  fs::create_directories(inside() + "/d/sub");
  fs::permissions(inside() + "/d", fs::perms(0444));
  READDIR4args list;
  list.maxcount = 8192;
  list.attr_request = bitmap4::of({FATTR4_TYPE, FATTR4_RDATTR_ERROR});
  const COMPOUND4res reply = client->run_at("/export/d", ops(list));
  fs::permissions(inside() + "/d", fs::perms(0755));
  ASSERT_EQ(reply.status, NFS4_OK);
  const dirlist4& found = at<READDIR4res>(reply, 0).resok4.reply;
  ASSERT_EQ(found.entries.size(), 1u);
  EXPECT_EQ(found.entries[0].name, "sub");
  EXPECT_EQ(found.entries[0].attrs.rdattr_error, NFS4ERR_ACCESS);
}

TEST_F(HostTest, NamesOfAnyBytes_AreListedAndFound) {
  const std::string name = "caf\xe9";
  std::ofstream(inside() + "/" + name) << "latin";
  EXPECT_EQ(server->list("/export"), std::vector<std::string>{name});
  EXPECT_EQ(client->run_at("/export", ops(LOOKUP4args{name})).status, NFS4_OK);
}

// --- as root only: the server acts as its callers

TEST_F(HostAsRootTest, WhatACallerMakes_IsHis) {
  ASSERT_EQ(user->run_at("/export", ops(CREATE4args{{NF4DIR}, "d", {}})).status, NFS4_OK);
  struct stat facts {};
  ASSERT_EQ(stat((inside() + "/d").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, 1000u);
  EXPECT_EQ(facts.st_gid, 1000u);
}

TEST_F(HostAsRootTest, OnlyRootMakesDevices) {
  createtype4 device{NF4CHR};
  device.devdata = {1, 3};
  EXPECT_EQ(user->run_at("/export", ops(CREATE4args{device, "null", {}})).status, NFS4ERR_PERM);
  EXPECT_EQ(user->run_at("/export", ops(CREATE4args{{NF4FIFO}, "fifo", {}})).status, NFS4_OK);
  EXPECT_EQ(user->run_at("/export/fifo", ops(READ4args{{}, 0, 1})).status, NFS4ERR_WRONG_TYPE);
}

TEST_F(HostAsRootTest, RootOfAClient_IsNobody_WhenSquashed) {
  server.reset();
  nfs::Options options{.exports = {}};
  options.directories = {{.path = "/export", .directory = inside()}};
  server = start_server(std::move(options));
  connect();
  ASSERT_EQ(client->run_at("/export", ops(CREATE4args{{NF4DIR}, "d", {}})).status, NFS4_OK);
  struct stat facts {};
  ASSERT_EQ(stat((inside() + "/d").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, tree::Principal::kAnonymous);
}

// exports(5): "Map requests from uid/gid 0 to the anonymous uid/gid".
TEST_F(HostAsRootTest, GroupOfRoot_IsNobodys_WhenSquashed) {
  std::ofstream(inside() + "/f") << "content";
  ASSERT_EQ(chmod((inside() + "/f").c_str(), 0660), 0);
  const auto may_read = [&](std::vector<uint32_t> groups, uint32_t group) {
    RawClient in_it(*server, std::to_string(group),
                    User{.uid = 1000, .gid = group, .groups = std::move(groups)});
    EXPECT_TRUE(in_it.establish());
    return in_it.run_at("/export/f", ops(READ4args{{}, 0, 1})).status == NFS4_OK;
  };
  EXPECT_TRUE(may_read({}, 0));
  EXPECT_TRUE(may_read({500, 0}, 1000));
  server.reset();
  nfs::Options options{.exports = {}};
  options.directories = {{.path = "/export", .directory = inside()}};
  server = start_server(std::move(options));
  EXPECT_FALSE(may_read({}, 0));
  EXPECT_FALSE(may_read({500, 0}, 1000));
}

TEST_F(HostAsRootTest, ThisThreadsRights_AreWhatTheyWere) {
  for (int i = 0; i < 20; ++i)
    user->run_at("/export", ops(CREATE4args{{NF4DIR}, "d" + std::to_string(i), {}}));
  // The next caller is root, on the same loop; root must own its new object.
  ASSERT_EQ(client->run_at("/export", ops(CREATE4args{{NF4DIR}, "mine", {}})).status, NFS4_OK);
  struct stat facts {};
  ASSERT_EQ(stat((inside() + "/mine").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, 0u);
}

// Without root_squash root stays root, with any group that it claims.
TEST_F(HostAsRootTest, WhatRootMakes_IsOfHisGroup) {
  RawClient root(*server, "root of a group", User{.uid = 0, .gid = 1234});
  ASSERT_TRUE(root.establish());
  ASSERT_EQ(root.run_at("/export", ops(CREATE4args{{NF4DIR}, "d", {}})).status, NFS4_OK);
  OPEN4args args = root.open_args("f");
  args.openhow.opentype = OPEN4_CREATE;
  ASSERT_EQ(root.run_at("/export", ops(args)).status, NFS4_OK);
  for (const char* name : {"/d", "/f"}) {
    struct stat facts {};
    ASSERT_EQ(stat((inside() + name).c_str(), &facts), 0) << name;
    EXPECT_EQ(facts.st_uid, 0u) << name;
    EXPECT_EQ(facts.st_gid, 1234u) << name;
  }
}

// Quotas and reserved blocks apply to the writer. CAP_SYS_RESOURCE or user 0 would override them.
TEST_F(HostAsRootTest, DataIsWrittenAsTheCaller) {
  std::ofstream(inside() + "/f") << "content";
  ASSERT_EQ(chmod((inside() + "/f").c_str(), 0666), 0);
  ASSERT_EQ(user->write("/export/f", {}, 0, "x").status, NFS4_OK);
  EXPECT_EQ(last_writer.user, 1000u);
  EXPECT_FALSE(last_writer.overrides);
  ASSERT_EQ(client->write("/export/f", {}, 0, "x").status, NFS4_OK);
  EXPECT_EQ(last_writer.user, 0u);
  fattr4 size;
  size.attrmask.set(FATTR4_SIZE);
  ASSERT_EQ(user->run_at("/export/f", ops(SETATTR4args{{}, size})).status, NFS4_OK);
  EXPECT_EQ(last_writer.user, 1000u);
  EXPECT_FALSE(last_writer.overrides);
  server.reset();
  EXPECT_EQ(geteuid(), 0u);
}

// If a file system checks more than modes, the server does not read as root what the caller may not read.
// Example: a process' links in /proc need permission to trace it.
TEST_F(HostAsRootTest, FileSystemWithRulesOfItsOwn_IsAskedAsTheCaller) {
  // The child must not inherit the server's descriptors, because one of them locks the state directory. They
  // are closed when the child prints its PID; posix_spawn(3) returns a little earlier.
  struct Sleeper {
    FILE* says = popen("echo $$; exec sleep 600", "re");
    pid_t pid = 0;
    Sleeper() {
      if (says != nullptr && std::fscanf(says, "%d", &pid) != 1) pid = 0;
    }
    ~Sleeper() {
      if (pid > 0) kill(pid, SIGKILL);
      if (says != nullptr) pclose(says);
    }
  } sleeper;
  ASSERT_GT(sleeper.pid, 0);
  begin("/proc/" + std::to_string(sleeper.pid));
  user = std::make_unique<RawClient>(*server, "user", User{.uid = 1000, .gid = 1000});
  ASSERT_TRUE(user->establish());
  const auto reply = client->run_at("/export/cwd", ops(READLINK4args{}));
  ASSERT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(at<READLINK4res>(reply, 0).resok4.link, fs::current_path().string());
  EXPECT_EQ(user->run_at("/export/cwd", ops(READLINK4args{})).status, NFS4ERR_ACCESS);
  server->with_core([](nfs::Core& core) { EXPECT_TRUE(core.tree.walk("/export")->has_acl); });
}

TEST_F(HostAsRootTest, AccessControlLists_Count) {
  std::ofstream(inside() + "/f") << "content";
  chmod((inside() + "/f").c_str(), 0600);
  const std::string command = "setfacl -m u:1000:r " + inside() + "/f 2>/dev/null";
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "no setfacl, or a file system without ACLs";
  EXPECT_EQ(user->read("/export/f"), "content");
  EXPECT_EQ(user->write("/export/f", {}, 0, "x").status, NFS4ERR_ACCESS);
}

// Writes an ACL as setfacl(1) would: the mode stays, and user 1000 has no permissions.
void shut_out(const std::string& path, int& error) {
  constexpr uint16_t kUserObject = 1, kUser = 2, kGroupObject = 4, kMask = 16, kOther = 32;
  struct Entry {
    uint16_t tag, permissions;
    uint32_t id;
  };
  const struct {
    uint32_t version = 2;
    Entry entries[5] = {{kUserObject, 6, UINT32_MAX},
                        {kUser, 0, 1000},
                        {kGroupObject, 4, UINT32_MAX},
                        {kMask, 4, UINT32_MAX},
                        {kOther, 4, UINT32_MAX}};
  } acl;
  error = setxattr(path.c_str(), "system.posix_acl_access", &acl, sizeof(acl), 0) == 0 ? 0 : errno;
}

TEST_F(HostAsRootTest, AccessControlList_OfTheTickInWhichTheFileWasSeen_Counts) {
  const auto ctime_of = [](const std::string& path) {
    struct stat facts {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0);
    return std::pair(facts.st_ctim.tv_sec, facts.st_ctim.tv_nsec);
  };
  for (int i = 0; i < 200; ++i) {
    const std::string name = "f" + std::to_string(i), path = inside() + "/" + name;
    std::ofstream(path) << "content";
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
    client->handle_of("/export/" + name);
    const auto seen = ctime_of(path);
    int error = 0;
    shut_out(path, error);
    if (error != 0) GTEST_SKIP() << "no ACLs here: " << std::strerror(error);
    if (ctime_of(path) != seen) continue;
    pass_tick(path);
    const auto reply = user->run_at("/export/" + name, ops(ACCESS4args{ACCESS4_READ | ACCESS4_MODIFY}));
    EXPECT_EQ(at<ACCESS4res>(reply, 0).resok4.access, 0u);
    return;
  }
  GTEST_SKIP() << "this file system gives no two changes the same ctime";
}

// An error of getxattr(2) does not prove that there is no ACL: the host is asked for the permissions.
TEST_F(HostAsRootTest, AccessControlListThatCannotBeRead_CountsAllTheSame) {
  std::ofstream(inside() + "/f") << "content";
  ASSERT_EQ(chmod((inside() + "/f").c_str(), 0644), 0);
  int error = 0;
  shut_out(inside() + "/f", error);
  if (error != 0) GTEST_SKIP() << "no ACLs here: " << std::strerror(error);
  for (const int failure : {EIO, EACCES, ERANGE}) {
    begin();
    user = std::make_unique<RawClient>(*server, "user", User{.uid = 1000, .gid = 1000});
    ASSERT_TRUE(user->establish());
    failing_getxattr = failure;
    const auto reply = user->run_at("/export/f", ops(ACCESS4args{ACCESS4_READ}));
    failing_getxattr = 0;
    EXPECT_EQ(at<ACCESS4res>(reply, 0).resok4.access, 0u) << std::strerror(failure);
  }
}

}  // namespace
}  // namespace nfsrdma::filer::test

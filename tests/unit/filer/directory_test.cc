// SPDX-License-Identifier: Apache-2.0
// Names, directories and READDIR (RFC 8881 sections 18.4, 18.9, 18.13, 18.14, 18.23, 18.25, 18.26).

#include <set>

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

class DirectoryTest : public ::testing::TestWithParam<Kept> {
 protected:
  void SetUp() override {
    if (on_host() && !may_act_as_callers()) GTEST_SKIP() << "needs root";
    server = start_server(kept(GetParam(), directory, {.exports = {"/export", "/deep/er/second"}}));
    client = std::make_unique<RawClient>(*server);
    ASSERT_TRUE(client->establish());
  }
  RENAME4res rename(const std::string& from, const std::string& old_name, const std::string& to,
                    const std::string& new_name) {
    const Ops way = path_ops(from) + ops(SAVEFH4args{}) + path_ops(to) + ops(RENAME4args{old_name, new_name});
    const COMPOUND4res reply = client->run(way);
    return at<RENAME4res>(reply, way.size() - 1);
  }
  READDIR4res readdir(const std::string& path, uint64_t cookie = 0, verifier4 verifier = {},
                      uint32_t maxcount = 65536, uint32_t dircount = 0, const bitmap4& wanted = {}) {
    return at<READDIR4res>(
        client->run_at(path, ops(READDIR4args{cookie, verifier, dircount, maxcount, wanted})), 0);
  }
  nfsstat4 mkdir(const std::string& dir, const std::string& name) {
    return client->run_at(dir, ops(CREATE4args{{NF4DIR, {}, {}}, name, {}})).status;
  }
  nfsstat4 remove(const std::string& dir, const std::string& name) {
    return client->run_at(dir, ops(REMOVE4args{name})).status;
  }

  static bool on_host() { return GetParam() == Kept::kByHost; }

  TempDirectory directory;
  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
};

// --- the pseudo file system, section 7.3 ---

TEST_P(DirectoryTest, Exports_AreFileSystemsUnderAPseudoRoot) {
  const bitmap4 wanted = bitmap4::of({FATTR4_FSID, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID});
  const fattr4 root = client->attributes("/", wanted);
  const fattr4 one = client->attributes("/export", wanted);
  const fattr4 way = client->attributes("/deep/er", wanted);
  const fattr4 two = client->attributes("/deep/er/second", wanted);
  EXPECT_EQ(root.fsid, way.fsid);
  EXPECT_NE(root.fsid, one.fsid);
  EXPECT_NE(one.fsid, two.fsid);
  EXPECT_NE(one.fileid, one.mounted_on_fileid);
  EXPECT_EQ(root.fileid, root.mounted_on_fileid);
  EXPECT_EQ(mkdir("/", "x"), NFS4ERR_ROFS);
  // LOOKUPP leaves the export through its mount point.
  const COMPOUND4res up = client->run_at("/deep/er/second", ops(LOOKUPP4args{}, GETFH4args{}));
  EXPECT_EQ(at<GETFH4res>(up, 1).resok4.object, client->handle_of("/deep/er"));
  EXPECT_EQ(client->run_at("/", ops(LOOKUPP4args{})).status, NFS4ERR_NOENT);
  // READDIR shows the attributes of the mounted export.
  const READDIR4res list = readdir("/", 0, {}, 65536, 0, wanted);
  ASSERT_EQ(list.resok4.reply.entries.size(), 2u);
  EXPECT_EQ(list.resok4.reply.entries[0].name, "export");
  EXPECT_EQ(list.resok4.reply.entries[0].attrs.fsid, one.fsid);
  EXPECT_EQ(list.resok4.reply.entries[0].attrs.mounted_on_fileid, one.mounted_on_fileid);
}

TEST_P(DirectoryTest, Filehandles_AreCheckedForShape) {
  const auto put = [&](const std::string& bytes) {
    return client->run(ops(PUTFH4args{nfs_fh4(as_const_bytes(bytes))})).status;
  };
  EXPECT_EQ(put(""), NFS4ERR_BADHANDLE);
  EXPECT_EQ(put("garbage"), NFS4ERR_BADHANDLE);
  EXPECT_EQ(put(std::string(128, '\0')), NFS4ERR_BADHANDLE);
  server->make_file("/export/f", "x");
  const nfs_fh4 fh = client->handle_of("/export/f");
  ASSERT_EQ(remove("/export", "f"), NFS4_OK);
  EXPECT_EQ(client->run(ops(PUTFH4args{fh})).status, NFS4ERR_STALE);
}

TEST_P(DirectoryTest, OperationsWithoutFilehandle_SaySo) {
  EXPECT_EQ(client->run(ops(GETFH4args{})).status, NFS4ERR_NOFILEHANDLE);
  EXPECT_EQ(client->run(ops(LOOKUP4args{"x"})).status, NFS4ERR_NOFILEHANDLE);
  EXPECT_EQ(client->run(ops(RESTOREFH4args{})).status, NFS4ERR_NOFILEHANDLE);
  EXPECT_EQ(client->run(ops(PUTROOTFH4args{}, RENAME4args{"a", "b"})).status, NFS4ERR_NOFILEHANDLE)
      << "no saved one";
}

TEST_P(DirectoryTest, Lookup_Errors) {
  server->make_file("/export/f", "x");
  server->make_symlink("/export/l", "f");
  EXPECT_EQ(client->run_at("/export", ops(LOOKUP4args{"none"})).status, NFS4ERR_NOENT);
  EXPECT_EQ(client->run_at("/export/f", ops(LOOKUP4args{"x"})).status, NFS4ERR_NOTDIR);
  EXPECT_EQ(client->run_at("/export/l", ops(LOOKUP4args{"x"})).status, NFS4ERR_SYMLINK);
  EXPECT_EQ(client->run_at("/export", ops(LOOKUP4args{""})).status, NFS4ERR_INVAL);
  EXPECT_EQ(client->run_at("/export", ops(LOOKUP4args{".."})).status, NFS4ERR_BADNAME);
  EXPECT_EQ(client->run_at("/export/f", ops(LOOKUPP4args{})).status, NFS4ERR_NOTDIR);
  // "On success, the current filehandle is consumed".
  EXPECT_EQ(client->run_at("/export", ops(SECINFO4args{"f"}, GETFH4args{})).status, NFS4ERR_NOFILEHANDLE);
}

TEST_P(DirectoryTest, Create_MakesEveryTypeButFiles) {
  const auto create = [&](createtype4 type, const std::string& name) {
    return client->run_at("/export", ops(CREATE4args{type, name, {}})).status;
  };
  EXPECT_EQ(create({NF4DIR, {}, {}}, "d"), NFS4_OK);
  EXPECT_EQ(create({NF4LNK, "../target", {}}, "l"), NFS4_OK);
  EXPECT_EQ(create({NF4BLK, {}, {8, 1}}, "b"), NFS4_OK);
  EXPECT_EQ(create({NF4CHR, {}, {4, 64}}, "c"), NFS4_OK);
  EXPECT_EQ(create({NF4SOCK, {}, {}}, "s"), NFS4_OK);
  EXPECT_EQ(create({NF4FIFO, {}, {}}, "p"), NFS4_OK);
  EXPECT_EQ(create({NF4REG, {}, {}}, "f"), NFS4ERR_BADTYPE);
  EXPECT_EQ(create({NF4LNK, "", {}}, "e"), NFS4ERR_INVAL);
  EXPECT_EQ(create({NF4DIR, {}, {}}, "d"), NFS4ERR_EXIST);
  const fattr4 device = client->attributes("/export/c", bitmap4::of({FATTR4_TYPE, FATTR4_RAWDEV}));
  EXPECT_EQ(device.type, NF4CHR);
  EXPECT_EQ(device.rawdev, (specdata4{4, 64}));
  const COMPOUND4res link = client->run_at("/export/l", ops(READLINK4args{}));
  EXPECT_EQ(at<READLINK4res>(link, 0).resok4.link, "../target");
  EXPECT_EQ(client->run_at("/export/d", ops(READLINK4args{})).status, NFS4ERR_WRONG_TYPE);
}

TEST_P(DirectoryTest, Remove_ByTheRules) {
  server->make_file("/export/f", "x");
  ASSERT_EQ(mkdir("/export", "d"), NFS4_OK);
  ASSERT_EQ(mkdir("/export/d", "sub"), NFS4_OK);
  EXPECT_EQ(server->stat("/export/d")->links, 3u);
  EXPECT_EQ(remove("/export", "d"), NFS4ERR_NOTEMPTY);
  EXPECT_EQ(remove("/export/d", "sub"), NFS4_OK);
  EXPECT_EQ(remove("/export", "d"), NFS4_OK);
  EXPECT_EQ(remove("/export", "d"), NFS4ERR_NOENT);
  const COMPOUND4res reply = client->run_at("/export", ops(REMOVE4args{"f"}));
  EXPECT_EQ(at<REMOVE4res>(reply, 0).resok4.cinfo.atomic, !on_host());
  EXPECT_EQ(at<REMOVE4res>(reply, 0).resok4.cinfo.after, server->stat("/export")->change);
  server->configure([](nfs::Switches& s) { s.atomic_change_info = false; });
  server->make_file("/export/g", "x");
  const COMPOUND4res second = client->run_at("/export", ops(REMOVE4args{"g"}));
  EXPECT_FALSE(at<REMOVE4res>(second, 0).resok4.cinfo.atomic);
}

// "The server SHOULD NOT delete the file's directory entry if the file was opened with
// OPEN4_SHARE_DENY_WRITE".
TEST_P(DirectoryTest, RemoveOfAnOpenFile_DependsOnItsReservation) {
  server->make_file("/export/f", "x");
  server->make_file("/export/g", "kept");
  client->open("/export/f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE);
  EXPECT_EQ(remove("/export", "f"), NFS4ERR_FILE_OPEN);
  const stateid4 g = client->open("/export/g");
  const nfs_fh4 fh = client->handle_of("/export/g");
  ASSERT_EQ(remove("/export", "g"), NFS4_OK);
  const COMPOUND4res reply = client->run(ops(PUTFH4args{fh}, READ4args{g, 0, 10},
                                             GETATTR4args{bitmap4::of({FATTR4_NUMLINKS})}, CLOSE4args{0, g}));
  ASSERT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(as_string_view(at<READ4res>(reply, 1).resok4.data), "kept");
  // "the server SHOULD report a value of zero for the numlinks attribute on the file".
  EXPECT_EQ(at<GETATTR4res>(reply, 2).resok4.obj_attributes.numlinks, 0u);
  EXPECT_EQ(client->run(ops(PUTFH4args{fh})).status, NFS4ERR_STALE);
}

TEST_P(DirectoryTest, RemoveWithoutPreservation_MakesTheHandleStale) {
  if (on_host()) GTEST_SKIP() << "the host preserves";
  server->configure([](nfs::Switches& s) { s.preserve_unlinked = false; });
  server->make_file("/export/g", "x");
  const COMPOUND4res reply = client->run_at("/export", ops(client->open_args("g")));
  EXPECT_EQ(at<OPEN4res>(reply, 0).resok4.rflags & OPEN4_RESULT_PRESERVE_UNLINKED, 0u);
  const nfs_fh4 fh = client->handle_of("/export/g");
  ASSERT_EQ(remove("/export", "g"), NFS4_OK);
  EXPECT_EQ(client->run(ops(PUTFH4args{fh})).status, NFS4ERR_STALE);
}

TEST_P(DirectoryTest, Rename_ByTheRules) {
  server->make_file("/export/f", "f");
  server->make_file("/export/g", "g");
  server->make_directory("/export/d");
  server->make_directory("/export/e");
  server->make_file("/export/e/x", "x");
  EXPECT_EQ(rename("/export", "none", "/export", "n").status, NFS4ERR_NOENT);
  // "If the source object and the target are not compatible or if the target is a directory but not empty ...
  // NFS4ERR_EXIST."
  EXPECT_EQ(rename("/export", "f", "/export", "d").status, NFS4ERR_EXIST);
  EXPECT_EQ(rename("/export", "d", "/export", "f").status, NFS4ERR_EXIST);
  EXPECT_EQ(rename("/export", "d", "/export", "e").status, NFS4ERR_EXIST);
  EXPECT_EQ(rename("/export", "e", "/export", "d").status, NFS4_OK);
  EXPECT_EQ(rename("/export", "d", "/export/d", "inside").status, NFS4ERR_INVAL);
  EXPECT_EQ(rename("/export", "f", "/deep/er/second", "f").status, NFS4ERR_XDEV);
  const RENAME4res res = rename("/export", "f", "/export/d", "moved");
  ASSERT_EQ(res.status, NFS4_OK);
  EXPECT_GT(res.resok4.source_cinfo.after, res.resok4.source_cinfo.before);
  EXPECT_EQ(res.resok4.target_cinfo.after, server->stat("/export/d")->change);
  EXPECT_EQ(rename("/export", "g", "/export/d", "moved").status, NFS4_OK) << "replaces a file";
  EXPECT_EQ(server->read_file("/export/d/moved"), "g");
}

// "If oldname and newname both refer to the same file (e.g., they might be hard links of each other) ...
// RENAME MUST perform no action and return NFS4_OK."
TEST_P(DirectoryTest, RenameToAnotherNameOfTheSameFile_DoesNothing) {
  server->make_file("/export/a", "x");
  ASSERT_EQ(
      client->run(path_ops("/export/a") + ops(SAVEFH4args{}) + path_ops("/export") + ops(LINK4args{"b"}))
          .status,
      NFS4_OK);
  const changeid4 change = server->stat("/export")->change;
  EXPECT_EQ(rename("/export", "a", "/export", "b").status, NFS4_OK);
  EXPECT_EQ(server->stat("/export/a")->links, 2u);
  EXPECT_EQ(server->stat("/export")->change, change);
}

TEST_P(DirectoryTest, Link_ByTheRules) {
  server->make_file("/export/f", "x");
  const auto link = [&](const std::string& target, const std::string& dir, const std::string& name) {
    const Ops way = path_ops(target) + ops(SAVEFH4args{}) + path_ops(dir) + ops(LINK4args{name});
    return client->run(way).status;
  };
  EXPECT_EQ(link("/export/f", "/export", "f"), NFS4ERR_EXIST);
  EXPECT_EQ(link("/export", "/export", "self"), NFS4ERR_ISDIR);
  EXPECT_EQ(link("/export/f", "/deep/er/second", "f"), NFS4ERR_XDEV);
  EXPECT_EQ(link("/export/f", "/export/f", "f"), NFS4ERR_NOTDIR);
  EXPECT_EQ(link("/export/f", "/export", "g"), NFS4_OK);
  EXPECT_EQ(server->stat("/export/f")->links, 2u);
  EXPECT_EQ(server->stat("/export/f")->fileid, server->stat("/export/g")->fileid);
}

TEST_P(DirectoryTest, StickyDirectory_ProtectsOthersNames) {
  server->make_directory("/export/tmp", 01777);
  server->make_file("/export/tmp/theirs", "x", 0666, 1000, 1000);
  RawClient user(*server, "user", {.uid = 2000, .gid = 2000});
  ASSERT_TRUE(user.establish());
  EXPECT_EQ(user.run_at("/export/tmp", ops(REMOVE4args{"theirs"})).status, NFS4ERR_ACCESS);
  user.user = {.uid = 1000, .gid = 1000};
  EXPECT_EQ(user.run_at("/export/tmp", ops(REMOVE4args{"theirs"})).status, NFS4_OK);
}

// --- READDIR ---

TEST_P(DirectoryTest, Readdir_ReturnsEveryNameOnceInPieces) {
  std::set<std::string> expected;
  for (int i = 0; i < 500; ++i) {
    const std::string name = "file-" + std::to_string(i);
    server->make_file("/export/" + name, "");
    expected.insert(name);
  }
  std::set<std::string> seen;
  uint64_t cookie = 0;
  verifier4 verifier;
  for (bool eof = false; !eof;) {
    const READDIR4res res = readdir("/export", cookie, verifier, 2000, 0, bitmap4::of({FATTR4_FILEID}));
    ASSERT_EQ(res.status, NFS4_OK);
    EXPECT_LE(xdr::size_of(res.resok4), 2000u);
    ASSERT_FALSE(res.resok4.reply.entries.empty());
    for (const entry4& e : res.resok4.reply.entries) {
      EXPECT_GT(e.cookie, 2u) << "cookie values of zero, one, and two SHOULD NOT be returned";
      EXPECT_TRUE(seen.insert(e.name).second) << e.name << " twice";
      cookie = e.cookie;
    }
    verifier = res.resok4.cookieverf;
    eof = res.resok4.reply.eof;
  }
  EXPECT_EQ(seen, expected);
}

// "the cookie value SHOULD NOT change if the directory is modified".
TEST_P(DirectoryTest, Cookies_SurviveChangesAroundThem) {
  for (const char* name : {"a", "b", "c", "d"}) server->make_file("/export/" + std::string(name), "");
  const READDIR4res all = readdir("/export");
  ASSERT_EQ(all.resok4.reply.entries.size(), 4u);
  const uint64_t after_b = all.resok4.reply.entries[1].cookie;
  ASSERT_EQ(remove("/export", all.resok4.reply.entries[1].name), NFS4_OK);
  ASSERT_EQ(remove("/export", all.resok4.reply.entries[0].name), NFS4_OK);
  server->make_file("/export/new", "");
  const READDIR4res rest = readdir("/export", after_b, all.resok4.cookieverf);
  ASSERT_EQ(rest.status, NFS4_OK);
  std::vector<std::string> names;
  for (const entry4& e : rest.resok4.reply.entries) names.push_back(e.name);
  // On the host the order is that of hashes, so "new" may be anywhere.
  if (on_host()) std::erase(names, "new");
  std::vector<std::string> expected{all.resok4.reply.entries[2].name, all.resok4.reply.entries[3].name};
  if (!on_host()) expected.push_back("new");
  EXPECT_EQ(names, expected);
}

// "If the server determines that the cookieverf is no longer valid for the directory, the error
// NFS4ERR_NOT_SAME must be returned."
TEST_P(DirectoryTest, CookieVerifier_IsChecked) {
  server->make_file("/export/a", "");
  server->make_file("/export/b", "");
  const READDIR4res all = readdir("/export");
  const uint64_t cookie = all.resok4.reply.entries[0].cookie;
  EXPECT_EQ(readdir("/export", cookie, {}).status, NFS4ERR_NOT_SAME);
  EXPECT_EQ(readdir("/export", cookie, all.resok4.cookieverf).status, NFS4_OK);
  EXPECT_EQ(readdir("/export", 1, all.resok4.cookieverf).status, NFS4ERR_BAD_COOKIE);
  const nfsstat4 never_given = readdir("/export", 99999, all.resok4.cookieverf).status;
  EXPECT_EQ(never_given, on_host() ? NFS4_OK : NFS4ERR_BAD_COOKIE) << "the host keeps no list of them";
  server->invalidate_cookies("/export");
  EXPECT_EQ(readdir("/export", cookie, all.resok4.cookieverf).status, NFS4ERR_NOT_SAME);
  server->configure([](nfs::Switches& s) { s.strict_cookie_verifier = true; });
  const READDIR4res strict = readdir("/export");
  server->make_file("/export/c", "");
  EXPECT_EQ(readdir("/export", cookie, strict.resok4.cookieverf).status, NFS4ERR_NOT_SAME);
}

// "If the server is unable to return a single directory entry within the maxcount limit, the error
// NFS4ERR_TOOSMALL MUST be returned".
TEST_P(DirectoryTest, ReaddirLimits_AreExact) {
  server->make_file("/export/name", "");
  const READDIR4res all = readdir("/export");
  const auto exact = static_cast<uint32_t>(xdr::size_of(all.resok4));
  EXPECT_EQ(readdir("/export", 0, {}, exact).status, NFS4_OK);
  EXPECT_EQ(readdir("/export", 0, {}, exact - 1).status, NFS4ERR_TOOSMALL);
  EXPECT_EQ(readdir("/export", 0, {}, 0).status, NFS4ERR_TOOSMALL);
  ASSERT_EQ(remove("/export", "name"), NFS4_OK);
  const READDIR4res none = readdir("/export", 0, {}, 16);
  EXPECT_EQ(none.status, NFS4_OK);
  EXPECT_TRUE(none.resok4.reply.eof);
  EXPECT_EQ(readdir("/export", 0, {}, 15).status, NFS4ERR_TOOSMALL);
}

TEST_P(DirectoryTest, Dircount_BoundsNamesAndCookies) {
  for (int i = 0; i < 10; ++i) server->make_file("/export/" + std::to_string(i), "");
  // Each name takes 8 + 4 + 4 bytes.
  EXPECT_EQ(readdir("/export", 0, {}, 65536, 48).resok4.reply.entries.size(), 3u);
  EXPECT_EQ(readdir("/export", 0, {}, 65536, 1).resok4.reply.entries.size(), 1u)
      << "a hint must not stop progress";
}

TEST_P(DirectoryTest, ReaddirOfAFile_IsNotdir) {
  server->make_file("/export/f", "");
  EXPECT_EQ(readdir("/export/f").status, NFS4ERR_NOTDIR);
  server->make_directory("/export/closed", 0700, 1, 1);
  RawClient user(*server, "user", {.uid = 2000, .gid = 2000});
  ASSERT_TRUE(user.establish());
  EXPECT_EQ(user.run_at("/export/closed", ops(READDIR4args{0, {}, 0, 4096, {}})).status, NFS4ERR_ACCESS);
}

INSTANTIATE_TEST_SUITE_P(Kept, DirectoryTest, ::testing::Values(Kept::kInMemory, Kept::kByHost), name_of);

}  // namespace
}  // namespace nfsrdma::filer::test

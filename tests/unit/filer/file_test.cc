// SPDX-License-Identifier: Apache-2.0
// Data and attributes: READ, WRITE, COMMIT, GETATTR, SETATTR, ACCESS, VERIFY (RFC 8881 sections
// 5, 18.1, 18.3, 18.7, 18.22, 18.30 to 18.32).

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

class FileTest : public ::testing::TestWithParam<Kept> {
 protected:
  void SetUp() override {
    if (on_host() && !may_act_as_callers()) GTEST_SKIP() << "needs root";
    server = start_server(kept(GetParam(), directory, {.manual_clock = true}));
    server->make_file("/export/f", "content", 0644, 1000, 1000);
    root = std::make_unique<RawClient>(*server, "root");
    owner = std::make_unique<RawClient>(*server, "owner", User{.uid = 1000, .gid = 1000, .groups = {500}});
    user = std::make_unique<RawClient>(*server, "user", User{.uid = 2000, .gid = 2000});
    ASSERT_TRUE(root->establish());
    ASSERT_TRUE(owner->establish());
    ASSERT_TRUE(user->establish());
  }
  static fattr4 attrs(std::initializer_list<uint32_t> bits) {
    fattr4 a;
    a.attrmask = bitmap4::of(bits);
    return a;
  }
  static fattr4 mode(uint32_t value) {
    fattr4 a = attrs({FATTR4_MODE});
    a.mode = value;
    return a;
  }
  static fattr4 size(uint64_t value) {
    fattr4 a = attrs({FATTR4_SIZE});
    a.size = value;
    return a;
  }
  SETATTR4res setattr(RawClient& c, const fattr4& a, stateid4 id = {}) {
    return at<SETATTR4res>(c.run_at("/export/f", ops(SETATTR4args{id, a})), 0);
  }

  static bool on_host() { return GetParam() == Kept::kByHost; }

  TempDirectory directory;
  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> root;
  std::unique_ptr<RawClient> owner;
  std::unique_ptr<RawClient> user;
};

TEST_P(FileTest, Read_ReturnsDataAndEof) {
  const auto read = [&](uint64_t offset, uint32_t count) {
    return at<READ4res>(root->run_at("/export/f", ops(READ4args{{}, offset, count})), 0).resok4;
  };
  EXPECT_EQ(as_string_view(read(0, 4).data), "cont");
  EXPECT_FALSE(read(0, 4).eof);
  EXPECT_TRUE(read(4, 3).eof) << "the last byte of the file was read";
  EXPECT_EQ(as_string_view(read(4, 100).data), "ent");
  EXPECT_TRUE(read(7, 1).eof);
  EXPECT_TRUE(read(NFS4_UINT64_MAX, 1).eof);
  EXPECT_EQ(read(7, 1).data.size(), 0u);
}

TEST_P(FileTest, ReadOrWriteOfOtherTypes_HasTheirErrors) {
  server->make_symlink("/export/l", "f");
  EXPECT_EQ(root->run_at("/export", ops(READ4args{{}, 0, 1})).status, NFS4ERR_ISDIR);
  EXPECT_EQ(root->run_at("/export/l", ops(READ4args{{}, 0, 1})).status, NFS4ERR_SYMLINK);
  EXPECT_EQ(root->run_at("/export", ops(COMMIT4args{0, 0})).status, NFS4ERR_ISDIR);
}

TEST_P(FileTest, SparseWrite_LeavesAHole) {
  const stateid4 id = root->open("/export/f");
  EXPECT_EQ(root->write("/export/f", id, uint64_t{5} << 30, "far").resok4.count, 3u);
  EXPECT_EQ(root->read("/export/f", id, (uint64_t{5} << 30) - 2, 5), std::string("\0\0far", 5));
  const fattr4 a = root->attributes("/export/f", bitmap4::of({FATTR4_SIZE, FATTR4_SPACE_USED}));
  EXPECT_EQ(a.size, (uint64_t{5} << 30) + 3);
  EXPECT_EQ(a.space_used, 8192u);
}

TEST_P(FileTest, WriteBeyondTheLimits_Fails) {
  if (on_host()) GTEST_SKIP() << "the limits are those of the host";
  EXPECT_EQ(root->write("/export/f", {}, uint64_t{1} << 63, "x").status, NFS4ERR_FBIG);
  server->set_space("/export", 16384);
  EXPECT_EQ(root->write("/export/f", {}, 0, std::string(20'000, 'x')).status, NFS4ERR_NOSPC);
  EXPECT_EQ(root->write("/export/f", {}, 0, "CONTENT").status, NFS4_OK) << "takes no more space";
  server->set_read_only("/export", true);
  EXPECT_EQ(root->write("/export/f", {}, 0, "x").status, NFS4ERR_ROFS);
  EXPECT_EQ(setattr(*root, mode(0600)).status, NFS4ERR_ROFS);
}

TEST_P(FileTest, ShortWritesAndReads_CanBeSwitchedOn) {
  server->configure([](nfs::Switches& s) { s.short_write_bytes = s.short_read_bytes = 3; });
  EXPECT_EQ(root->write("/export/f", {}, 0, "ABCDEF").resok4.count, 3u);
  EXPECT_EQ(root->read("/export/f"), "ABC");
}

// --- the change attribute, section 5.8.1.4 ---

TEST_P(FileTest, Change_MovesWithEveryChange) {
  const auto change = [&] { return root->attributes("/export/f", bitmap4::of({FATTR4_CHANGE})).change; };
  changeid4 before = change();
  EXPECT_EQ(change(), before) << "reading attributes is no change";
  EXPECT_EQ(root->read("/export/f"), "content");
  EXPECT_EQ(change(), before) << "reading data is no change";
  root->write("/export/f", {}, 0, "x");
  EXPECT_GT(change(), before);
  before = change();
  setattr(*root, mode(0600));
  EXPECT_GT(change(), before);
}

TEST_P(FileTest, Times_FollowTheClockAndCanBeSet) {
  if (on_host()) GTEST_SKIP() << "the clock is that of the host";
  const bitmap4 wanted = bitmap4::of({FATTR4_TIME_MODIFY, FATTR4_TIME_METADATA, FATTR4_TIME_ACCESS});
  const fattr4 before = root->attributes("/export/f", wanted);
  server->advance_clock(std::chrono::seconds(10));
  root->write("/export/f", {}, 0, "x");
  fattr4 after = root->attributes("/export/f", wanted);
  EXPECT_EQ(after.time_modify.seconds, before.time_modify.seconds + 10);
  EXPECT_EQ(after.time_metadata.seconds, before.time_metadata.seconds + 10);
  fattr4 set = attrs({FATTR4_TIME_MODIFY_SET});
  set.time_modify_set = {SET_TO_CLIENT_TIME4, {123, 456}};
  EXPECT_EQ(setattr(*owner, set).status, NFS4_OK);
  EXPECT_EQ(setattr(*user, set).status, NFS4ERR_PERM);
  after = root->attributes("/export/f", wanted);
  EXPECT_EQ(after.time_modify, (nfstime4{123, 456}));
  set.time_modify_set = {SET_TO_CLIENT_TIME4, {123, 1'000'000'000}};
  EXPECT_EQ(setattr(*root, set).status, NFS4ERR_INVAL);
  set.time_modify_set = {SET_TO_SERVER_TIME4, {}};
  EXPECT_EQ(setattr(*user, set).status, NFS4ERR_ACCESS) << "'now' needs permission to write";
  EXPECT_EQ(setattr(*root, set).status, NFS4_OK);
}

// --- attributes ---

TEST_P(FileTest, SupportedAttributes_IncludeAllRequiredOnes) {
  const fattr4 a = root->attributes("/export/f", bitmap4::of({FATTR4_SUPPORTED_ATTRS}));
  for (const uint32_t required : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 19, 75}) {
    EXPECT_TRUE(a.fs->supported_attrs.test(required)) << required;
  }
  // All attributes that are listed as supported and readable are returned.
  const bitmap4 set_only =
      bitmap4::of({FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET, FATTR4_MODE_SET_MASKED});
  const bitmap4 readable = a.fs->supported_attrs.without(set_only);
  EXPECT_EQ(root->attributes("/export/f", readable).attrmask, readable);
}

// "If a client attempts to set a get-only attribute or get a set-only attributes, the server MUST return
// NFS4ERR_INVAL."
TEST_P(FileTest, AttributesTheWrongWay_AreInvalid) {
  EXPECT_EQ(root->run_at("/export/f", ops(GETATTR4args{bitmap4::of({FATTR4_TIME_MODIFY_SET})})).status,
            NFS4ERR_INVAL);
  EXPECT_EQ(setattr(*root, attrs({FATTR4_CHANGE})).status, NFS4ERR_INVAL);
  EXPECT_EQ(setattr(*root, attrs({FATTR4_HIDDEN})).status, NFS4ERR_ATTRNOTSUPP);
  EXPECT_TRUE(root->attributes("/export/f", bitmap4::of({FATTR4_HIDDEN})).attrmask.empty())
      << "left out by GETATTR";
}

TEST_P(FileTest, Owners_AreNumbersAndRestricted) {
  const fattr4 a = root->attributes("/export/f", bitmap4::of({FATTR4_OWNER, FATTR4_OWNER_GROUP}));
  EXPECT_EQ(a.owner, "1000");
  EXPECT_EQ(a.owner_group, "1000");
  fattr4 set = attrs({FATTR4_OWNER});
  set.owner = "somebody";
  EXPECT_EQ(setattr(*root, set).status, NFS4ERR_BADOWNER);
  set.owner = "2000";
  EXPECT_EQ(setattr(*owner, set).status, NFS4ERR_PERM);
  set.owner = "1000";
  EXPECT_EQ(setattr(*owner, set).status, NFS4_OK) << "SHOULD allow ... if the current owner matches";
  fattr4 group = attrs({FATTR4_OWNER_GROUP});
  group.owner_group = "500";
  EXPECT_EQ(setattr(*owner, group).status, NFS4_OK) << "a group the owner is in";
  group.owner_group = "501";
  EXPECT_EQ(setattr(*owner, group).status, NFS4ERR_PERM);
  EXPECT_EQ(setattr(*user, mode(0777)).status, NFS4ERR_PERM);
}

TEST_P(FileTest, ModeSetMasked_ChangesOnlyTheMask) {
  fattr4 a = attrs({FATTR4_MODE_SET_MASKED});
  a.rare.edit().mode_set_masked = {0111, 0777 & 0111};
  EXPECT_EQ(setattr(*owner, a).status, NFS4_OK);
  EXPECT_EQ(server->stat("/export/f")->mode, 0755u);
}

TEST_P(FileTest, WriteByAUser_ClearsSetId) {
  setattr(*root, mode(06777));
  EXPECT_EQ(user->write("/export/f", {}, 0, "x").status, NFS4_OK);
  EXPECT_EQ(server->stat("/export/f")->mode, 0777u);
}

TEST_P(FileTest, SizeChangeByAUser_ClearsSetId) {
  setattr(*root, mode(06777));
  EXPECT_EQ(setattr(*user, size(3)).status, NFS4_OK);
  EXPECT_EQ(server->stat("/export/f")->mode, 0777u);
  setattr(*root, mode(06777));
  OPEN4args truncating = user->open_args("f");
  truncating.openhow.opentype = OPEN4_CREATE;
  truncating.openhow.how.mode = UNCHECKED4;
  truncating.openhow.how.createattrs = size(0);
  EXPECT_EQ(user->run_at("/export", ops(truncating)).status, NFS4_OK);
  EXPECT_EQ(server->stat("/export/f")->mode, 0777u);
  setattr(*root, mode(06777));
  EXPECT_EQ(setattr(*root, size(3)).status, NFS4_OK);
  EXPECT_EQ(server->stat("/export/f")->mode, 06777u);
}

// The owner would stay the same, but set-ID bits are cleared and ctime changes.
TEST_P(FileTest, OwnerThatItHasAlready_IsForItsOwnerToSet) {
  setattr(*root, mode(06777));
  fattr4 same = attrs({FATTR4_OWNER});
  same.owner = "1000";
  EXPECT_EQ(setattr(*user, same).status, NFS4ERR_PERM);
  EXPECT_EQ(server->stat("/export/f")->mode, 06777u);
  EXPECT_EQ(setattr(*owner, same).status, NFS4_OK);
}

// --- SETATTR of the size follows the rules of WRITE, section 18.30 ---

TEST_P(FileTest, SizeChange_TruncatesAndExtends) {
  EXPECT_EQ(setattr(*root, size(3)).attrsset, bitmap4::of({FATTR4_SIZE}));
  EXPECT_EQ(setattr(*root, size(6)).status, NFS4_OK);
  EXPECT_EQ(server->read_file("/export/f"), std::string("con\0\0\0", 6));
  EXPECT_EQ(root->run_at("/export", ops(SETATTR4args{{}, size(0)})).status, NFS4ERR_WRONG_TYPE);
}

// "the server MUST verify that the access mode allows writing and MUST return an NFS4ERR_OPENMODE error if it
// does not."
TEST_P(FileTest, SizeChange_NeedsAWritingStateid) {
  const stateid4 reading = root->open("/export/f", OPEN4_SHARE_ACCESS_READ);
  EXPECT_EQ(setattr(*root, size(0), reading).status, NFS4ERR_OPENMODE);
  EXPECT_EQ(root->write("/export/f", reading, 0, "x").status, NFS4ERR_OPENMODE);
  const stateid4 writing = root->open("/export/f", OPEN4_SHARE_ACCESS_WRITE, 0, "writer");
  EXPECT_EQ(root->run_at("/export/f", ops(READ4args{writing, 0, 1})).status, NFS4ERR_OPENMODE);
  EXPECT_EQ(setattr(*root, size(0), writing).status, NFS4_OK);
}

// "incompatible with a share reservation that specifies OPEN4_SHARE_DENY_WRITE".
TEST_P(FileTest, SizeChangeAgainstDenyWrite_IsLocked) {
  root->open("/export/f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE);
  EXPECT_EQ(setattr(*owner, size(0)).status, NFS4ERR_LOCKED);
}

TEST_P(FileTest, TruncateWithoutPermission_IsAccessAndWithTheOpenItIsNot) {
  setattr(*root, mode(0644));
  EXPECT_EQ(setattr(*user, size(0)).status, NFS4ERR_ACCESS);
  const stateid4 id = owner->open("/export/f");
  setattr(*root, mode(0444));
  EXPECT_EQ(setattr(*owner, size(0)).status, NFS4ERR_ACCESS);
  EXPECT_EQ(setattr(*owner, size(1), id).status, NFS4_OK) << "ftruncate on what was opened before";
}

// --- ACCESS, section 18.1 ---

TEST_P(FileTest, Access_JudgesByModeAndType) {
  const auto access = [&](RawClient& c, const std::string& path, uint32_t bits) {
    return at<ACCESS4res>(c.run_at(path, ops(ACCESS4args{bits})), 0);
  };
  EXPECT_EQ(access(*user, "/export/f", 0x3f).resok4.access, static_cast<uint32_t>(ACCESS4_READ));
  EXPECT_EQ(access(*owner, "/export/f", 0x3f).resok4.access,
            uint32_t{ACCESS4_READ} | ACCESS4_MODIFY | ACCESS4_EXTEND);
  // "MUST NOT set more than ACCESS4_READ in the supported field".
  EXPECT_EQ(access(*owner, "/export/f", ACCESS4_READ).resok4.supported, static_cast<uint32_t>(ACCESS4_READ));
  // "LOOKUP: no meaning for non-directory objects"; "EXECUTE: no meaning for a directory".
  EXPECT_EQ(access(*root, "/export/f", 0x3f).resok4.supported & ACCESS4_LOOKUP, 0u);
  EXPECT_EQ(access(*root, "/export", 0x3f).resok4.supported & ACCESS4_EXECUTE, 0u);
  EXPECT_EQ(access(*root, "/export", 0x3f).resok4.access, 0x1fu);
  EXPECT_EQ(access(*root, "/export/f", ACCESS4_EXECUTE).resok4.access, 0u) << "no x bit at all";
  EXPECT_EQ(access(*root, "/export/f", 0x40).status, NFS4ERR_INVAL);
  server->set_read_only("/export", true);
  EXPECT_EQ(access(*root, "/export/f", 0x3f).resok4.access, static_cast<uint32_t>(ACCESS4_READ));
}

TEST_P(FileTest, Io_ChecksPermissionsItself) {
  setattr(*root, mode(0600));
  EXPECT_EQ(user->run_at("/export/f", ops(READ4args{{}, 0, 1})).status, NFS4ERR_ACCESS);
  EXPECT_EQ(user->write("/export/f", {}, 0, "x").status, NFS4ERR_ACCESS);
  setattr(*root, mode(0711));
  EXPECT_EQ(user->read("/export/f"), "content") << "who may execute may read";
}

// --- VERIFY, NVERIFY ---

TEST_P(FileTest, Verify_ComparesValues) {
  const bitmap4 wanted = bitmap4::of({FATTR4_SIZE, FATTR4_CHANGE, FATTR4_OWNER, FATTR4_FSID, FATTR4_MAXREAD});
  fattr4 a = root->attributes("/export/f", wanted);
  EXPECT_EQ(root->run_at("/export/f", ops(VERIFY4args{a}, GETFH4args{})).status, NFS4_OK);
  EXPECT_EQ(root->run_at("/export/f", ops(NVERIFY4args{a})).status, NFS4ERR_SAME);
  a.size += 1;
  EXPECT_EQ(root->run_at("/export/f", ops(VERIFY4args{a})).status, NFS4ERR_NOT_SAME);
  EXPECT_EQ(root->run_at("/export/f", ops(NVERIFY4args{a})).status, NFS4_OK);
  EXPECT_EQ(root->run_at("/export/f", ops(VERIFY4args{attrs({FATTR4_HIDDEN})})).status, NFS4ERR_ATTRNOTSUPP);
  EXPECT_EQ(root->run_at("/export/f", ops(VERIFY4args{attrs({FATTR4_RDATTR_ERROR})})).status, NFS4ERR_INVAL);
}

INSTANTIATE_TEST_SUITE_P(Kept, FileTest, ::testing::Values(Kept::kInMemory, Kept::kByHost), name_of);

}  // namespace
}  // namespace nfsrdma::filer::test

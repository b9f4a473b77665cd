// SPDX-License-Identifier: Apache-2.0
// All attributes, one by one, in all operations that take attributes (RFC 8881 sections 5.5, 5.6, 18.7,
// 18.15, 18.23, 18.30, 18.31).

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

constexpr bitmap4 kSetOnly =
    bitmap4::of({FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET, FATTR4_MODE_SET_MASKED});
constexpr bitmap4 kReadWrite = bitmap4::of({FATTR4_SIZE, FATTR4_MODE, FATTR4_OWNER, FATTR4_OWNER_GROUP});
constexpr uint32_t kLastAttribute = FATTR4_XATTR_SUPPORT;

std::vector<uint32_t> all_attributes() {
  std::vector<uint32_t> numbers;
  for (uint32_t number = 0; number <= kLastAttribute; ++number) {
    if (!attribute_name(number).empty()) numbers.push_back(number);
  }
  return numbers;
}

bitmap4 only(uint32_t number) {
  bitmap4 map;
  map.set(static_cast<fattr4_number>(number));
  return map;
}
// The attribute with any value of its type.
fattr4 some(uint32_t number) {
  fattr4 a;
  a.attrmask = only(number);
  a.owner = a.owner_group = "0";
  if (number == FATTR4_TYPE) a.type = NF4REG;
  return a;
}

class AttributesTest : public ::testing::TestWithParam<Kept> {
 protected:
  void SetUp() override {
    if (GetParam() == Kept::kByHost && !may_act_as_callers()) GTEST_SKIP() << "needs root";
    server = start_server(kept(GetParam(), directory));
    ASSERT_TRUE(server->make_file("/export/f", "content"));
    ASSERT_TRUE(server->make_directory("/export/d"));
    ASSERT_TRUE(server->make_symlink("/export/l", "f"));
    client = std::make_unique<RawClient>(*server);
    ASSERT_TRUE(client->establish());
    supported = client->attributes("/export/f", bitmap4::of({FATTR4_SUPPORTED_ATTRS})).fs->supported_attrs;
  }
  nfsstat4 at_path(const std::string& path, const Ops& request) {
    return client->run_at(path, request).status;
  }

  TempDirectory directory;
  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
  bitmap4 supported;
};

// "the supported_attrs attribute ... is a bit vector that would retrieve all mandatory and recommended
// attributes that are supported for this object": exactly these attributes are returned, for any object.
TEST_P(AttributesTest, SupportedAttrs_IsTheTruth) {
  for (const std::string path : {"/", "/export", "/export/f", "/export/d", "/export/l"}) {
    const bitmap4 claimed =
        client->attributes(path, bitmap4::of({FATTR4_SUPPORTED_ATTRS})).fs->supported_attrs;
    bitmap4 all;
    for (const uint32_t number : all_attributes()) {
      const auto attribute = static_cast<fattr4_number>(number);
      if (kSetOnly.test(attribute)) continue;
      const bitmap4 got = client->attributes(path, only(number)).attrmask;
      EXPECT_EQ(got, claimed.test(attribute) ? only(number) : bitmap4{})
          << path << ": " << attribute_name(number);
      all.set(attribute);
    }
    EXPECT_EQ(client->attributes(path, all).attrmask, claimed.without(kSetOnly)) << path;
  }
}

// "suppattr_exclcreat: ... all REQUIRED and RECOMMENDED attributes that can be set with EXCLUSIVE4_1"
TEST_P(AttributesTest, SuppattrExclcreat_HoldsWhatCanBeSetOnly) {
  const bitmap4 exclusive =
      client->attributes("/export", bitmap4::of({FATTR4_SUPPATTR_EXCLCREAT})).fs->suppattr_exclcreat;
  EXPECT_FALSE(exclusive.empty());
  EXPECT_TRUE((kSetOnly | kReadWrite).contains(exclusive));
  EXPECT_TRUE(supported.contains(exclusive));
}

// "the server MUST return NFS4ERR_INVAL" for reading a set-only attribute, in all operations.
TEST_P(AttributesTest, SetOnlyOnes_CannotBeRead) {
  for (const uint32_t number : all_attributes()) {
    if (!kSetOnly.test(static_cast<fattr4_number>(number))) continue;
    READDIR4args list;
    list.maxcount = 8192;
    list.attr_request = only(number) | bitmap4::of({FATTR4_TYPE});
    EXPECT_EQ(at_path("/export/f", ops(GETATTR4args{only(number)})), NFS4ERR_INVAL) << attribute_name(number);
    EXPECT_EQ(at_path("/export", ops(list)), NFS4ERR_INVAL) << attribute_name(number);
    EXPECT_EQ(at_path("/export/f", ops(VERIFY4args{some(number)})), NFS4ERR_INVAL) << attribute_name(number);
    EXPECT_EQ(at_path("/export/f", ops(NVERIFY4args{some(number)})), NFS4ERR_INVAL) << attribute_name(number);
  }
}

// The same for setting a get-only one; "If the server does not support an attribute as requested by the
// client, the server SHOULD return NFS4ERR_ATTRNOTSUPP". SETATTR, CREATE and OPEN behave alike and create
// nothing.
TEST_P(AttributesTest, WhatCannotBeSet_IsRefusedEverywhere) {
  for (const uint32_t number : all_attributes()) {
    const auto attribute = static_cast<fattr4_number>(number);
    if ((kSetOnly | kReadWrite).test(attribute)) continue;
    const nfsstat4 expected = supported.test(attribute) ? NFS4ERR_INVAL : NFS4ERR_ATTRNOTSUPP;
    OPEN4args open = client->open_args("new");
    open.openhow.opentype = OPEN4_CREATE;
    open.openhow.how.createattrs = some(number);
    EXPECT_EQ(at_path("/export/f", ops(SETATTR4args{{}, some(number)})), expected) << attribute_name(number);
    EXPECT_EQ(at_path("/export", ops(CREATE4args{{NF4DIR, {}, {}}, "new", some(number)})), expected)
        << attribute_name(number);
    EXPECT_EQ(at_path("/export", ops(open)), expected) << attribute_name(number);
    // "not in suppattr_exclcreat, the server MUST return NFS4ERR_INVAL".
    open.openhow.how.mode = EXCLUSIVE4_1;
    EXPECT_EQ(at_path("/export", ops(open)), NFS4ERR_INVAL) << attribute_name(number);
  }
  EXPECT_EQ(server->list("/export").size(), 3u);
}

// SETATTR's result has "what (if any) attributes were successfully set", even if it fails.
TEST_P(AttributesTest, AttributesThatWereSet_AreThoseAskedFor) {
  for (const uint32_t number : {FATTR4_SIZE, FATTR4_MODE, FATTR4_OWNER, FATTR4_OWNER_GROUP,
                                FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET, FATTR4_MODE_SET_MASKED}) {
    const COMPOUND4res reply = client->run_at("/export/f", ops(SETATTR4args{{}, some(number)}));
    EXPECT_EQ(reply.status, NFS4_OK) << attribute_name(number);
    EXPECT_EQ(at<SETATTR4res>(reply, 0).attrsset, only(number)) << attribute_name(number);
  }
  EXPECT_EQ(at_path("/export/f", ops(SETATTR4args{})), NFS4_OK) << "nothing";
  fattr4 both = some(FATTR4_MODE);
  both.attrmask.set(FATTR4_TIME_CREATE);
  const COMPOUND4res failed = client->run_at("/export/f", ops(SETATTR4args{{}, both}));
  EXPECT_EQ(failed.status, NFS4ERR_INVAL);
  EXPECT_TRUE(at<SETATTR4res>(failed, 0).attrsset.empty());
}

TEST_P(AttributesTest, ValuesOutOfRange_AreInvalid) {
  fattr4 mode = some(FATTR4_MODE);
  mode.mode = 010000;
  fattr4 time = some(FATTR4_TIME_MODIFY_SET);
  time.time_modify_set = {SET_TO_CLIENT_TIME4, {0, 1'000'000'000}};
  fattr4 both = some(FATTR4_MODE);
  both.attrmask.set(FATTR4_MODE_SET_MASKED);
  for (const fattr4& bad : {mode, time, both}) {
    EXPECT_EQ(at_path("/export/f", ops(SETATTR4args{{}, bad})), NFS4ERR_INVAL);
  }
  fattr4 size = some(FATTR4_SIZE);
  size.size = UINT64_MAX;
  EXPECT_EQ(at_path("/export/f", ops(SETATTR4args{{}, size})), NFS4ERR_FBIG);
  EXPECT_EQ(client->attributes("/export/f", only(FATTR4_SIZE)).size, 7u);
}

// VERIFY accepts the values that GETATTR has just returned; NFS4ERR_ATTRNOTSUPP for unsupported attributes,
// NFS4ERR_INVAL for rdattr_error.
TEST_P(AttributesTest, Verify_KnowsEveryReadableOne) {
  // Other programs may use the host's disk meanwhile.
  const bitmap4 disk =
      bitmap4::of({FATTR4_FILES_AVAIL, FATTR4_FILES_FREE, FATTR4_SPACE_AVAIL, FATTR4_SPACE_FREE});
  const auto verify_disk = [&] {
    return at_path("/export/f", ops(VERIFY4args{client->attributes("/export/f", disk)}));
  };
  nfsstat4 verified = verify_disk();
  for (int again = 0; verified == NFS4ERR_NOT_SAME && again < 1000; ++again) verified = verify_disk();
  EXPECT_EQ(verified, NFS4_OK);
  for (const std::string path : {"/export/f", "/export/d", "/export/l"}) {
    const fattr4 all = client->attributes(path, supported.without(kSetOnly).without(disk).without(
                                                    bitmap4::of({FATTR4_RDATTR_ERROR, FATTR4_TIME_ACCESS})));
    EXPECT_EQ(at_path(path, ops(VERIFY4args{all})), NFS4_OK) << path;
    EXPECT_EQ(at_path(path, ops(NVERIFY4args{all})), NFS4ERR_SAME) << path;
  }
  fattr4 size = some(FATTR4_SIZE);
  size.size = 8;
  EXPECT_EQ(at_path("/export/f", ops(VERIFY4args{size})), NFS4ERR_NOT_SAME);
  EXPECT_EQ(at_path("/export/f", ops(NVERIFY4args{size})), NFS4_OK);
  for (const uint32_t number : all_attributes()) {
    if (supported.test(static_cast<fattr4_number>(number))) continue;
    EXPECT_EQ(at_path("/export/f", ops(VERIFY4args{some(number)})), NFS4ERR_ATTRNOTSUPP)
        << attribute_name(number);
    EXPECT_EQ(at_path("/export/f", ops(NVERIFY4args{some(number)})), NFS4ERR_ATTRNOTSUPP)
        << attribute_name(number);
  }
  EXPECT_EQ(at_path("/export/f", ops(VERIFY4args{some(FATTR4_RDATTR_ERROR)})), NFS4ERR_INVAL);
}

// "Servers SHOULD treat any attempt to use bits that are not defined as NFS4ERR_INVAL" (section 18.1.3).
// Granted bits are a subset of the supported ones, and these of the requested ones.
TEST_P(AttributesTest, Access_AnswersWhatItWasAsked) {
  for (const std::string path : {"/", "/export", "/export/f", "/export/d", "/export/l"}) {
    for (uint32_t asked = 0; asked < 0x40; ++asked) {
      const COMPOUND4res reply = client->run_at(path, ops(ACCESS4args{asked}));
      const ACCESS4resok& res = at<ACCESS4res>(reply, 0).resok4;
      EXPECT_EQ(res.supported & ~asked, 0u) << path << " " << asked;
      EXPECT_EQ(res.access & ~res.supported, 0u) << path << " " << asked;
    }
  }
  EXPECT_EQ(at_path("/export/f", ops(ACCESS4args{0x8000})), NFS4ERR_INVAL);
}

// --- READDIR ---

// "cookie values of zero, 1, and 2 are to be considered reserved": 1 and 2 fail with any verifier.
TEST_P(AttributesTest, ReservedCookies_AreBad) {
  READDIR4args list;
  list.maxcount = 8192;
  const COMPOUND4res reply = client->run_at("/export", ops(list));
  const verifier4 verifier = at<READDIR4res>(reply, 0).resok4.cookieverf;
  for (const entry4& entry : at<READDIR4res>(reply, 0).resok4.reply.entries) EXPECT_GT(entry.cookie, 2u);
  for (const uint64_t cookie : {1u, 2u}) {
    for (const verifier4& v : {verifier4{}, verifier}) {
      list.cookie = cookie;
      list.cookieverf = v;
      EXPECT_EQ(at_path("/export", ops(list)), NFS4ERR_BAD_COOKIE) << cookie;
    }
  }
}

// "If the server is unable to return a single directory entry within the maxcount limit, the error
// NFS4ERR_TOOSMALL MUST be returned"; dircount "is a hint".
TEST_P(AttributesTest, CountsOfReaddir_BoundIt) {
  READDIR4args list;
  for (const uint32_t maxcount : {0u, 1u, 15u, 16u, 30u}) {
    list.maxcount = maxcount;
    EXPECT_EQ(at_path("/export", ops(list)), NFS4ERR_TOOSMALL) << maxcount;
  }
  list.maxcount = UINT32_MAX;
  for (const uint32_t dircount : {0u, 1u, UINT32_MAX}) {
    list.dircount = dircount;
    const COMPOUND4res reply = client->run_at("/export", ops(list));
    EXPECT_EQ(reply.status, NFS4_OK) << dircount;
    EXPECT_EQ(at<READDIR4res>(reply, 0).resok4.reply.eof, dircount != 1) << dircount;
  }
}

// A user who may read but not search a directory gets only names: "the server can instead return the
// attribute rdattr_error" if it was requested; "If the client does not request the attribute, the server has
// no choice but to return failure".
TEST_P(AttributesTest, DirectoryThatMayNotBeSearched_HasNamesWithAnError) {
  ASSERT_TRUE(server->make_directory("/export/d/sub"));
  fattr4 mode = some(FATTR4_MODE);
  mode.mode = 0744;
  ASSERT_EQ(at_path("/export/d", ops(SETATTR4args{{}, mode})), NFS4_OK);
  RawClient user(*server, "user", {.uid = 1000, .gid = 1000});
  ASSERT_TRUE(user.establish());
  READDIR4args list;
  list.maxcount = 8192;
  list.attr_request = bitmap4::of({FATTR4_TYPE, FATTR4_RDATTR_ERROR});
  const COMPOUND4res reply = user.run_at("/export/d", ops(list));
  ASSERT_EQ(reply.status, NFS4_OK);
  const dirlist4& found = at<READDIR4res>(reply, 0).resok4.reply;
  ASSERT_EQ(found.entries.size(), 1u);
  EXPECT_TRUE(found.eof);
  EXPECT_EQ(found.entries[0].name, "sub");
  EXPECT_EQ(found.entries[0].attrs.attrmask, bitmap4::of({FATTR4_RDATTR_ERROR}));
  EXPECT_EQ(found.entries[0].attrs.rdattr_error, NFS4ERR_ACCESS);
  list.attr_request = bitmap4::of({FATTR4_TYPE});
  EXPECT_EQ(user.run_at("/export/d", ops(list)).status, NFS4ERR_ACCESS);
  list.attr_request = {};
  EXPECT_EQ(user.run_at("/export/d", ops(list)).status, NFS4_OK) << "names only";
  EXPECT_EQ(user.run_at("/export/d", ops(LOOKUP4args{"sub"})).status, NFS4ERR_ACCESS);
}

// Without search permission no operation tells what is in a directory.
TEST_P(AttributesTest, DirectoryThatMayNotBeSearched_TellsNobodyWhatIsThere) {
  if (GetParam() == Kept::kByHost && !may_act_as_callers()) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(server->make_directory("/export/d/sub"));
  ASSERT_TRUE(server->make_file("/export/d/f", "x", 0666));
  ASSERT_TRUE(server->make_file("/export/mine", "x", 0666));
  fattr4 mode = some(FATTR4_MODE);
  mode.mode = 0766;
  ASSERT_EQ(at_path("/export/d", ops(SETATTR4args{{}, mode})), NFS4_OK);
  RawClient user(*server, "user", {.uid = 1000, .gid = 1000});
  ASSERT_TRUE(user.establish());
  for (const char* name : {"sub", "f", "absent"}) {
    const auto asked = [&](const Ops& request) { return name_of(user.run_at("/export/d", request).status); };
    EXPECT_EQ(asked(ops(CREATE4args{{NF4DIR}, name, {}})), "NFS4ERR_ACCESS") << name;
    EXPECT_EQ(asked(ops(LOOKUP4args{name})), "NFS4ERR_ACCESS") << name;
    EXPECT_EQ(asked(ops(SECINFO4args{name})), "NFS4ERR_ACCESS") << name;
    EXPECT_EQ(asked(ops(REMOVE4args{name})), "NFS4ERR_ACCESS") << name;
    EXPECT_EQ(asked(ops(user.open_args(name))), "NFS4ERR_ACCESS") << name;
    EXPECT_EQ(asked(ops(SAVEFH4args{}, RENAME4args{name, "new"})), "NFS4ERR_ACCESS") << name;
    const Ops here = ops(SAVEFH4args{}) + path_ops("/export/d");
    EXPECT_EQ(name_of(user.run_at("/export/mine", here + ops(LINK4args{name})).status), "NFS4ERR_ACCESS");
    EXPECT_EQ(name_of(user.run_at("/export", here + ops(RENAME4args{"mine", name})).status),
              "NFS4ERR_ACCESS");
  }
}

// chown(2): "When the owner or group of an executable file is changed by an unprivileged user, the S_ISUID
// and S_ISGID mode bits are cleared. POSIX does not specify whether this also should happen when root does
// the chown(); the Linux behavior depends on the kernel version, and since Linux 2.2.13, root is treated like
// other users. In case of a non-group-executable file (i.e., one for which the S_IXGRP bit is not set) the
// S_ISGID bit indicates mandatory locking, and is not cleared by a chown()."
TEST_P(AttributesTest, RootsChown_TakesSetIdBitsAway) {
  if (GetParam() == Kept::kByHost && !may_act_as_callers()) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(server->make_file("/export/program", "x", 0755));
  for (const auto& [before, after] : {std::pair(06755u, 0755u), {06745u, 02745u}, {01755u, 01755u}}) {
    fattr4 mode = some(FATTR4_MODE);
    mode.mode = before;
    ASSERT_EQ(at_path("/export/program", ops(SETATTR4args{{}, mode})), NFS4_OK);
    fattr4 owner = some(FATTR4_OWNER);
    owner.owner = "1000";
    ASSERT_EQ(at_path("/export/program", ops(SETATTR4args{{}, owner})), NFS4_OK);
    EXPECT_EQ(client->attributes("/export/program", bitmap4::of({FATTR4_MODE})).mode, after);
  }
}

INSTANTIATE_TEST_SUITE_P(Kept, AttributesTest, ::testing::Values(Kept::kInMemory, Kept::kByHost), name_of);

}  // namespace
}  // namespace nfsrdma::filer::test

// SPDX-License-Identifier: Apache-2.0
// Conversion of fattr4 to what an application sees, and back (RFC 8881 section 5).
#include "client/nfs4/attributes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: attribute names

fattr4 of_type(nfs_ftype4 type) {
  fattr4 f;
  f.attrmask = bitmap4::of({FATTR4_TYPE, FATTR4_SIZE, FATTR4_FILEID, FATTR4_CHANGE});
  f.type = type;
  f.size = 1000;
  f.fileid = 42;
  f.change = 7;
  return f;
}

TEST(ToAttributes, EveryType_HasItsModeBits) {
  const std::pair<nfs_ftype4, uint32_t> types[] = {
      {NF4REG, S_IFREG},  {NF4DIR, S_IFDIR},     {NF4BLK, S_IFBLK},
      {NF4CHR, S_IFCHR},  {NF4LNK, S_IFLNK},     {NF4SOCK, S_IFSOCK},
      {NF4FIFO, S_IFIFO}, {NF4ATTRDIR, S_IFDIR}, {NF4NAMEDATTR, S_IFREG}};
  for (const auto& [type, bits] : types) {
    EXPECT_EQ(client::nfs4::to_attributes(of_type(type), 0, 1, 2).mode & S_IFMT, bits) << type;
  }
}

// A server need not support mode, numlinks or space_used (section 5.6: RECOMMENDED attributes).
TEST(ToAttributes, WithoutRecommendedAttributes_AreUsable) {
  const client::Attributes file = client::nfs4::to_attributes(of_type(NF4REG), 0, 10, 20);
  EXPECT_EQ(file.mode, uint32_t{S_IFREG | 0444});
  EXPECT_EQ(client::nfs4::to_attributes(of_type(NF4DIR), 0, 0, 0).mode, uint32_t{S_IFDIR | 0555});
  EXPECT_EQ(file.nlink, 1u);
  EXPECT_EQ(file.used, 1000u);
  EXPECT_EQ(file.uid, 10u);
  EXPECT_EQ(file.gid, 20u);
  EXPECT_EQ(file.ino, 42u);
  EXPECT_EQ(file.change, 7u);
}

TEST(ToAttributes, ModeWithStrayBits_IsPermissionsOnly) {
  fattr4 f = of_type(NF4REG);
  f.attrmask.set(FATTR4_MODE);
  f.mode = 0xffffffff;
  EXPECT_EQ(client::nfs4::to_attributes(f, 0, 0, 0).mode, uint32_t{S_IFREG | 07777});
}

// off_t ends at 2^63 - 1.
TEST(ToAttributes, SizesBeyondWhatTheKernelTakes_AreTheLargestThatItDoes) {
  fattr4 f = of_type(NF4DIR);
  f.attrmask.set(FATTR4_SPACE_USED);
  f.size = uint64_t{1} << 63;
  f.space_used = UINT64_MAX;
  const client::Attributes a = client::nfs4::to_attributes(f, 0, 0, 0);
  EXPECT_EQ(a.size, uint64_t{INT64_MAX});
  EXPECT_EQ(a.used, uint64_t{INT64_MAX});
}

// Section 3.3.1: "nseconds [...] must be less than one second".
TEST(ToAttributes, HostileNanoseconds_StayBelowASecond) {
  fattr4 f = of_type(NF4REG);
  f.attrmask.set(FATTR4_TIME_MODIFY);
  f.time_modify = {-5, 0xffffffff};
  const client::Attributes a = client::nfs4::to_attributes(f, 0, 0, 0);
  EXPECT_EQ(a.mtime.tv_sec, -5);
  EXPECT_EQ(a.mtime.tv_nsec, 999'999'999);
  EXPECT_EQ(a.ctime.tv_sec, -5) << "no time_metadata: the time of modification";
}

TEST(ToFattr, Nothing_IsAnEmptyMask) {
  EXPECT_TRUE(client::nfs4::to_fattr({}, "", "").attrmask.empty());
}

TEST(ToFattr, EachMember_IsItsAttribute) {
  client::SetAttributes set;
  set.size = 5;
  set.mode = 0107644;
  set.uid = 1;
  set.gid = 2;
  set.atime = client::SetAttributes::Time{true, {}};
  set.mtime = client::SetAttributes::Time{false, {-1, 5}};
  const fattr4 f = client::nfs4::to_fattr(set, "one", "two");
  EXPECT_EQ(f.attrmask, bitmap4::of({FATTR4_SIZE, FATTR4_MODE, FATTR4_OWNER, FATTR4_OWNER_GROUP,
                                     FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET}));
  EXPECT_EQ(f.size, 5u);
  EXPECT_EQ(f.mode, 07644u);
  EXPECT_EQ(f.owner, "one");
  EXPECT_EQ(f.owner_group, "two");
  EXPECT_EQ(f.time_access_set.set_it, SET_TO_SERVER_TIME4);
  EXPECT_EQ(f.time_modify_set, (settime4{SET_TO_CLIENT_TIME4, {-1, 5}}));
}

// RFC 8881 section 6.2.1: "Each ACE is processed until all of the bits of the requester's access have been
// ALLOWED."
TEST(Acl, LetsAllSearch_WhereNobodyIsDeniedItBeforeEverybodyIsAllowed) {
  const auto searched = [](std::vector<nfsace4> acl) {
    fattr4 f = of_type(NF4DIR);
    f.attrmask.set(FATTR4_ACL);
    f.rare.edit().acl = std::move(acl);
    return client::nfs4::acl_lets_all_search(f);
  };
  constexpr uint32_t kAllowed = ACE4_ACCESS_ALLOWED_ACE_TYPE, kDenied = ACE4_ACCESS_DENIED_ACE_TYPE;
  const nfsace4 everybody{kAllowed, 0, ACE4_EXECUTE | ACE4_READ_DATA, "EVERYONE@"};
  EXPECT_FALSE(client::nfs4::acl_lets_all_search(of_type(NF4DIR))) << "not shown";
  EXPECT_FALSE(searched({}));
  EXPECT_TRUE(searched({everybody}));
  EXPECT_TRUE(searched({{kAllowed, 0, ACE4_EXECUTE, "OWNER@"}, everybody}));
  EXPECT_TRUE(searched({{kDenied, 0, ACE4_WRITE_DATA, "bob@x"}, everybody}));
  EXPECT_FALSE(searched({{kDenied, 0, ACE4_EXECUTE, "bob@x"}, everybody}));
  EXPECT_FALSE(searched({{kDenied, ACE4_IDENTIFIER_GROUP, ACE4_EXECUTE, "GROUP@"}, everybody}));
  EXPECT_TRUE(searched({everybody, {kDenied, 0, ACE4_EXECUTE, "bob@x"}})) << "too late";
  EXPECT_TRUE(searched({{kDenied, ACE4_INHERIT_ONLY_ACE, ACE4_EXECUTE, "bob@x"}, everybody}));
  EXPECT_FALSE(searched({{kAllowed, ACE4_INHERIT_ONLY_ACE, ACE4_EXECUTE, "EVERYONE@"}}));
  EXPECT_FALSE(searched({{kAllowed, 0, ACE4_READ_DATA, "EVERYONE@"}}));
  EXPECT_FALSE(searched({{kAllowed, 0, ACE4_EXECUTE, "alice@x"}}));
  EXPECT_FALSE(searched({{ACE4_SYSTEM_AUDIT_ACE_TYPE, 0, ACE4_EXECUTE, "EVERYONE@"}}));
}

TEST(Exports, EachFileSystem_HasItsIndexForGood) {
  client::Exports exports;
  EXPECT_EQ(exports.index_of({1, 1}), 0u);
  EXPECT_EQ(exports.index_of({1, 2}), 1u);
  EXPECT_EQ(exports.index_of({2, 1}), 2u);
  EXPECT_EQ(exports.index_of({1, 2}), 1u);
  EXPECT_EQ(exports.index_of({1, 1}), 0u);
}

TEST(Exports, ServerWithoutAnEndOfThem_TakesNoMemoryWithoutAnEnd) {
  client::Exports exports;
  for (uint64_t i = 0; i < client::Exports::kMost + 10u; ++i) exports.index_of({i, 7});
  EXPECT_EQ(exports.index_of({client::Exports::kMost - 1, 7}), client::Exports::kMost - 1);
  EXPECT_EQ(exports.index_of({client::Exports::kMost, 7}), client::Exports::kMost);
  EXPECT_EQ(exports.index_of({client::Exports::kMost + 5, 7}), client::Exports::kMost);
}

TEST(Exports, InodeNumbers_AreTheFileidsAtHomeAndApartElsewhere) {
  EXPECT_EQ(client::Exports::ino(0, {5, 6}, 42), 42u);
  EXPECT_NE(client::Exports::ino(1, {5, 6}, 42), 42u);
  EXPECT_NE(client::Exports::ino(1, {5, 6}, 42), client::Exports::ino(2, {5, 7}, 42));
  EXPECT_EQ(client::Exports::ino(1, {5, 6}, 42), client::Exports::ino(1, {5, 6}, 42));
  EXPECT_NE(client::Exports::ino(1, {5, 6}, 42), client::Exports::ino(1, {5, 6}, 43));
}

}  // namespace
}  // namespace nfsrdma::test

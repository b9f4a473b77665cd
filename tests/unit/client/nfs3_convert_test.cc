// SPDX-License-Identifier: Apache-2.0
// Conversion of NFSv3's results and arguments, with hand-made libnfs structures.
#include "client/nfs3/convert.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace nfsrdma::client::nfs3 {
namespace {

fattr3 some_attributes() {
  fattr3 a{};
  a.type = NF3CHR;
  a.mode = 04755;
  a.nlink = 2;
  a.uid = 7;
  a.gid = 8;
  a.size = 1ULL << 40;
  a.used = 4096;
  a.rdev = {5, 6};
  a.fsid = 9;
  a.fileid = 10;
  a.atime = {1, 2};
  a.mtime = {3, 4};
  a.ctime = {4'000'000'000U, 999'999'999U};
  return a;
}

post_op_attr following(const fattr3& a) {
  post_op_attr out{};
  out.attributes_follow = 1;
  out.post_op_attr_u.attributes = a;
  return out;
}

TEST(Nfs3Convert, Attributes_KeepEveryField) {
  const FileAttributes f = from_wire(some_attributes());
  const client::Attributes& a = f.attributes;
  EXPECT_EQ(a.mode, static_cast<uint32_t>(S_IFCHR | 04755));
  EXPECT_EQ(a.nlink, 2u);
  EXPECT_EQ(a.uid, 7u);
  EXPECT_EQ(a.gid, 8u);
  EXPECT_EQ(a.size, 1ULL << 40);
  EXPECT_EQ(a.used, 4096u);
  EXPECT_EQ(a.rdev_major, 5u);
  EXPECT_EQ(a.rdev_minor, 6u);
  EXPECT_EQ(f.fsid, 9u);
  EXPECT_EQ(a.ino, 10u);
  EXPECT_EQ(a.atime.tv_nsec, 2);
  EXPECT_EQ(a.mtime.tv_sec, 3);
  EXPECT_EQ(a.ctime.tv_sec, 4'000'000'000);  // after 2038
}

TEST(Nfs3Convert, SizesBeyondWhatTheKernelTakes_AreTheLargestThatItDoes) {
  fattr3 a = some_attributes();
  a.size = UINT64_MAX;
  a.used = uint64_t{1} << 63;
  EXPECT_EQ(from_wire(a).attributes.size, uint64_t{INT64_MAX});
  EXPECT_EQ(from_wire(a).attributes.used, uint64_t{INT64_MAX});
}

TEST(Nfs3Convert, ChangeAttribute_FollowsCtime) {
  fattr3 before = some_attributes(), after = before;
  before.ctime = {100, 999'999'999U};
  after.ctime = {101, 0};
  EXPECT_LT(from_wire(before).attributes.change, from_wire(after).attributes.change);
  after.ctime = {100, 4'000'000'000U};  // invalid: counts as the last nanosecond of its second
  EXPECT_EQ(from_wire(before).attributes.change, from_wire(after).attributes.change);
}

TEST(Nfs3Convert, SetAttributes_OnlyWhatIsSet) {
  client::SetAttributes set;
  set.uid = 3;
  set.mode = S_IFREG | 0640;
  set.mtime = client::SetAttributes::Time{false, {-1, 5}};
  set.atime = client::SetAttributes::Time{true, {}};
  const sattr3 s = to_wire(set);
  EXPECT_EQ(s.mode.set_mode3_u.mode, 0640u);
  EXPECT_EQ(s.uid.set_uid3_u.uid, 3u);
  EXPECT_EQ(s.gid.set_it, 0u);
  EXPECT_EQ(s.size.set_it, 0u);
  EXPECT_EQ(s.atime.set_it, SET_TO_SERVER_TIME);
  EXPECT_EQ(s.mtime.set_it, SET_TO_CLIENT_TIME);
  EXPECT_EQ(s.mtime.set_mtime_u.mtime.seconds, 0u);  // nfstime3 starts in 1970
}

TEST(Nfs3Convert, FailedLookup_StillHasTheDirectorysAttributes) {
  LOOKUP3res res{};
  res.status = NFS3ERR_NOENT;
  res.LOOKUP3res_u.resfail.dir_attributes = following(some_attributes());
  ObjectAnswer answer;
  ASSERT_TRUE(take(res, answer));
  EXPECT_EQ(answer.status, NFS3ERR_NOENT_);
  ASSERT_TRUE(answer.directory.after);
  EXPECT_EQ(answer.directory.after->attributes.ino, 10u);
}

TEST(Nfs3Convert, Handle_OfAnImpossibleSize_IsRefused) {
  char bytes[100] = {};
  for (const u_int size : {0U, 65U, 100U}) {
    LOOKUP3res res{};
    res.LOOKUP3res_u.resok.object.data.data_len = size;
    res.LOOKUP3res_u.resok.object.data.data_val = bytes;
    ObjectAnswer answer;
    EXPECT_FALSE(take(res, answer)) << size;
  }
}

TEST(Nfs3Convert, CreateWithoutHandle_LeavesItEmpty) {
  CREATE3res res{};
  wcc_data& wcc = res.CREATE3res_u.resok.dir_wcc;
  wcc.before.attributes_follow = 1;
  wcc.before.pre_op_attr_u.attributes.ctime = {2, 3};
  ObjectAnswer answer;
  ASSERT_TRUE(take(res, answer));
  EXPECT_TRUE(answer.handle.empty());
  EXPECT_FALSE(answer.object);
  EXPECT_EQ(answer.directory.before, 2'000'000'003u);
}

TEST(Nfs3Convert, Read_LongerThanAsked_IsRefused) {
  char data[8] = "1234567";
  READ3res res{};
  res.READ3res_u.resok.data.data_len = 8;
  res.READ3res_u.resok.data.data_val = data;
  std::array<std::byte, 8> room{};
  ReadAnswer answer;
  answer.destination = MutableBytes(room).first(4);
  EXPECT_FALSE(take(res, answer));
  answer.destination = room;
  ASSERT_TRUE(take(res, answer));
  EXPECT_EQ(answer.count, 8u);
  EXPECT_EQ(std::memcmp(room.data(), data, 8), 0);
}

TEST(Nfs3Convert, Listing_LeavesOutTheDots) {
  char dot[] = ".", dots[] = "..", name[] = "name";
  entryplus3 entries[3]{};
  entries[0] = {1, dot, 1, {}, {}, &entries[1]};
  entries[1] = {2, dots, 2, {}, {}, &entries[2]};
  entries[2] = {3, name, 77, following(some_attributes()), {}, nullptr};
  READDIRPLUS3res res{};
  res.READDIRPLUS3res_u.resok.reply = {entries, 1};
  ReaddirAnswer answer;
  ASSERT_TRUE(take(res, answer));
  ASSERT_EQ(answer.entries.size(), 1u);
  EXPECT_EQ(answer.entries[0].name, "name");
  EXPECT_EQ(answer.entries[0].cookie, 77u);
  EXPECT_TRUE(answer.entries[0].object);
  EXPECT_TRUE(answer.eof);
}

TEST(Nfs3Convert, Listing_WithAPathForAName_IsRefused) {
  for (const char* bad : {"", "a/b", "/", "../../etc/passwd"}) {
    std::string text = bad;
    entry3 entry{1, text.data(), 5, nullptr};
    READDIR3res res{};
    res.READDIR3res_u.resok.reply = {&entry, 1};
    ReaddirAnswer answer;
    EXPECT_FALSE(take(res, answer)) << bad;
  }
}

TEST(Nfs3Wire, Errors_AreTheKernelClients) {
  EXPECT_EQ(nfs3_error(NFS3ERR_NOENT, "LOOKUP").errnum, ENOENT);
  EXPECT_EQ(nfs3_error(NFS3ERR_NAMETOOLONG, "LOOKUP").errnum, ENAMETOOLONG);
  EXPECT_EQ(nfs3_error(NFS3ERR_NOTEMPTY, "RMDIR").errnum, ENOTEMPTY);
  EXPECT_EQ(nfs3_error(NFS3ERR_DQUOT, "WRITE").errnum, EDQUOT);
  EXPECT_EQ(nfs3_error(NFS3ERR_BADHANDLE, "GETATTR").errnum, ESTALE);
  EXPECT_EQ(nfs3_error(123456, "GETATTR").errnum, EIO);
}

TEST(Nfs3Wire, ProcedureNames_AreTheProtocols) {
  EXPECT_EQ(procedure_name(NFS3_NULL), "NULL");
  EXPECT_EQ(procedure_name(NFS3_READDIRPLUS), "READDIRPLUS");
  EXPECT_EQ(procedure_name(NFS3_COMMIT), "COMMIT");
  EXPECT_EQ(static_cast<uint32_t>(Procedure::kCommit), static_cast<uint32_t>(NFS3_COMMIT));
}

}  // namespace
}  // namespace nfsrdma::client::nfs3

// SPDX-License-Identifier: Apache-2.0
#include "xdr/nfs4_status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

namespace nfsrdma::nfs4 {
namespace {

std::vector<nfsstat4> all() {
  return {
#define NFS4_STATUS(name, ...) NFS4ERR_##name,
#include "xdr/nfs4_status.def"
#undef NFS4_STATUS
  };
}

TEST(Nfs4Status, EveryLine_IsComplete) {
  for (const nfsstat4 status : all()) {
    const StatusInfo* info = status_info(status);
    ASSERT_NE(info, nullptr) << status;
    EXPECT_EQ(info->status, status);
    EXPECT_TRUE(info->name.starts_with("NFS4ERR_")) << info->name;
    EXPECT_GT(info->errnum, 0) << info->name;
    EXPECT_LT(info->errnum, 134) << info->name << ": applications know no errno above EHWPOISON";
    EXPECT_FALSE(info->meaning.empty()) << info->name;
    EXPECT_FALSE(info->section.empty()) << info->name;
  }
}

// RFC 8881 table 11 lists 102 errors. Added are RESOURCE, which only the XDR has, seven of RFC 7862 and two
// of RFC 8276.
TEST(Nfs4Status, Table_IsAsLongAsTheRfcs) {
  EXPECT_EQ(all().size(), 102U + 1U + 7U + 2U);
}

TEST(Nfs4Status, NumbersOfTheRfc_AreTheEnum) {
  EXPECT_EQ(NFS4ERR_PERM, 1);
  EXPECT_EQ(NFS4ERR_STALE, 70);
  EXPECT_EQ(NFS4ERR_BADHANDLE, 10001);
  EXPECT_EQ(NFS4ERR_BADSESSION, 10052);
  EXPECT_EQ(NFS4ERR_DELEG_REVOKED, 10087);
  EXPECT_EQ(NFS4ERR_XATTR2BIG, 10096);
}

TEST(Nfs4Status, Recovery_FollowsTheRfcsRecoverySections) {
  EXPECT_EQ(recovery_of(NFS4ERR_NOENT), Recovery::kPermanent);
  EXPECT_EQ(recovery_of(NFS4ERR_DELAY), Recovery::kRetry);
  EXPECT_EQ(recovery_of(NFS4ERR_GRACE), Recovery::kWait);
  EXPECT_EQ(recovery_of(NFS4ERR_CONN_NOT_BOUND_TO_SESSION), Recovery::kReconnect);
  for (const nfsstat4 status : {NFS4ERR_BADSESSION, NFS4ERR_DEADSESSION, NFS4ERR_BADSLOT,
                                NFS4ERR_BAD_HIGH_SLOT, NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY}) {
    EXPECT_EQ(recovery_of(status), Recovery::kNewSession) << name_of(status);
  }
  for (const nfsstat4 status :
       {NFS4ERR_STALE_CLIENTID, NFS4ERR_EXPIRED, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID,
        NFS4ERR_ADMIN_REVOKED, NFS4ERR_DELEG_REVOKED, NFS4ERR_OPENMODE}) {
    EXPECT_EQ(recovery_of(status), Recovery::kRecoverState) << name_of(status);
  }
}

TEST(Nfs4Status, Errno_IsWhatApplicationsKnow) {
  const std::vector<std::pair<nfsstat4, int>> expected = {
      {NFS4ERR_PERM, EPERM},
      {NFS4ERR_NOENT, ENOENT},
      {NFS4ERR_IO, EIO},
      {NFS4ERR_ACCESS, EACCES},
      {NFS4ERR_EXIST, EEXIST},
      {NFS4ERR_XDEV, EXDEV},
      {NFS4ERR_NOTDIR, ENOTDIR},
      {NFS4ERR_ISDIR, EISDIR},
      {NFS4ERR_INVAL, EINVAL},
      {NFS4ERR_FBIG, EFBIG},
      {NFS4ERR_NOSPC, ENOSPC},
      {NFS4ERR_ROFS, EROFS},
      {NFS4ERR_MLINK, EMLINK},
      {NFS4ERR_NAMETOOLONG, ENAMETOOLONG},
      {NFS4ERR_NOTEMPTY, ENOTEMPTY},
      {NFS4ERR_DQUOT, EDQUOT},
      {NFS4ERR_STALE, ESTALE},
      {NFS4ERR_BADHANDLE, ESTALE},
      {NFS4ERR_NOTSUPP, EOPNOTSUPP},
      {NFS4ERR_SHARE_DENIED, EACCES},
      {NFS4ERR_LOCKED, EAGAIN},
      {NFS4ERR_DENIED, EAGAIN},
      {NFS4ERR_DEADLOCK, EDEADLK},
      {NFS4ERR_BADNAME, EINVAL},
      {NFS4ERR_BADCHAR, EINVAL},
      {NFS4ERR_BADOWNER, EINVAL},
      {NFS4ERR_SYMLINK, ELOOP},
      {NFS4ERR_WRONGSEC, EPERM},
      {NFS4ERR_FILE_OPEN, EBUSY},
      {NFS4ERR_SERVERFAULT, EREMOTEIO},
      {NFS4ERR_NOXATTR, ENODATA},
      {NFS4ERR_XATTR2BIG, E2BIG},
  };
  for (const auto& [status, errnum] : expected) EXPECT_EQ(errno_of(status), errnum) << name_of(status);
}

TEST(Nfs4Status, Ok_IsNoError) {
  EXPECT_EQ(name_of(NFS4_OK), "NFS4_OK");
  EXPECT_EQ(errno_of(NFS4_OK), 0);
}

TEST(Nfs4Status, NumberOfALaterVersion_IsKeptAndFinal) {
  const nfsstat4 later{10999};
  EXPECT_EQ(status_info(later), nullptr);
  EXPECT_EQ(name_of(later), "NFS4ERR_10999");
  EXPECT_EQ(recovery_of(later), Recovery::kPermanent);
  EXPECT_EQ(errno_of(later), EIO);
  EXPECT_EQ(severity_of(later), Severity::kWarning);
  EXPECT_TRUE(nfs_error(later, "OPEN").is_status(10999));
}

TEST(Nfs4Status, UnassignedNumberInBetween_IsNotFound) {
  EXPECT_EQ(status_info(nfsstat4{19}), nullptr);  // RFC 8881 does not use 19, because NFSv3 did
  EXPECT_EQ(status_info(nfsstat4{10073}), nullptr);
  EXPECT_EQ(status_info(nfsstat4{UINT32_MAX}), nullptr);
}

}  // namespace
}  // namespace nfsrdma::nfs4

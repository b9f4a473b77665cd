// SPDX-License-Identifier: Apache-2.0
#include "client/nfs3/wire.h"

#include <array>
#include <cerrno>

namespace nfsrdma::client::nfs3 {
namespace {

constexpr std::array kNames{"NULL",   "GETATTR", "SETATTR",  "LOOKUP", "ACCESS",  "READLINK",
                            "READ",   "WRITE",   "CREATE",   "MKDIR",  "SYMLINK", "MKNOD",
                            "REMOVE", "RMDIR",   "RENAME",   "LINK",   "READDIR", "READDIRPLUS",
                            "FSSTAT", "FSINFO",  "PATHCONF", "COMMIT"};

struct StatusRow {
  uint32_t status;
  int errnum;
};
// RFC 1813 section 2.6. A status that is not in this table, or that has no errno of its own, is EIO.
constexpr StatusRow kRows[] = {
    {1, EPERM},           // NFS3ERR_PERM
    {2, ENOENT},          // NFS3ERR_NOENT
    {5, EIO},             // NFS3ERR_IO
    {6, ENXIO},           // NFS3ERR_NXIO
    {13, EACCES},         // NFS3ERR_ACCES
    {17, EEXIST},         // NFS3ERR_EXIST
    {18, EXDEV},          // NFS3ERR_XDEV
    {19, ENODEV},         // NFS3ERR_NODEV
    {20, ENOTDIR},        // NFS3ERR_NOTDIR
    {21, EISDIR},         // NFS3ERR_ISDIR
    {22, EINVAL},         // NFS3ERR_INVAL
    {27, EFBIG},          // NFS3ERR_FBIG
    {28, ENOSPC},         // NFS3ERR_NOSPC
    {30, EROFS},          // NFS3ERR_ROFS
    {31, EMLINK},         // NFS3ERR_MLINK
    {63, ENAMETOOLONG},   // NFS3ERR_NAMETOOLONG
    {66, ENOTEMPTY},      // NFS3ERR_NOTEMPTY
    {69, EDQUOT},         // NFS3ERR_DQUOT
    {70, ESTALE},         // NFS3ERR_STALE
    {71, EREMOTE},        // NFS3ERR_REMOTE
    {10001, ESTALE},      // NFS3ERR_BADHANDLE
    {10002, EIO},         // NFS3ERR_NOT_SYNC
    {10003, EIO},         // NFS3ERR_BAD_COOKIE
    {10004, EOPNOTSUPP},  // NFS3ERR_NOTSUPP
    {10005, EIO},         // NFS3ERR_TOOSMALL
    {10006, EREMOTEIO},   // NFS3ERR_SERVERFAULT
    {10007, EINVAL},      // NFS3ERR_BADTYPE
    {10008, EAGAIN},      // NFS3ERR_JUKEBOX
};

}  // namespace

Error nfs3_error(uint32_t status, const char* op) {
  Error error = system_error(EIO, op);
  error.layer = Layer::kNfs;
  error.status = status;
  for (const StatusRow& row : kRows) {
    if (row.status == status) error.errnum = row.errnum;
  }
  return error;
}

std::string procedure_name(uint32_t procedure) {
  return procedure < kNames.size() ? kNames[procedure] : std::to_string(procedure);
}

}  // namespace nfsrdma::client::nfs3

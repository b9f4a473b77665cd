// SPDX-License-Identifier: Apache-2.0
// Maps errno of the host's file system to nfsstat4 (RFC 8881 section 15.1). Pure.
#pragma once

#include <cerrno>

#include "xdr/nfs4_status.h"

namespace nfsrdma::filer::tree {

inline nfs4::nfsstat4 status_of(int error) {
  switch (error) {
    case 0: return nfs4::NFS4_OK;
    case EPERM: return nfs4::NFS4ERR_PERM;
    case ENOENT: return nfs4::NFS4ERR_NOENT;
    case EACCES: return nfs4::NFS4ERR_ACCESS;
    case EEXIST: return nfs4::NFS4ERR_EXIST;
    case EXDEV: return nfs4::NFS4ERR_XDEV;
    case ENOTDIR: return nfs4::NFS4ERR_NOTDIR;
    case EISDIR: return nfs4::NFS4ERR_ISDIR;
    case EINVAL: return nfs4::NFS4ERR_INVAL;
    case EFBIG: return nfs4::NFS4ERR_FBIG;
    case ENOSPC: return nfs4::NFS4ERR_NOSPC;
    case EROFS: return nfs4::NFS4ERR_ROFS;
    case EMLINK: return nfs4::NFS4ERR_MLINK;
    case ENAMETOOLONG: return nfs4::NFS4ERR_NAMETOOLONG;
    case ENOTEMPTY: return nfs4::NFS4ERR_NOTEMPTY;
    case EDQUOT: return nfs4::NFS4ERR_DQUOT;
    case ESTALE: return nfs4::NFS4ERR_STALE;
    case EBUSY: return nfs4::NFS4ERR_FILE_OPEN;
    case ETXTBSY: return nfs4::NFS4ERR_ACCESS;
    case ELOOP: return nfs4::NFS4ERR_SYMLINK;
    case EOPNOTSUPP: return nfs4::NFS4ERR_NOTSUPP;
    case ENOMEM:
    case ENFILE:
    case EMFILE: return nfs4::NFS4ERR_DELAY;
    default: return nfs4::NFS4ERR_IO;
  }
}

}  // namespace nfsrdma::filer::tree

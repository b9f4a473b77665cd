// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/reply_bounds.h"

namespace nfsrdma::client::nfs4::reply_bounds {
namespace {

size_t attribute(uint32_t number) {
  switch (number) {
    case nfs4::FATTR4_ACL:
    case nfs4::FATTR4_DACL:
    case nfs4::FATTR4_SACL:
    case nfs4::FATTR4_FS_LOCATIONS:
    case nfs4::FATTR4_FS_LOCATIONS_INFO: return kUnbounded;
    case nfs4::FATTR4_OWNER:
    case nfs4::FATTR4_OWNER_GROUP:
    case nfs4::FATTR4_MIMETYPE: return kPrincipal;
    case nfs4::FATTR4_FILEHANDLE: return kHandle;
    default:
      return 40;  // the longest of the rest: fs_charset_cap, layout types, fs_status without its strings
  }
}

}  // namespace

size_t attributes(const nfs4::bitmap4& mask) {
  size_t bytes = kBitmap + 4;
  mask.every([&](uint32_t number) {
    bytes += attribute(number);
    return true;
  });
  return bytes;
}

}  // namespace nfsrdma::client::nfs4::reply_bounds

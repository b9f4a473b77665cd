// SPDX-License-Identifier: Apache-2.0
// The error that an application gets when the server rejects a name because of its encoding.
#pragma once

#include <cerrno>
#include <string_view>
#include <utility>

#include "xdr/nfs4_status.h"
#include "xdr/support/error.h"
#include "xdr/support/utf8.h"

namespace nfsrdma::client {

// RFC 8881 section 14.4 demands NFS4ERR_INVAL for a name that is not UTF-8. Servers also return
// NFS4ERR_BADCHAR and NFS4ERR_BADNAME, and all three for other reasons, too. If a name in the request, or the
// text of its symbolic link, is not UTF-8, the error becomes EILSEQ. All other errors stay as they are.
inline Error because_of_names(Error error, std::string_view text, std::string_view other_text = {}) {
  const bool names_it = error.is_status(nfs4::NFS4ERR_INVAL) || error.is_status(nfs4::NFS4ERR_BADCHAR) ||
                        error.is_status(nfs4::NFS4ERR_BADNAME);
  if (names_it && !(is_utf8(text) && is_utf8(other_text))) error.errnum = EILSEQ;
  return error;
}

}  // namespace nfsrdma::client

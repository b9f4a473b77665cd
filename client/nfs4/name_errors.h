// SPDX-License-Identifier: Apache-2.0
// What an application is told of a name that the server refuses because of its encoding.
#pragma once

#include <cerrno>
#include <string_view>
#include <utility>

#include "xdr/nfs4_status.h"
#include "xdr/support/error.h"
#include "xdr/support/utf8.h"

namespace nfsrdma::client {

// RFC 8881 section 14.4 has NFS4ERR_INVAL for a name that is not UTF-8, and servers say NFS4ERR_BADCHAR and
// NFS4ERR_BADNAME as well, also for other reasons. Where a name of the request, or the text of its
// link, is not UTF-8, that is the reason: EILSEQ. Everything else stays as it is.
inline Error because_of_names(Error error, std::string_view text, std::string_view other_text = {}) {
  const bool names_it = error.is_status(nfs4::NFS4ERR_INVAL) || error.is_status(nfs4::NFS4ERR_BADCHAR) ||
                        error.is_status(nfs4::NFS4ERR_BADNAME);
  if (names_it && !(is_utf8(text) && is_utf8(other_text))) error.errnum = EILSEQ;
  return error;
}

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// Which statuses an operation may return: the table of RFC 8881 section 15.2, "Operations and Their Valid
// Errors".
#pragma once

#include "xdr/nfs4/compound.h"

namespace nfsrdma::filer::test {

bool may_answer(nfs4::nfs_opnum4 op, nfs4::nfsstat4 status);

}  // namespace nfsrdma::filer::test

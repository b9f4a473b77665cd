// SPDX-License-Identifier: Apache-2.0
// The operations of NFSv4.1, one function for each (RFC 8881 section 18).
//
//     XXX4res execute(Context&, const XXX4args&);
//
// Declared here for all operations with types of their own; defined in ops_*.cc by topic. A function changes
// the current filehandle and stateid only if it succeeds. SEQUENCE is handled in sequence.h; execute()
// answers it with NFS4ERR_SEQUENCE_POS.
#pragma once

#include "filer/nfs/context.h"
#include "xdr/nfs4/compound.h"

namespace nfsrdma::filer::nfs {

#define NFSRDMA_FILER_OPERATION(op) nfs4::op##4res execute(Context& c, const nfs4::op##4args & args);
NFS4_EACH_OP(NFSRDMA_FILER_OPERATION)
#undef NFSRDMA_FILER_OPERATION

// The result of an operation that fails and returns only a status.
template <class Res>
Res refused(nfs4::nfsstat4 status) {
  Res res;
  res.status = status;
  return res;
}

}  // namespace nfsrdma::filer::nfs

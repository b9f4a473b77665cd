// SPDX-License-Identifier: Apache-2.0
// The operations: one function per operation, arguments in, result out (RFC 8881 section 18).
//
//     XXX4res execute(Context&, const XXX4args&);
//
// Declared for all operations that have types of their own; defined in ops_*.cc by concern. A function may
// move the current filehandle and stateid only when it succeeds. SEQUENCE is not here: it is the frame of a
// COMPOUND (sequence.h), and met anywhere else it is NFS4ERR_SEQUENCE_POS.
#pragma once

#include "filer/nfs/context.h"
#include "xdr/nfs4/compound.h"

namespace nfsrdma::filer {

#define NFSRDMA_FILER_OPERATION(op) nfs4::op##4res execute(Context& c, const nfs4::op##4args & args);
NFS4_EACH_OP(NFSRDMA_FILER_OPERATION)
#undef NFSRDMA_FILER_OPERATION

// The result of an operation that failed and has nothing more to say.
template <class Res>
Res refused(nfs4::nfsstat4 status) {
  Res res;
  res.status = status;
  return res;
}

}  // namespace nfsrdma::filer

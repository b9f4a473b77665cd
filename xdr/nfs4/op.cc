// SPDX-License-Identifier: Apache-2.0
#include "xdr/nfs4/op.h"

#include <iterator>

namespace nfsrdma::nfs4 {

namespace {

// Indexed by operation number, from OP_ACCESS.
constexpr const char* kOperationNames[] = {"ACCESS",
                                           "CLOSE",
                                           "COMMIT",
                                           "CREATE",
                                           "DELEGPURGE",
                                           "DELEGRETURN",
                                           "GETATTR",
                                           "GETFH",
                                           "LINK",
                                           "LOCK",
                                           "LOCKT",
                                           "LOCKU",
                                           "LOOKUP",
                                           "LOOKUPP",
                                           "NVERIFY",
                                           "OPEN",
                                           "OPENATTR",
                                           "OPEN_CONFIRM",
                                           "OPEN_DOWNGRADE",
                                           "PUTFH",
                                           "PUTPUBFH",
                                           "PUTROOTFH",
                                           "READ",
                                           "READDIR",
                                           "READLINK",
                                           "REMOVE",
                                           "RENAME",
                                           "RENEW",
                                           "RESTOREFH",
                                           "SAVEFH",
                                           "SECINFO",
                                           "SETATTR",
                                           "SETCLIENTID",
                                           "SETCLIENTID_CONFIRM",
                                           "VERIFY",
                                           "WRITE",
                                           "RELEASE_LOCKOWNER",
                                           "BACKCHANNEL_CTL",
                                           "BIND_CONN_TO_SESSION",
                                           "EXCHANGE_ID",
                                           "CREATE_SESSION",
                                           "DESTROY_SESSION",
                                           "FREE_STATEID",
                                           "GET_DIR_DELEGATION",
                                           "GETDEVICEINFO",
                                           "GETDEVICELIST",
                                           "LAYOUTCOMMIT",
                                           "LAYOUTGET",
                                           "LAYOUTRETURN",
                                           "SECINFO_NO_NAME",
                                           "SEQUENCE",
                                           "SET_SSV",
                                           "TEST_STATEID",
                                           "WANT_DELEGATION",
                                           "DESTROY_CLIENTID",
                                           "RECLAIM_COMPLETE",
                                           "ALLOCATE",
                                           "COPY",
                                           "COPY_NOTIFY",
                                           "DEALLOCATE",
                                           "IO_ADVISE",
                                           "LAYOUTERROR",
                                           "LAYOUTSTATS",
                                           "OFFLOAD_CANCEL",
                                           "OFFLOAD_STATUS",
                                           "READ_PLUS",
                                           "SEEK",
                                           "WRITE_SAME",
                                           "CLONE",
                                           "GETXATTR",
                                           "SETXATTR",
                                           "LISTXATTRS",
                                           "REMOVEXATTR"};
static_assert(std::size(kOperationNames) == OP_REMOVEXATTR - OP_ACCESS + 1);

}  // namespace

const char* op_name(nfs_opnum4 op) {
  if (op == OP_ILLEGAL) return "ILLEGAL";
  if (op < OP_ACCESS || op > OP_REMOVEXATTR) return nullptr;
  return kOperationNames[op - OP_ACCESS];
}

}  // namespace nfsrdma::nfs4

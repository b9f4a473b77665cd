// SPDX-License-Identifier: Apache-2.0
// Operations of NFSv4.1 as types: their numbers and names, and the two functions with which a client builds
// and reads COMPOUNDs.
//
// Every operation XXX has a struct XXX4args and a struct XXX4res, also where the RFC has "void" arguments.
// Every XXX4res has a member `status`. The members of the successful arm (mostly `resok4`) are encoded and
// valid only if status == NFS4_OK; data in a failure arm is noted at its member.
//
//     encode_op(x, GETATTR4args{...});             // opnum, then arguments
//     GETATTR4res res; decode_res(reply, res);     // opnum checked, then result
//
// Not included: pNFS (GETDEVICEINFO, GETDEVICELIST, LAYOUT*), NFSv4.0 operations that NFSv4.1 forbids, and
// NFSv4.2. The COMPOUND decoders return these as ILLEGAL4args / ILLEGAL4res (compound.h).
#pragma once

#include <cstdint>

#include "xdr/nfs4/basic.h"

namespace nfsrdma::nfs4 {

// RFC 8881 section 18, then RFC 7862 and RFC 8276 for the numbers above 58.
enum nfs_opnum4 : uint32_t {
  OP_ACCESS = 3,
  OP_CLOSE = 4,
  OP_COMMIT = 5,
  OP_CREATE = 6,
  OP_DELEGPURGE = 7,
  OP_DELEGRETURN = 8,
  OP_GETATTR = 9,
  OP_GETFH = 10,
  OP_LINK = 11,
  OP_LOCK = 12,
  OP_LOCKT = 13,
  OP_LOCKU = 14,
  OP_LOOKUP = 15,
  OP_LOOKUPP = 16,
  OP_NVERIFY = 17,
  OP_OPEN = 18,
  OP_OPENATTR = 19,
  OP_OPEN_CONFIRM = 20,  // must not be implemented
  OP_OPEN_DOWNGRADE = 21,
  OP_PUTFH = 22,
  OP_PUTPUBFH = 23,
  OP_PUTROOTFH = 24,
  OP_READ = 25,
  OP_READDIR = 26,
  OP_READLINK = 27,
  OP_REMOVE = 28,
  OP_RENAME = 29,
  OP_RENEW = 30,  // must not be implemented
  OP_RESTOREFH = 31,
  OP_SAVEFH = 32,
  OP_SECINFO = 33,
  OP_SETATTR = 34,
  OP_SETCLIENTID = 35,          // must not be implemented
  OP_SETCLIENTID_CONFIRM = 36,  // must not be implemented
  OP_VERIFY = 37,
  OP_WRITE = 38,
  OP_RELEASE_LOCKOWNER = 39,  // must not be implemented
  OP_BACKCHANNEL_CTL = 40,
  OP_BIND_CONN_TO_SESSION = 41,
  OP_EXCHANGE_ID = 42,
  OP_CREATE_SESSION = 43,
  OP_DESTROY_SESSION = 44,
  OP_FREE_STATEID = 45,
  OP_GET_DIR_DELEGATION = 46,
  OP_GETDEVICEINFO = 47,
  OP_GETDEVICELIST = 48,
  OP_LAYOUTCOMMIT = 49,
  OP_LAYOUTGET = 50,
  OP_LAYOUTRETURN = 51,
  OP_SECINFO_NO_NAME = 52,
  OP_SEQUENCE = 53,
  OP_SET_SSV = 54,
  OP_TEST_STATEID = 55,
  OP_WANT_DELEGATION = 56,
  OP_DESTROY_CLIENTID = 57,
  OP_RECLAIM_COMPLETE = 58,
  OP_ALLOCATE = 59,  // from here on NFSv4.2
  OP_COPY = 60,
  OP_COPY_NOTIFY = 61,
  OP_DEALLOCATE = 62,
  OP_IO_ADVISE = 63,
  OP_LAYOUTERROR = 64,
  OP_LAYOUTSTATS = 65,
  OP_OFFLOAD_CANCEL = 66,
  OP_OFFLOAD_STATUS = 67,
  OP_READ_PLUS = 68,
  OP_SEEK = 69,
  OP_WRITE_SAME = 70,
  OP_CLONE = 71,
  OP_GETXATTR = 72,
  OP_SETXATTR = 73,
  OP_LISTXATTRS = 74,
  OP_REMOVEXATTR = 75,
  OP_ILLEGAL = 10044,
};

// "GETATTR"; nullptr for a number that no RFC up to 8276 assigns. Static storage.
const char* op_name(nfs_opnum4 op);

// op_of<GETATTR4args> == op_of<GETATTR4res> == OP_GETATTR.
template <class T>
inline constexpr nfs_opnum4 op_of = OP_ILLEGAL;

#define NFS4_OP(op)                                       \
  template <>                                             \
  inline constexpr nfs_opnum4 op_of<op##4args> = OP_##op; \
  template <>                                             \
  inline constexpr nfs_opnum4 op_of<op##4res> = OP_##op

// struct XXX4args of an operation whose arguments are void.
#define NFS4_VOID_ARGS(op)                              \
  struct op##4args {                                    \
    bool operator==(const op##4args &) const = default; \
  };                                                    \
  template <class X>                                    \
  bool xdr(X& x, Ref<X, op##4args>) {                   \
    return x.ok();                                      \
  }

// struct XXX4res of an operation that returns only its status.
#define NFS4_STATUS_RESULT(op)                         \
  struct op##4res {                                    \
    nfsstat4 status = NFS4_OK;                         \
    bool operator==(const op##4res &) const = default; \
  };                                                   \
  template <class X>                                   \
  bool xdr(X& x, Ref<X, op##4res> v) {                 \
    return x(v.status);                                \
  }

// The usual result union: status, and resok4 if it is NFS4_OK.
template <class X, class Res>
bool result(X& x, Res& v) {
  return x(v.status) && (v.status != NFS4_OK || x(v.resok4));
}

template <class X, class Args>
bool encode_op(X& x, const Args& args) {
  static_assert(op_of<Args> != OP_ILLEGAL);
  const typename X::Batch batch(x);
  return x(op_of<Args>) && x(args);
}

// Statuses of ILLEGAL (RFC 8881 table 12). Servers send BADXDR with it if they could not decode the
// operation.
inline bool legal_illegal(nfsstat4 status) {
  return status == NFS4ERR_OP_ILLEGAL || status == NFS4ERR_BADXDR;
}

// Decodes one result of a COMPOUND whose operation is known. A server may answer any operation with ILLEGAL
// (RFC 8881 section 16.2.3); `out.status` is then the status of ILLEGAL.
template <class Res>
bool decode_res(xdr::Decoder& x, Res& out) {
  static_assert(op_of<Res> != OP_ILLEGAL);
  nfs_opnum4 op{};
  if (!x(op)) return false;
  if (op == op_of<Res>) return x(out);
  if (op != OP_ILLEGAL) return x.fail("result of another operation than the one that was sent");
  if (!x(out.status)) return false;
  return legal_illegal(out.status) || x.fail("ILLEGAL with a status it cannot have");
}

}  // namespace nfsrdma::nfs4

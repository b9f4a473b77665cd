// SPDX-License-Identifier: Apache-2.0
// COMPOUND, the procedure of NFSv4.1 (RFC 8881 section 16.2).
//
//     COMPOUND4args = tag utf8str_cs, minorversion u32, count u32, { opnum u32, arguments } * count
//     COMPOUND4res  = status, tag utf8str_cs, count u32, { opnum u32, result } * count
//
// A client builds and reads messages with compound_call, compound_reply, encode_op and decode_res (op.h).
// This allocates nothing, because the result types are known. COMPOUND4args and COMPOUND4res hold a whole
// message as a value, for servers, tests and tools.
//
// Operations that this program does not decode (pNFS, NFSv4.0, NFSv4.2, unassigned numbers) become
// ILLEGAL4args. Their length is unknown, so they are the last of their COMPOUND; all bytes after them are
// ignored. In results they are accepted only as a bare NFS4ERR_NOTSUPP; anything else is a decoding error.
#pragma once

#include <cstdint>
#include <variant>

#include "xdr/nfs4/client_ops.h"
#include "xdr/nfs4/dir_ops.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"
#include "xdr/nfs4/lock_ops.h"
#include "xdr/nfs4/open_ops.h"
#include "xdr/nfs4/session_ops.h"
#include "xdr/nfs4/state_ops.h"

namespace nfsrdma::nfs4 {

// More than any server grants (Linux: 50 to 200) and any client requests.
inline constexpr size_t kMaxOperations = 1024;

// The fields in front of a call's operations. `tag` is a view. A server must check minorversion before it
// decodes operations, because their set depends on it.
struct compound_call {
  ConstBytes tag{};
  uint32_t minorversion = 1;
  uint32_t operations = 0;
};
template <class X>
bool xdr(X& x, Ref<X, compound_call> v) {
  if (!xdr::view(x, v.tag, kMaxTag) || !x(v.minorversion)) return false;
  if constexpr (xdr::kDecodes<X>) {
    return x.count(v.operations, kMaxOperations, 4);
  } else {
    return v.operations <= kMaxOperations ? x(v.operations) : x.fail("too many operations");
  }
}

// The fields in front of a reply's results. `status` is that of the last result. The caller checks the count:
// there may be fewer results than operations only if `status` is not NFS4_OK (RFC 8881 section 16.2.3).
struct compound_reply {
  nfsstat4 status = NFS4_OK;
  ConstBytes tag{};  // a view
  uint32_t results = 0;
};
template <class X>
bool xdr(X& x, Ref<X, compound_reply> v) {
  if (!x(v.status) || !xdr::view(x, v.tag, kMaxTag)) return false;
  if constexpr (xdr::kDecodes<X>) {
    return x.count(v.results, kMaxOperations, 8);
  } else {
    return v.results <= kMaxOperations ? x(v.results) : x.fail("too many results");
  }
}

// --- whole messages ---

// An operation that is not decoded (see above). `argop` is the received number.
struct ILLEGAL4args {
  nfs_opnum4 argop = OP_ILLEGAL;

  bool operator==(const ILLEGAL4args&) const = default;
};

// OP_ILLEGAL with NFS4ERR_OP_ILLEGAL or NFS4ERR_BADXDR, or NFS4ERR_NOTSUPP for an assigned operation that the
// server does not implement.
struct ILLEGAL4res {
  nfsstat4 status = NFS4ERR_OP_ILLEGAL;
  nfs_opnum4 resop = OP_ILLEGAL;

  bool operator==(const ILLEGAL4res&) const = default;
};

// NFS4_EACH_OP(f): all operations with their own arguments and results, by number.
#define NFS4_EACH_OP(f)                                                                                      \
  f(ACCESS) f(CLOSE) f(COMMIT) f(CREATE) f(DELEGPURGE) f(DELEGRETURN) f(GETATTR) f(GETFH) f(LINK) f(LOCK)    \
      f(LOCKT) f(LOCKU) f(LOOKUP) f(LOOKUPP) f(NVERIFY) f(OPEN) f(OPENATTR) f(OPEN_DOWNGRADE) f(PUTFH)       \
          f(PUTPUBFH) f(PUTROOTFH) f(READ) f(READDIR) f(READLINK) f(REMOVE) f(RENAME) f(RESTOREFH) f(SAVEFH) \
              f(SECINFO) f(SETATTR) f(VERIFY) f(WRITE) f(BACKCHANNEL_CTL) f(BIND_CONN_TO_SESSION)            \
                  f(EXCHANGE_ID) f(CREATE_SESSION) f(DESTROY_SESSION) f(FREE_STATEID) f(GET_DIR_DELEGATION)  \
                      f(SECINFO_NO_NAME) f(SEQUENCE) f(SET_SSV) f(TEST_STATEID) f(WANT_DELEGATION)           \
                          f(DESTROY_CLIENTID) f(RECLAIM_COMPLETE)

#define NFS4_ARGS_TYPE(op) , op##4args
#define NFS4_RES_TYPE(op) , op##4res
struct nfs_argop4 {
  std::variant<ILLEGAL4args NFS4_EACH_OP(NFS4_ARGS_TYPE)> op;

  nfs_opnum4 opnum() const;
  bool operator==(const nfs_argop4&) const = default;
};
struct nfs_resop4 {
  std::variant<ILLEGAL4res NFS4_EACH_OP(NFS4_RES_TYPE)> op;

  nfs_opnum4 opnum() const;
  nfsstat4 status() const;
  bool operator==(const nfs_resop4&) const = default;
};
#undef NFS4_ARGS_TYPE
#undef NFS4_RES_TYPE

// Defined in compound.cc for Encoder, Sizer and Decoder. Decoding an ILLEGAL4args consumes only its number.
template <class X>
bool xdr(X& x, Ref<X, nfs_argop4> v);
template <class X>
bool xdr(X& x, Ref<X, nfs_resop4> v);

struct COMPOUND4args {
  std::string tag{};
  uint32_t minorversion = 1;
  std::vector<nfs_argop4> argarray{};

  bool operator==(const COMPOUND4args&) const = default;
};

struct COMPOUND4res {
  nfsstat4 status = NFS4_OK;
  std::string tag{};
  std::vector<nfs_resop4> resarray{};

  bool operator==(const COMPOUND4res&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, COMPOUND4args> v);
template <class X>
bool xdr(X& x, Ref<X, COMPOUND4res> v);

}  // namespace nfsrdma::nfs4

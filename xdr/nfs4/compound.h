// SPDX-License-Identifier: Apache-2.0
// COMPOUND, the one procedure of NFSv4.1 (RFC 8881 section 16.2).
//
//     COMPOUND4args = tag utf8str_cs, minorversion u32, count u32, { opnum u32, arguments } * count
//     COMPOUND4res  = status, tag utf8str_cs, count u32, { opnum u32, result } * count
//
// A client builds and reads messages with compound_call, compound_reply, encode_op and decode_res (op.h):
// nothing is allocated and the result types are known. COMPOUND4args and COMPOUND4res hold a whole message as
// a value, for servers, tests and tools.
//
// Operations this program does not decode (pNFS, NFSv4.0's, NFSv4.2's, unassigned numbers) become
// ILLEGAL4args. Their length is unknown, so they are the last of their COMPOUND: whatever follows is dropped.
// In results they are accepted only as a bare NFS4ERR_NOTSUPP; anything else is a decoding error.
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

// More than any server grants (Linux 50 to 200) and any client asks for.
inline constexpr size_t kMaxOperations = 1024;

// What stands before the operations of a call. `tag` borrows. A server must look at minorversion before it
// decodes operations: their set depends on it.
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

// What stands before the results of a reply. `status` is that of the last result, whose number may be smaller
// than the number of operations sent only if it is not NFS4_OK (RFC 8881 section 16.2.3; the caller checks).
struct compound_reply {
  nfsstat4 status = NFS4_OK;
  ConstBytes tag{};  // borrows
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

// An operation that is not decoded; see above. `argop` is the number that was received.
struct ILLEGAL4args {
  nfs_opnum4 argop = OP_ILLEGAL;

  bool operator==(const ILLEGAL4args&) const = default;
};

// OP_ILLEGAL with NFS4ERR_OP_ILLEGAL or NFS4ERR_BADXDR; or an assigned operation that the server does not
// implement, with NFS4ERR_NOTSUPP.
struct ILLEGAL4res {
  nfsstat4 status = NFS4ERR_OP_ILLEGAL;
  nfs_opnum4 resop = OP_ILLEGAL;

  bool operator==(const ILLEGAL4res&) const = default;
};

// NFS4_EACH_OP(f): every operation with arguments and results of its own, by number.
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

// Defined in compound.cc for Encoder, Sizer and Decoder. A decoded ILLEGAL4args consumes its number only.
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

// SPDX-License-Identifier: Apache-2.0
// CB_COMPOUND, the procedure of the callback program (RFC 8881 sections 16.3, 20).
//
// Callbacks are rare and small, so both sides hold them as values; there is no fast path as for COMPOUND.
// callback.h describes the operations and the handling of unknown ones.
#pragma once

#include <cstdint>
#include <variant>

#include "xdr/nfs4/callback.h"
#include "xdr/nfs4/compound.h"

namespace nfsrdma::nfs4 {

struct CB_ILLEGAL4args {
  nfs_cb_opnum4 argop = OP_CB_ILLEGAL;

  bool operator==(const CB_ILLEGAL4args&) const = default;
};

// The result of a callback operation that is not decoded. Only these pairs occur: OP_CB_ILLEGAL with
// NFS4ERR_OP_ILLEGAL or NFS4ERR_BADXDR, and OP_CB_OFFLOAD (NFSv4.2) with NFS4ERR_NOTSUPP.
struct CB_ILLEGAL4res {
  nfsstat4 status = NFS4ERR_OP_ILLEGAL;
  nfs_cb_opnum4 resop = OP_CB_ILLEGAL;

  bool operator==(const CB_ILLEGAL4res&) const = default;
};

// NFS4_EACH_CB_OP(f): all callback operations, by number.
#define NFS4_EACH_CB_OP(f)                                                                                \
  f(CB_GETATTR) f(CB_RECALL) f(CB_LAYOUTRECALL) f(CB_NOTIFY) f(CB_PUSH_DELEG) f(CB_RECALL_ANY)            \
      f(CB_RECALLABLE_OBJ_AVAIL) f(CB_RECALL_SLOT) f(CB_SEQUENCE) f(CB_WANTS_CANCELLED) f(CB_NOTIFY_LOCK) \
          f(CB_NOTIFY_DEVICEID)

#define NFS4_ARGS_TYPE(op) , op##4args
#define NFS4_RES_TYPE(op) , op##4res
struct nfs_cb_argop4 {
  std::variant<CB_ILLEGAL4args NFS4_EACH_CB_OP(NFS4_ARGS_TYPE)> op;

  nfs_cb_opnum4 opnum() const;
  bool operator==(const nfs_cb_argop4&) const = default;
};
struct nfs_cb_resop4 {
  std::variant<CB_ILLEGAL4res NFS4_EACH_CB_OP(NFS4_RES_TYPE)> op;

  nfs_cb_opnum4 opnum() const;
  nfsstat4 status() const;
  bool operator==(const nfs_cb_resop4&) const = default;
};
#undef NFS4_ARGS_TYPE
#undef NFS4_RES_TYPE

struct CB_COMPOUND4args {
  std::string tag{};
  uint32_t minorversion = 1;
  uint32_t callback_ident = 0;  // NFSv4.0 only
  std::vector<nfs_cb_argop4> argarray{};

  bool operator==(const CB_COMPOUND4args&) const = default;
};

struct CB_COMPOUND4res {
  nfsstat4 status = NFS4_OK;
  std::string tag{};
  std::vector<nfs_cb_resop4> resarray{};

  bool operator==(const CB_COMPOUND4res&) const = default;
};

// Defined in cb_compound.cc for Encoder, Sizer and Decoder.
template <class X>
bool xdr(X& x, Ref<X, nfs_cb_argop4> v);
template <class X>
bool xdr(X& x, Ref<X, nfs_cb_resop4> v);
template <class X>
bool xdr(X& x, Ref<X, CB_COMPOUND4args> v);
template <class X>
bool xdr(X& x, Ref<X, CB_COMPOUND4res> v);

}  // namespace nfsrdma::nfs4

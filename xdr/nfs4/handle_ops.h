// SPDX-License-Identifier: Apache-2.0
// Operations on the current and saved filehandle, name lookup, and security flavors: PUTFH, PUTPUBFH,
// PUTROOTFH, GETFH, SAVEFH, RESTOREFH, LOOKUP, LOOKUPP, SECINFO, SECINFO_NO_NAME (RFC 8881 sections 18.8,
// 18.13, 18.14, 18.19 to 18.21, 18.27 to 18.29, 18.45).
#pragma once

#include <cstdint>

#include "xdr/nfs4/op.h"
#include "xdr/rpc.h"

namespace nfsrdma::nfs4 {

struct PUTFH4args {
  nfs_fh4 object{};

  bool operator==(const PUTFH4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, PUTFH4args> v) {
  return x(v.object);
}
NFS4_STATUS_RESULT(PUTFH)

NFS4_VOID_ARGS(PUTPUBFH)
NFS4_STATUS_RESULT(PUTPUBFH)

NFS4_VOID_ARGS(PUTROOTFH)
NFS4_STATUS_RESULT(PUTROOTFH)

NFS4_VOID_ARGS(SAVEFH)
NFS4_STATUS_RESULT(SAVEFH)

NFS4_VOID_ARGS(RESTOREFH)
NFS4_STATUS_RESULT(RESTOREFH)

NFS4_VOID_ARGS(GETFH)

struct GETFH4resok {
  nfs_fh4 object{};

  bool operator==(const GETFH4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, GETFH4resok> v) {
  return x(v.object);
}

struct GETFH4res {
  nfsstat4 status = NFS4_OK;
  GETFH4resok resok4{};

  bool operator==(const GETFH4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, GETFH4res> v) {
  return result(x, v);
}

struct LOOKUP4args {
  component4 objname{};

  bool operator==(const LOOKUP4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LOOKUP4args> v) {
  return xdr::bytes(x, v.objname, kMaxComponent);
}
NFS4_STATUS_RESULT(LOOKUP)

NFS4_VOID_ARGS(LOOKUPP)
NFS4_STATUS_RESULT(LOOKUPP)

// --- security negotiation (RFC 8881 section 2.6, RFC 2203) ---

enum rpc_gss_svc_t : uint32_t {
  RPC_GSS_SVC_NONE = 1,
  RPC_GSS_SVC_INTEGRITY = 2,
  RPC_GSS_SVC_PRIVACY = 3,
};

struct rpcsec_gss_info {
  sec_oid4 oid{};  // bytes of an ASN.1 object identifier
  qop4 qop = 0;
  rpc_gss_svc_t service = RPC_GSS_SVC_NONE;

  bool operator==(const rpcsec_gss_info&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, rpcsec_gss_info> v) {
  if (!xdr::bytes(x, v.oid, kMaxUtf8) || !x(v.qop) || !x(v.service)) return false;
  const bool known = v.service >= RPC_GSS_SVC_NONE && v.service <= RPC_GSS_SVC_PRIVACY;
  return known || x.fail("unknown rpc_gss_svc_t");
}

struct secinfo4 {
  rpc::auth_flavor flavor = rpc::AUTH_NONE;
  rpcsec_gss_info flavor_info{};  // RPCSEC_GSS

  bool operator==(const secinfo4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, secinfo4> v) {
  return x(v.flavor) && (v.flavor != rpc::RPCSEC_GSS || x(v.flavor_info));
}

struct SECINFO4args {
  component4 name{};

  bool operator==(const SECINFO4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SECINFO4args> v) {
  return xdr::bytes(x, v.name, kMaxComponent);
}

// The flavors are in the server's order of preference, best first. Success consumes the current filehandle.
struct SECINFO4res {
  nfsstat4 status = NFS4_OK;
  std::vector<secinfo4> resok4{};

  bool operator==(const SECINFO4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SECINFO4res> v) {
  return x(v.status) && (v.status != NFS4_OK || xdr::array(x, v.resok4, kMaxList, 4));
}

enum secinfo_style4 : uint32_t { SECINFO_STYLE4_CURRENT_FH = 0, SECINFO_STYLE4_PARENT = 1 };

// Typedefs in the RFC; structs here, to be distinct types.
struct SECINFO_NO_NAME4args {
  secinfo_style4 style = SECINFO_STYLE4_CURRENT_FH;

  bool operator==(const SECINFO_NO_NAME4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SECINFO_NO_NAME4args> v) {
  if (!x(v.style)) return false;
  return v.style <= SECINFO_STYLE4_PARENT || x.fail("unknown secinfo_style4");
}

struct SECINFO_NO_NAME4res {
  nfsstat4 status = NFS4_OK;
  std::vector<secinfo4> resok4{};

  bool operator==(const SECINFO_NO_NAME4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SECINFO_NO_NAME4res> v) {
  return x(v.status) && (v.status != NFS4_OK || xdr::array(x, v.resok4, kMaxList, 4));
}

NFS4_OP(PUTFH);
NFS4_OP(PUTPUBFH);
NFS4_OP(PUTROOTFH);
NFS4_OP(SAVEFH);
NFS4_OP(RESTOREFH);
NFS4_OP(GETFH);
NFS4_OP(LOOKUP);
NFS4_OP(LOOKUPP);
NFS4_OP(SECINFO);
NFS4_OP(SECINFO_NO_NAME);

}  // namespace nfsrdma::nfs4

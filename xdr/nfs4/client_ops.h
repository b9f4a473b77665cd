// SPDX-License-Identifier: Apache-2.0
// Client IDs: EXCHANGE_ID, RECLAIM_COMPLETE, SET_SSV, DESTROY_CLIENTID
// (RFC 8881 sections 18.35, 18.47, 18.50, 18.51).
//
// The result unions have members `status` and `resok4` as in all other operations, whatever prefix the RFC
// uses; other members keep the RFC's names. SP4_SSV arms are supported, though this client does not use them.
#pragma once

#include <cstdint>
#include <optional>

#include "xdr/nfs4/op.h"

namespace nfsrdma::nfs4 {

// --- EXCHANGE_ID ---

enum exchange_id_flags : uint32_t {
  EXCHGID4_FLAG_SUPP_MOVED_REFER = 0x00000001,
  EXCHGID4_FLAG_SUPP_MOVED_MIGR = 0x00000002,
  EXCHGID4_FLAG_BIND_PRINC_STATEID = 0x00000100,
  EXCHGID4_FLAG_USE_NON_PNFS = 0x00010000,
  EXCHGID4_FLAG_USE_PNFS_MDS = 0x00020000,
  EXCHGID4_FLAG_USE_PNFS_DS = 0x00040000,
  EXCHGID4_FLAG_MASK_PNFS = 0x00070000,
  EXCHGID4_FLAG_UPD_CONFIRMED_REC_A = 0x40000000,
  EXCHGID4_FLAG_CONFIRMED_R = 0x80000000,
};

struct client_owner4 {
  verifier4 co_verifier{};   // identifies this instance of the client
  std::string co_ownerid{};  // opaque<1024>: identifies the client across its instances

  bool operator==(const client_owner4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, client_owner4> v) {
  return x(v.co_verifier) && xdr::bytes(x, v.co_ownerid, NFS4_OPAQUE_LIMIT);
}

struct server_owner4 {
  uint64_t so_minor_id = 0;
  std::string so_major_id{};  // opaque<1024>

  bool operator==(const server_owner4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, server_owner4> v) {
  return x(v.so_minor_id) && xdr::bytes(x, v.so_major_id, NFS4_OPAQUE_LIMIT);
}

struct nfs_impl_id4 {
  std::string nii_domain{};
  std::string nii_name{};
  nfstime4 nii_date{};

  bool operator==(const nfs_impl_id4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, nfs_impl_id4> v) {
  return xdr::bytes(x, v.nii_domain, kMaxUtf8) && xdr::bytes(x, v.nii_name, kMaxUtf8) && x(v.nii_date);
}

struct state_protect_ops4 {
  bitmap4 spo_must_enforce{};  // operation numbers
  bitmap4 spo_must_allow{};

  bool operator==(const state_protect_ops4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, state_protect_ops4> v) {
  return x(v.spo_must_enforce) && x(v.spo_must_allow);
}

// opaque<>, as an element of an array: an OID or a GSS handle.
struct opaque4 {
  std::string bytes{};

  bool operator==(const opaque4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, opaque4> v) {
  return xdr::bytes(x, v.bytes, kMaxOpaque);
}

struct ssv_sp_parms4 {
  state_protect_ops4 ssp_ops{};
  std::vector<opaque4> ssp_hash_algs{};
  std::vector<opaque4> ssp_encr_algs{};
  uint32_t ssp_window = 0;
  uint32_t ssp_num_gss_handles = 0;

  bool operator==(const ssv_sp_parms4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, ssv_sp_parms4> v) {
  return x(v.ssp_ops) && xdr::array(x, v.ssp_hash_algs, kMaxList, 4) &&
         xdr::array(x, v.ssp_encr_algs, kMaxList, 4) && x(v.ssp_window) && x(v.ssp_num_gss_handles);
}

struct ssv_prot_info4 {
  state_protect_ops4 spi_ops{};
  uint32_t spi_hash_alg = 0;
  uint32_t spi_encr_alg = 0;
  uint32_t spi_ssv_len = 0;
  uint32_t spi_window = 0;
  std::vector<opaque4> spi_handles{};

  bool operator==(const ssv_prot_info4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, ssv_prot_info4> v) {
  return x(v.spi_ops) && x(v.spi_hash_alg) && x(v.spi_encr_alg) && x(v.spi_ssv_len) && x(v.spi_window) &&
         xdr::array(x, v.spi_handles, kMaxList, 4);
}

enum state_protect_how4 : uint32_t { SP4_NONE = 0, SP4_MACH_CRED = 1, SP4_SSV = 2 };

// state_protect4_a and state_protect4_r differ only in their SP4_SSV arm.
template <class Ssv>
struct state_protect4 {
  state_protect_how4 how = SP4_NONE;
  state_protect_ops4 mach_ops{};  // SP4_MACH_CRED
  Ssv ssv{};                      // SP4_SSV

  bool operator==(const state_protect4&) const = default;
};
using state_protect4_a = state_protect4<ssv_sp_parms4>;
using state_protect4_r = state_protect4<ssv_prot_info4>;

template <class X, class Protect>
bool state_protect(X& x, Protect& v) {
  if (!x(v.how)) return false;
  switch (v.how) {
    case SP4_NONE: return true;
    case SP4_MACH_CRED: return x(v.mach_ops);
    case SP4_SSV: return x(v.ssv);
  }
  return x.fail("unknown state_protect_how4");
}
template <class X>
bool xdr(X& x, Ref<X, state_protect4_a> v) {
  return state_protect(x, v);
}
template <class X>
bool xdr(X& x, Ref<X, state_protect4_r> v) {
  return state_protect(x, v);
}

struct EXCHANGE_ID4args {
  client_owner4 eia_clientowner{};
  uint32_t eia_flags = 0;
  state_protect4_a eia_state_protect{};
  std::optional<nfs_impl_id4> eia_client_impl_id{};  // <1>

  bool operator==(const EXCHANGE_ID4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, EXCHANGE_ID4args> v) {
  return x(v.eia_clientowner) && x(v.eia_flags) && x(v.eia_state_protect) &&
         xdr::optional(x, v.eia_client_impl_id);
}

struct EXCHANGE_ID4resok {
  clientid4 eir_clientid = 0;
  sequenceid4 eir_sequenceid = 0;  // for the first CREATE_SESSION
  uint32_t eir_flags = 0;
  state_protect4_r eir_state_protect{};
  server_owner4 eir_server_owner{};
  std::string eir_server_scope{};  // opaque<1024>
  std::optional<nfs_impl_id4> eir_server_impl_id{};

  bool operator==(const EXCHANGE_ID4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, EXCHANGE_ID4resok> v) {
  return x(v.eir_clientid) && x(v.eir_sequenceid) && x(v.eir_flags) && x(v.eir_state_protect) &&
         x(v.eir_server_owner) && xdr::bytes(x, v.eir_server_scope, NFS4_OPAQUE_LIMIT) &&
         xdr::optional(x, v.eir_server_impl_id);
}

struct EXCHANGE_ID4res {
  nfsstat4 status = NFS4_OK;
  EXCHANGE_ID4resok resok4{};

  bool operator==(const EXCHANGE_ID4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, EXCHANGE_ID4res> v) {
  return result(x, v);
}

// --- RECLAIM_COMPLETE ---

struct RECLAIM_COMPLETE4args {
  bool rca_one_fs = false;

  bool operator==(const RECLAIM_COMPLETE4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, RECLAIM_COMPLETE4args> v) {
  return x(v.rca_one_fs);
}
NFS4_STATUS_RESULT(RECLAIM_COMPLETE)

// --- SET_SSV ---

struct SET_SSV4args {
  std::string ssa_ssv{};
  std::string ssa_digest{};

  bool operator==(const SET_SSV4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SET_SSV4args> v) {
  return xdr::bytes(x, v.ssa_ssv, kMaxOpaque) && xdr::bytes(x, v.ssa_digest, kMaxOpaque);
}

struct SET_SSV4resok {
  std::string ssr_digest{};

  bool operator==(const SET_SSV4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SET_SSV4resok> v) {
  return xdr::bytes(x, v.ssr_digest, kMaxOpaque);
}

struct SET_SSV4res {
  nfsstat4 status = NFS4_OK;
  SET_SSV4resok resok4{};

  bool operator==(const SET_SSV4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SET_SSV4res> v) {
  return result(x, v);
}

// --- DESTROY_CLIENTID ---

struct DESTROY_CLIENTID4args {
  clientid4 dca_clientid = 0;

  bool operator==(const DESTROY_CLIENTID4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, DESTROY_CLIENTID4args> v) {
  return x(v.dca_clientid);
}
NFS4_STATUS_RESULT(DESTROY_CLIENTID)

NFS4_OP(EXCHANGE_ID);
NFS4_OP(RECLAIM_COMPLETE);
NFS4_OP(SET_SSV);
NFS4_OP(DESTROY_CLIENTID);

}  // namespace nfsrdma::nfs4

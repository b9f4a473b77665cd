// Client IDs, sessions and their connections: EXCHANGE_ID, CREATE_SESSION, SEQUENCE, BIND_CONN_TO_SESSION,
// BACKCHANNEL_CTL, RECLAIM_COMPLETE, SET_SSV, DESTROY_SESSION, DESTROY_CLIENTID
// (RFC 8881 sections 18.33 to 18.37, 18.46, 18.47, 18.50, 18.51).
//
// Result unions are named `status` and `resok4` like those of all other operations, whatever prefix the RFC
// gives them; other members keep the RFC's names. SP4_SSV and RPCSEC_GSS arms are coded, though this client
// asks for neither.
#pragma once

#include <optional>

#include "xdr/nfs4/handle_ops.h"
#include "xdr/rpc.h"

namespace nfsrdma::nfs4 {

// --- EXCHANGE_ID
// -----------------------------------------------------------------------------------------------

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
  verifier4 co_verifier;   // this instance of the client
  std::string co_ownerid;  // opaque<1024>: the client, across its instances

  bool operator==(const client_owner4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, client_owner4> v) {
  return x(v.co_verifier) && xdr::bytes(x, v.co_ownerid, NFS4_OPAQUE_LIMIT);
}

struct server_owner4 {
  uint64_t so_minor_id = 0;
  std::string so_major_id;  // opaque<1024>

  bool operator==(const server_owner4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, server_owner4> v) {
  return x(v.so_minor_id) && xdr::bytes(x, v.so_major_id, NFS4_OPAQUE_LIMIT);
}

struct nfs_impl_id4 {
  std::string nii_domain;
  std::string nii_name;
  nfstime4 nii_date;

  bool operator==(const nfs_impl_id4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, nfs_impl_id4> v) {
  return xdr::bytes(x, v.nii_domain, kMaxUtf8) && xdr::bytes(x, v.nii_name, kMaxUtf8) && x(v.nii_date);
}

struct state_protect_ops4 {
  bitmap4 spo_must_enforce;  // of operation numbers
  bitmap4 spo_must_allow;

  bool operator==(const state_protect_ops4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, state_protect_ops4> v) {
  return x(v.spo_must_enforce) && x(v.spo_must_allow);
}

// opaque<>, as an element of an array: an OID or a GSS handle.
struct opaque4 {
  std::string bytes;

  bool operator==(const opaque4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, opaque4> v) {
  return xdr::bytes(x, v.bytes, kMaxOpaque);
}

struct ssv_sp_parms4 {
  state_protect_ops4 ssp_ops;
  std::vector<opaque4> ssp_hash_algs;
  std::vector<opaque4> ssp_encr_algs;
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
  state_protect_ops4 spi_ops;
  uint32_t spi_hash_alg = 0;
  uint32_t spi_encr_alg = 0;
  uint32_t spi_ssv_len = 0;
  uint32_t spi_window = 0;
  std::vector<opaque4> spi_handles;

  bool operator==(const ssv_prot_info4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, ssv_prot_info4> v) {
  return x(v.spi_ops) && x(v.spi_hash_alg) && x(v.spi_encr_alg) && x(v.spi_ssv_len) && x(v.spi_window) &&
         xdr::array(x, v.spi_handles, kMaxList, 4);
}

enum state_protect_how4 : uint32_t { SP4_NONE = 0, SP4_MACH_CRED = 1, SP4_SSV = 2 };

// state_protect4_a and state_protect4_r differ in their SP4_SSV arm only.
template <class Ssv>
struct state_protect4 {
  state_protect_how4 how = SP4_NONE;
  state_protect_ops4 mach_ops;  // SP4_MACH_CRED
  Ssv ssv;                      // SP4_SSV

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
  client_owner4 eia_clientowner;
  uint32_t eia_flags = 0;
  state_protect4_a eia_state_protect;
  std::optional<nfs_impl_id4> eia_client_impl_id;  // <1>

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
  state_protect4_r eir_state_protect;
  server_owner4 eir_server_owner;
  std::string eir_server_scope;  // opaque<1024>
  std::optional<nfs_impl_id4> eir_server_impl_id;

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
  EXCHANGE_ID4resok resok4;

  bool operator==(const EXCHANGE_ID4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, EXCHANGE_ID4res> v) {
  return result(x, v);
}

// --- CREATE_SESSION, BACKCHANNEL_CTL
// -----------------------------------------------------------------------------

enum create_session_flags : uint32_t {
  CREATE_SESSION4_FLAG_PERSIST = 0x1,
  CREATE_SESSION4_FLAG_CONN_BACK_CHAN = 0x2,
  CREATE_SESSION4_FLAG_CONN_RDMA = 0x4,
};

struct channel_attrs4 {
  count4 ca_headerpadsize = 0;           // bytes
  count4 ca_maxrequestsize = 0;          // bytes, RPC header included, transport header excluded
  count4 ca_maxresponsesize = 0;         // bytes
  count4 ca_maxresponsesize_cached = 0;  // bytes
  count4 ca_maxoperations = 0;           // SEQUENCE included
  count4 ca_maxrequests = 0;             // slots
  std::optional<uint32_t> ca_rdma_ird;   // <1>

  bool operator==(const channel_attrs4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, channel_attrs4> v) {
  return x(v.ca_headerpadsize) && x(v.ca_maxrequestsize) && x(v.ca_maxresponsesize) &&
         x(v.ca_maxresponsesize_cached) && x(v.ca_maxoperations) && x(v.ca_maxrequests) &&
         xdr::optional(x, v.ca_rdma_ird);
}

struct gss_cb_handles4 {
  rpc_gss_svc_t gcbp_service = RPC_GSS_SVC_NONE;
  std::string gcbp_handle_from_server;
  std::string gcbp_handle_from_client;

  bool operator==(const gss_cb_handles4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, gss_cb_handles4> v) {
  if (!x(v.gcbp_service)) return false;
  if (v.gcbp_service < RPC_GSS_SVC_NONE || v.gcbp_service > RPC_GSS_SVC_PRIVACY) {
    return x.fail("unknown rpc_gss_svc_t");
  }
  return xdr::bytes(x, v.gcbp_handle_from_server, kMaxOpaque) &&
         xdr::bytes(x, v.gcbp_handle_from_client, kMaxOpaque);
}

struct callback_sec_parms4 {
  rpc::auth_flavor cb_secflavor = rpc::AUTH_NONE;  // AUTH_NONE, AUTH_SYS or RPCSEC_GSS
  rpc::authsys_parms cbsp_sys_cred;                // AUTH_SYS
  gss_cb_handles4 cbsp_gss_handles;                // RPCSEC_GSS

  bool operator==(const callback_sec_parms4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, callback_sec_parms4> v) {
  if (!x(v.cb_secflavor)) return false;
  switch (v.cb_secflavor) {
    case rpc::AUTH_NONE: return true;
    case rpc::AUTH_SYS: return x(v.cbsp_sys_cred);
    case rpc::RPCSEC_GSS: return x(v.cbsp_gss_handles);
    default: return x.fail("flavor that callback_sec_parms4 does not have");
  }
}

struct CREATE_SESSION4args {
  clientid4 csa_clientid = 0;
  sequenceid4 csa_sequence = 0;
  uint32_t csa_flags = 0;
  channel_attrs4 csa_fore_chan_attrs;
  channel_attrs4 csa_back_chan_attrs;
  uint32_t csa_cb_program = 0;
  std::vector<callback_sec_parms4> csa_sec_parms;

  bool operator==(const CREATE_SESSION4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CREATE_SESSION4args> v) {
  return x(v.csa_clientid) && x(v.csa_sequence) && x(v.csa_flags) && x(v.csa_fore_chan_attrs) &&
         x(v.csa_back_chan_attrs) && x(v.csa_cb_program) && xdr::array(x, v.csa_sec_parms, kMaxList, 4);
}

struct CREATE_SESSION4resok {
  sessionid4 csr_sessionid;
  sequenceid4 csr_sequence = 0;
  uint32_t csr_flags = 0;
  channel_attrs4 csr_fore_chan_attrs;
  channel_attrs4 csr_back_chan_attrs;

  bool operator==(const CREATE_SESSION4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CREATE_SESSION4resok> v) {
  return x(v.csr_sessionid) && x(v.csr_sequence) && x(v.csr_flags) && x(v.csr_fore_chan_attrs) &&
         x(v.csr_back_chan_attrs);
}

struct CREATE_SESSION4res {
  nfsstat4 status = NFS4_OK;
  CREATE_SESSION4resok resok4;

  bool operator==(const CREATE_SESSION4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CREATE_SESSION4res> v) {
  return result(x, v);
}

struct BACKCHANNEL_CTL4args {
  uint32_t bca_cb_program = 0;
  std::vector<callback_sec_parms4> bca_sec_parms;

  bool operator==(const BACKCHANNEL_CTL4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, BACKCHANNEL_CTL4args> v) {
  return x(v.bca_cb_program) && xdr::array(x, v.bca_sec_parms, kMaxList, 4);
}
NFS4_STATUS_RESULT(BACKCHANNEL_CTL)

// --- BIND_CONN_TO_SESSION
// ----------------------------------------------------------------------------------------

enum channel_dir_from_client4 : uint32_t {
  CDFC4_FORE = 0x1,
  CDFC4_BACK = 0x2,
  CDFC4_FORE_OR_BOTH = 0x3,
  CDFC4_BACK_OR_BOTH = 0x7,
};

enum channel_dir_from_server4 : uint32_t { CDFS4_FORE = 0x1, CDFS4_BACK = 0x2, CDFS4_BOTH = 0x3 };

struct BIND_CONN_TO_SESSION4args {
  sessionid4 bctsa_sessid;
  channel_dir_from_client4 bctsa_dir = CDFC4_FORE_OR_BOTH;
  bool bctsa_use_conn_in_rdma_mode = false;

  bool operator==(const BIND_CONN_TO_SESSION4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, BIND_CONN_TO_SESSION4args> v) {
  if (!x(v.bctsa_sessid) || !x(v.bctsa_dir)) return false;
  const bool known =
      (v.bctsa_dir >= CDFC4_FORE && v.bctsa_dir <= CDFC4_FORE_OR_BOTH) || v.bctsa_dir == CDFC4_BACK_OR_BOTH;
  if (!known) return x.fail("unknown channel_dir_from_client4");
  return x(v.bctsa_use_conn_in_rdma_mode);
}

struct BIND_CONN_TO_SESSION4resok {
  sessionid4 bctsr_sessid;
  channel_dir_from_server4 bctsr_dir = CDFS4_BOTH;
  bool bctsr_use_conn_in_rdma_mode = false;

  bool operator==(const BIND_CONN_TO_SESSION4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, BIND_CONN_TO_SESSION4resok> v) {
  if (!x(v.bctsr_sessid) || !x(v.bctsr_dir)) return false;
  if (v.bctsr_dir < CDFS4_FORE || v.bctsr_dir > CDFS4_BOTH) return x.fail("unknown channel_dir_from_server4");
  return x(v.bctsr_use_conn_in_rdma_mode);
}

struct BIND_CONN_TO_SESSION4res {
  nfsstat4 status = NFS4_OK;
  BIND_CONN_TO_SESSION4resok resok4;

  bool operator==(const BIND_CONN_TO_SESSION4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, BIND_CONN_TO_SESSION4res> v) {
  return result(x, v);
}

// --- SEQUENCE
// ----------------------------------------------------------------------------------------------------

enum sequence_status_flags : uint32_t {
  SEQ4_STATUS_CB_PATH_DOWN = 0x00000001,
  SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING = 0x00000002,
  SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED = 0x00000004,
  SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED = 0x00000008,
  SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED = 0x00000010,
  SEQ4_STATUS_ADMIN_STATE_REVOKED = 0x00000020,
  SEQ4_STATUS_RECALLABLE_STATE_REVOKED = 0x00000040,
  SEQ4_STATUS_LEASE_MOVED = 0x00000080,
  SEQ4_STATUS_RESTART_RECLAIM_NEEDED = 0x00000100,
  SEQ4_STATUS_CB_PATH_DOWN_SESSION = 0x00000200,
  SEQ4_STATUS_BACKCHANNEL_FAULT = 0x00000400,
  SEQ4_STATUS_DEVID_CHANGED = 0x00000800,
  SEQ4_STATUS_DEVID_DELETED = 0x00001000,
};

struct SEQUENCE4args {
  sessionid4 sa_sessionid;
  sequenceid4 sa_sequenceid = 0;
  slotid4 sa_slotid = 0;
  slotid4 sa_highest_slotid = 0;
  bool sa_cachethis = false;

  bool operator==(const SEQUENCE4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SEQUENCE4args> v) {
  return x(v.sa_sessionid) && x(v.sa_sequenceid) && x(v.sa_slotid) && x(v.sa_highest_slotid) &&
         x(v.sa_cachethis);
}

struct SEQUENCE4resok {
  sessionid4 sr_sessionid;
  sequenceid4 sr_sequenceid = 0;
  slotid4 sr_slotid = 0;
  slotid4 sr_highest_slotid = 0;
  slotid4 sr_target_highest_slotid = 0;
  uint32_t sr_status_flags = 0;

  bool operator==(const SEQUENCE4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SEQUENCE4resok> v) {
  return x(v.sr_sessionid) && x(v.sr_sequenceid) && x(v.sr_slotid) && x(v.sr_highest_slotid) &&
         x(v.sr_target_highest_slotid) && x(v.sr_status_flags);
}

struct SEQUENCE4res {
  nfsstat4 status = NFS4_OK;
  SEQUENCE4resok resok4;

  bool operator==(const SEQUENCE4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SEQUENCE4res> v) {
  return result(x, v);
}

// --- SET_SSV
// -----------------------------------------------------------------------------------------------------

struct SET_SSV4args {
  std::string ssa_ssv;
  std::string ssa_digest;

  bool operator==(const SET_SSV4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SET_SSV4args> v) {
  return xdr::bytes(x, v.ssa_ssv, kMaxOpaque) && xdr::bytes(x, v.ssa_digest, kMaxOpaque);
}

struct SET_SSV4resok {
  std::string ssr_digest;

  bool operator==(const SET_SSV4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SET_SSV4resok> v) {
  return xdr::bytes(x, v.ssr_digest, kMaxOpaque);
}

struct SET_SSV4res {
  nfsstat4 status = NFS4_OK;
  SET_SSV4resok resok4;

  bool operator==(const SET_SSV4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SET_SSV4res> v) {
  return result(x, v);
}

// --- ends
// --------------------------------------------------------------------------------------------------------

struct RECLAIM_COMPLETE4args {
  bool rca_one_fs = false;

  bool operator==(const RECLAIM_COMPLETE4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, RECLAIM_COMPLETE4args> v) {
  return x(v.rca_one_fs);
}
NFS4_STATUS_RESULT(RECLAIM_COMPLETE)

struct DESTROY_SESSION4args {
  sessionid4 dsa_sessionid;

  bool operator==(const DESTROY_SESSION4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, DESTROY_SESSION4args> v) {
  return x(v.dsa_sessionid);
}
NFS4_STATUS_RESULT(DESTROY_SESSION)

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
NFS4_OP(CREATE_SESSION);
NFS4_OP(BACKCHANNEL_CTL);
NFS4_OP(BIND_CONN_TO_SESSION);
NFS4_OP(SEQUENCE);
NFS4_OP(SET_SSV);
NFS4_OP(RECLAIM_COMPLETE);
NFS4_OP(DESTROY_SESSION);
NFS4_OP(DESTROY_CLIENTID);

}  // namespace nfsrdma::nfs4

// SPDX-License-Identifier: Apache-2.0
// Sessions and their connections: CREATE_SESSION, SEQUENCE, BIND_CONN_TO_SESSION, BACKCHANNEL_CTL,
// DESTROY_SESSION (RFC 8881 sections 18.33, 18.34, 18.36, 18.37, 18.46).
//
// The result unions have members `status` and `resok4` as in all other operations, whatever prefix the RFC
// uses; other members keep the RFC's names. RPCSEC_GSS arms are supported, though this client does not use
// them.
#pragma once

#include <cstdint>
#include <optional>

#include "xdr/nfs4/handle_ops.h"
#include "xdr/rpc.h"

namespace nfsrdma::nfs4 {

// --- CREATE_SESSION, BACKCHANNEL_CTL ---

enum create_session_flags : uint32_t {
  CREATE_SESSION4_FLAG_PERSIST = 0x1,
  CREATE_SESSION4_FLAG_CONN_BACK_CHAN = 0x2,
  CREATE_SESSION4_FLAG_CONN_RDMA = 0x4,
};

struct channel_attrs4 {
  count4 ca_headerpadsize = 0;            // bytes
  count4 ca_maxrequestsize = 0;           // bytes; includes the RPC header, excludes the transport header
  count4 ca_maxresponsesize = 0;          // bytes
  count4 ca_maxresponsesize_cached = 0;   // bytes
  count4 ca_maxoperations = 0;            // includes SEQUENCE
  count4 ca_maxrequests = 0;              // slots
  std::optional<uint32_t> ca_rdma_ird{};  // <1>

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
  std::string gcbp_handle_from_server{};
  std::string gcbp_handle_from_client{};

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
  rpc::authsys_parms cbsp_sys_cred{};              // AUTH_SYS
  gss_cb_handles4 cbsp_gss_handles{};              // RPCSEC_GSS

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
  channel_attrs4 csa_fore_chan_attrs{};
  channel_attrs4 csa_back_chan_attrs{};
  uint32_t csa_cb_program = 0;
  std::vector<callback_sec_parms4> csa_sec_parms{};

  bool operator==(const CREATE_SESSION4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CREATE_SESSION4args> v) {
  return x(v.csa_clientid) && x(v.csa_sequence) && x(v.csa_flags) && x(v.csa_fore_chan_attrs) &&
         x(v.csa_back_chan_attrs) && x(v.csa_cb_program) && xdr::array(x, v.csa_sec_parms, kMaxList, 4);
}

struct CREATE_SESSION4resok {
  sessionid4 csr_sessionid{};
  sequenceid4 csr_sequence = 0;
  uint32_t csr_flags = 0;
  channel_attrs4 csr_fore_chan_attrs{};
  channel_attrs4 csr_back_chan_attrs{};

  bool operator==(const CREATE_SESSION4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CREATE_SESSION4resok> v) {
  return x(v.csr_sessionid) && x(v.csr_sequence) && x(v.csr_flags) && x(v.csr_fore_chan_attrs) &&
         x(v.csr_back_chan_attrs);
}

struct CREATE_SESSION4res {
  nfsstat4 status = NFS4_OK;
  CREATE_SESSION4resok resok4{};

  bool operator==(const CREATE_SESSION4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CREATE_SESSION4res> v) {
  return result(x, v);
}

struct BACKCHANNEL_CTL4args {
  uint32_t bca_cb_program = 0;
  std::vector<callback_sec_parms4> bca_sec_parms{};

  bool operator==(const BACKCHANNEL_CTL4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, BACKCHANNEL_CTL4args> v) {
  return x(v.bca_cb_program) && xdr::array(x, v.bca_sec_parms, kMaxList, 4);
}
NFS4_STATUS_RESULT(BACKCHANNEL_CTL)

// --- BIND_CONN_TO_SESSION ---

enum channel_dir_from_client4 : uint32_t {
  CDFC4_FORE = 0x1,
  CDFC4_BACK = 0x2,
  CDFC4_FORE_OR_BOTH = 0x3,
  CDFC4_BACK_OR_BOTH = 0x7,
};

enum channel_dir_from_server4 : uint32_t { CDFS4_FORE = 0x1, CDFS4_BACK = 0x2, CDFS4_BOTH = 0x3 };

struct BIND_CONN_TO_SESSION4args {
  sessionid4 bctsa_sessid{};
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
  sessionid4 bctsr_sessid{};
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
  BIND_CONN_TO_SESSION4resok resok4{};

  bool operator==(const BIND_CONN_TO_SESSION4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, BIND_CONN_TO_SESSION4res> v) {
  return result(x, v);
}

// --- SEQUENCE ---

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
  sessionid4 sa_sessionid{};
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
  sessionid4 sr_sessionid{};
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
  SEQUENCE4resok resok4{};

  bool operator==(const SEQUENCE4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SEQUENCE4res> v) {
  return result(x, v);
}

// --- DESTROY_SESSION ---

struct DESTROY_SESSION4args {
  sessionid4 dsa_sessionid{};

  bool operator==(const DESTROY_SESSION4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, DESTROY_SESSION4args> v) {
  return x(v.dsa_sessionid);
}
NFS4_STATUS_RESULT(DESTROY_SESSION)

NFS4_OP(CREATE_SESSION);
NFS4_OP(BACKCHANNEL_CTL);
NFS4_OP(BIND_CONN_TO_SESSION);
NFS4_OP(SEQUENCE);
NFS4_OP(DESTROY_SESSION);

}  // namespace nfsrdma::nfs4

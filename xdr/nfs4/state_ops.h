// SPDX-License-Identifier: Apache-2.0
// Stateids and delegations outside of OPEN: DELEGPURGE, DELEGRETURN, FREE_STATEID, TEST_STATEID,
// WANT_DELEGATION, GET_DIR_DELEGATION (RFC 8881 sections 18.5, 18.6, 18.38, 18.39, 18.48, 18.49).
#pragma once

#include <cstdint>

#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::nfs4 {

struct DELEGPURGE4args {
  clientid4 clientid = 0;

  bool operator==(const DELEGPURGE4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, DELEGPURGE4args> v) {
  return x(v.clientid);
}
NFS4_STATUS_RESULT(DELEGPURGE)

struct DELEGRETURN4args {
  stateid4 deleg_stateid{};

  bool operator==(const DELEGRETURN4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, DELEGRETURN4args> v) {
  return x(v.deleg_stateid);
}
NFS4_STATUS_RESULT(DELEGRETURN)

struct FREE_STATEID4args {
  stateid4 fsa_stateid{};

  bool operator==(const FREE_STATEID4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, FREE_STATEID4args> v) {
  return x(v.fsa_stateid);
}
NFS4_STATUS_RESULT(FREE_STATEID)

struct TEST_STATEID4args {
  std::vector<stateid4> ts_stateids{};

  bool operator==(const TEST_STATEID4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, TEST_STATEID4args> v) {
  return xdr::array(x, v.ts_stateids, kMaxList, 16);
}

struct TEST_STATEID4resok {
  std::vector<nfsstat4> tsr_status_codes{};  // in the order of ts_stateids; the caller checks the count

  bool operator==(const TEST_STATEID4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, TEST_STATEID4resok> v) {
  return xdr::array(x, v.tsr_status_codes, kMaxList, 4);
}

struct TEST_STATEID4res {
  nfsstat4 status = NFS4_OK;
  TEST_STATEID4resok resok4{};

  bool operator==(const TEST_STATEID4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, TEST_STATEID4res> v) {
  return result(x, v);
}

struct deleg_claim4 {
  open_claim_type4 dc_claim = CLAIM_FH;  // CLAIM_FH, CLAIM_DELEG_PREV_FH or CLAIM_PREVIOUS
  open_delegation_type4 dc_delegate_type = OPEN_DELEGATE_NONE;  // CLAIM_PREVIOUS

  bool operator==(const deleg_claim4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, deleg_claim4> v) {
  if (!x(v.dc_claim)) return false;
  switch (v.dc_claim) {
    case CLAIM_FH:
    case CLAIM_DELEG_PREV_FH: return true;
    case CLAIM_PREVIOUS: return delegation_type(x, v.dc_delegate_type);
    default: return x.fail("open_claim_type4 that deleg_claim4 does not have");
  }
}

struct WANT_DELEGATION4args {
  uint32_t wda_want = 0;  // OPEN4_SHARE_ACCESS_WANT_*
  deleg_claim4 wda_claim{};

  bool operator==(const WANT_DELEGATION4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, WANT_DELEGATION4args> v) {
  return x(v.wda_want) && x(v.wda_claim);
}

struct WANT_DELEGATION4res {
  nfsstat4 status = NFS4_OK;
  open_delegation4 resok4{};

  bool operator==(const WANT_DELEGATION4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, WANT_DELEGATION4res> v) {
  return result(x, v);
}

struct GET_DIR_DELEGATION4args {
  bool gdda_signal_deleg_avail = false;
  bitmap4 gdda_notification_types{};
  nfstime4 gdda_child_attr_delay{};
  nfstime4 gdda_dir_attr_delay{};
  bitmap4 gdda_child_attributes{};
  bitmap4 gdda_dir_attributes{};

  bool operator==(const GET_DIR_DELEGATION4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, GET_DIR_DELEGATION4args> v) {
  return x(v.gdda_signal_deleg_avail) && x(v.gdda_notification_types) && x(v.gdda_child_attr_delay) &&
         x(v.gdda_dir_attr_delay) && x(v.gdda_child_attributes) && x(v.gdda_dir_attributes);
}

struct GET_DIR_DELEGATION4resok {
  verifier4 gddr_cookieverf{};
  stateid4 gddr_stateid{};
  bitmap4 gddr_notification{};
  bitmap4 gddr_child_attributes{};
  bitmap4 gddr_dir_attributes{};

  bool operator==(const GET_DIR_DELEGATION4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, GET_DIR_DELEGATION4resok> v) {
  return x(v.gddr_cookieverf) && x(v.gddr_stateid) && x(v.gddr_notification) && x(v.gddr_child_attributes) &&
         x(v.gddr_dir_attributes);
}

enum gddrnf4_status : uint32_t { GDD4_OK = 0, GDD4_UNAVAIL = 1 };

// GET_DIR_DELEGATION4res_non_fatal.
struct GET_DIR_DELEGATION4res_non_fatal {
  gddrnf4_status gddrnf_status = GDD4_OK;
  GET_DIR_DELEGATION4resok gddrnf_resok4{};     // GDD4_OK
  bool gddrnf_will_signal_deleg_avail = false;  // GDD4_UNAVAIL

  bool operator==(const GET_DIR_DELEGATION4res_non_fatal&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, GET_DIR_DELEGATION4res_non_fatal> v) {
  if (!x(v.gddrnf_status)) return false;
  switch (v.gddrnf_status) {
    case GDD4_OK: return x(v.gddrnf_resok4);
    case GDD4_UNAVAIL: return x(v.gddrnf_will_signal_deleg_avail);
  }
  return x.fail("unknown gddrnf4_status");
}

struct GET_DIR_DELEGATION4res {
  nfsstat4 status = NFS4_OK;
  GET_DIR_DELEGATION4res_non_fatal resok4{};

  bool operator==(const GET_DIR_DELEGATION4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, GET_DIR_DELEGATION4res> v) {
  return result(x, v);
}

NFS4_OP(DELEGPURGE);
NFS4_OP(DELEGRETURN);
NFS4_OP(FREE_STATEID);
NFS4_OP(TEST_STATEID);
NFS4_OP(WANT_DELEGATION);
NFS4_OP(GET_DIR_DELEGATION);

}  // namespace nfsrdma::nfs4

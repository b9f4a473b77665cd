// SPDX-License-Identifier: Apache-2.0
// Callback operations of NFSv4.1 and CB_COMPOUND (RFC 8881 sections 16.3, 20).
//
//     CB_COMPOUND4args = tag utf8str_cs, minorversion u32, callback_ident u32, count u32,
//                        { opnum u32, args } * count
//     CB_COMPOUND4res  = status, tag utf8str_cs, count u32, { opnum u32, result } * count
//
// The server calls and the client answers. Every CB_XXX4res has a member `status`, whatever prefix the RFC
// uses. Bodies of notifications (notify4) stay opaque, because this client requests none. pNFS callbacks are
// decoded so that each can be answered with NFS4ERR_NOTSUPP. Unknown operations become CB_ILLEGAL4args, the
// last operation of their CB_COMPOUND; see cb_compound.h.
#pragma once

#include <cstdint>

#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::nfs4 {

enum nfs_cb_opnum4 : uint32_t {
  OP_CB_GETATTR = 3,
  OP_CB_RECALL = 4,
  OP_CB_LAYOUTRECALL = 5,
  OP_CB_NOTIFY = 6,
  OP_CB_PUSH_DELEG = 7,
  OP_CB_RECALL_ANY = 8,
  OP_CB_RECALLABLE_OBJ_AVAIL = 9,
  OP_CB_RECALL_SLOT = 10,
  OP_CB_SEQUENCE = 11,
  OP_CB_WANTS_CANCELLED = 12,
  OP_CB_NOTIFY_LOCK = 13,
  OP_CB_NOTIFY_DEVICEID = 14,
  OP_CB_OFFLOAD = 15,  // NFSv4.2; not decoded
  OP_CB_ILLEGAL = 10044,
};

// "CB_RECALL"; nullptr for an unassigned number. Static storage.
const char* cb_op_name(nfs_cb_opnum4 op);

template <class T>
inline constexpr nfs_cb_opnum4 cb_op_of = OP_CB_ILLEGAL;

#define NFS4_CB_OP(op)                                          \
  template <>                                                   \
  inline constexpr nfs_cb_opnum4 cb_op_of<op##4args> = OP_##op; \
  template <>                                                   \
  inline constexpr nfs_cb_opnum4 cb_op_of<op##4res> = OP_##op

// --- CB_SEQUENCE (section 20.9) ---

struct referring_call4 {
  sequenceid4 rc_sequenceid = 0;
  slotid4 rc_slotid = 0;

  bool operator==(const referring_call4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, referring_call4> v) {
  return x(v.rc_sequenceid) && x(v.rc_slotid);
}

struct referring_call_list4 {
  sessionid4 rcl_sessionid{};
  std::vector<referring_call4> rcl_referring_calls{};

  bool operator==(const referring_call_list4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, referring_call_list4> v) {
  return x(v.rcl_sessionid) && xdr::array(x, v.rcl_referring_calls, kMaxList, 8);
}

struct CB_SEQUENCE4args {
  sessionid4 csa_sessionid{};
  sequenceid4 csa_sequenceid = 0;
  slotid4 csa_slotid = 0;
  slotid4 csa_highest_slotid = 0;
  bool csa_cachethis = false;
  std::vector<referring_call_list4> csa_referring_call_lists{};

  bool operator==(const CB_SEQUENCE4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_SEQUENCE4args> v) {
  return x(v.csa_sessionid) && x(v.csa_sequenceid) && x(v.csa_slotid) && x(v.csa_highest_slotid) &&
         x(v.csa_cachethis) && xdr::array(x, v.csa_referring_call_lists, kMaxList, 20);
}

struct CB_SEQUENCE4resok {
  sessionid4 csr_sessionid{};
  sequenceid4 csr_sequenceid = 0;
  slotid4 csr_slotid = 0;
  slotid4 csr_highest_slotid = 0;
  slotid4 csr_target_highest_slotid = 0;

  bool operator==(const CB_SEQUENCE4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_SEQUENCE4resok> v) {
  return x(v.csr_sessionid) && x(v.csr_sequenceid) && x(v.csr_slotid) && x(v.csr_highest_slotid) &&
         x(v.csr_target_highest_slotid);
}

struct CB_SEQUENCE4res {
  nfsstat4 status = NFS4_OK;
  CB_SEQUENCE4resok resok4{};

  bool operator==(const CB_SEQUENCE4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_SEQUENCE4res> v) {
  return result(x, v);
}

// --- CB_GETATTR, CB_RECALL, CB_PUSH_DELEG (sections 20.1, 20.2, 20.5) ---

struct CB_GETATTR4args {
  nfs_fh4 fh{};
  bitmap4 attr_request{};

  bool operator==(const CB_GETATTR4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_GETATTR4args> v) {
  return x(v.fh) && x(v.attr_request);
}

struct CB_GETATTR4resok {
  fattr4 obj_attributes{};

  bool operator==(const CB_GETATTR4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_GETATTR4resok> v) {
  return x(v.obj_attributes);
}

struct CB_GETATTR4res {
  nfsstat4 status = NFS4_OK;
  CB_GETATTR4resok resok4{};

  bool operator==(const CB_GETATTR4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_GETATTR4res> v) {
  return result(x, v);
}

struct CB_RECALL4args {
  stateid4 stateid{};
  bool truncate = false;
  nfs_fh4 fh{};

  bool operator==(const CB_RECALL4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_RECALL4args> v) {
  return x(v.stateid) && x(v.truncate) && x(v.fh);
}
NFS4_STATUS_RESULT(CB_RECALL)

struct CB_PUSH_DELEG4args {
  nfs_fh4 cpda_fh{};
  open_delegation4 cpda_delegation{};

  bool operator==(const CB_PUSH_DELEG4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_PUSH_DELEG4args> v) {
  return x(v.cpda_fh) && x(v.cpda_delegation);
}
NFS4_STATUS_RESULT(CB_PUSH_DELEG)

// --- CB_RECALL_ANY, CB_RECALLABLE_OBJ_AVAIL, CB_RECALL_SLOT, CB_WANTS_CANCELLED (20.6 to 20.8, 20.10) ---

// Bits of craa_type_mask.
enum recall_any_type : uint32_t {
  RCA4_TYPE_MASK_RDATA_DLG = 0,
  RCA4_TYPE_MASK_WDATA_DLG = 1,
  RCA4_TYPE_MASK_DIR_DLG = 2,
  RCA4_TYPE_MASK_FILE_LAYOUT = 3,
  RCA4_TYPE_MASK_BLK_LAYOUT = 4,
  RCA4_TYPE_MASK_OBJ_LAYOUT_MIN = 8,
  RCA4_TYPE_MASK_OBJ_LAYOUT_MAX = 9,
  RCA4_TYPE_MASK_OTHER_LAYOUT_MIN = 12,
  RCA4_TYPE_MASK_OTHER_LAYOUT_MAX = 15,
};

struct CB_RECALL_ANY4args {
  uint32_t craa_objects_to_keep = 0;
  bitmap4 craa_type_mask{};

  bool operator==(const CB_RECALL_ANY4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_RECALL_ANY4args> v) {
  return x(v.craa_objects_to_keep) && x(v.craa_type_mask);
}
NFS4_STATUS_RESULT(CB_RECALL_ANY)

// In the RFC a typedef of CB_RECALL_ANY4args; here a distinct type.
struct CB_RECALLABLE_OBJ_AVAIL4args {
  uint32_t craa_objects_to_keep = 0;
  bitmap4 craa_type_mask{};

  bool operator==(const CB_RECALLABLE_OBJ_AVAIL4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_RECALLABLE_OBJ_AVAIL4args> v) {
  return x(v.craa_objects_to_keep) && x(v.craa_type_mask);
}
NFS4_STATUS_RESULT(CB_RECALLABLE_OBJ_AVAIL)

struct CB_RECALL_SLOT4args {
  slotid4 rsa_target_highest_slotid = 0;

  bool operator==(const CB_RECALL_SLOT4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_RECALL_SLOT4args> v) {
  return x(v.rsa_target_highest_slotid);
}
NFS4_STATUS_RESULT(CB_RECALL_SLOT)

struct CB_WANTS_CANCELLED4args {
  bool cwca_contended_wants_cancelled = false;
  bool cwca_resourced_wants_cancelled = false;

  bool operator==(const CB_WANTS_CANCELLED4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_WANTS_CANCELLED4args> v) {
  return x(v.cwca_contended_wants_cancelled) && x(v.cwca_resourced_wants_cancelled);
}
NFS4_STATUS_RESULT(CB_WANTS_CANCELLED)

// --- notifications (sections 20.4, 20.11, 20.12) ---

enum notify_type4 : uint32_t {
  NOTIFY4_CHANGE_CHILD_ATTRS = 0,
  NOTIFY4_CHANGE_DIR_ATTRS = 1,
  NOTIFY4_REMOVE_ENTRY = 2,
  NOTIFY4_ADD_ENTRY = 3,
  NOTIFY4_RENAME_ENTRY = 4,
  NOTIFY4_CHANGE_COOKIE_VERIFIER = 5,
};

struct notify4 {
  bitmap4 notify_mask{};      // of notify_type4, or of device notification types
  std::string notify_vals{};  // not decoded

  bool operator==(const notify4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, notify4> v) {
  return x(v.notify_mask) && xdr::bytes(x, v.notify_vals, kMaxOpaque);
}

struct CB_NOTIFY4args {
  stateid4 cna_stateid{};
  nfs_fh4 cna_fh{};
  std::vector<notify4> cna_changes{};

  bool operator==(const CB_NOTIFY4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_NOTIFY4args> v) {
  return x(v.cna_stateid) && x(v.cna_fh) && xdr::array(x, v.cna_changes, kMaxList, 8);
}
NFS4_STATUS_RESULT(CB_NOTIFY)

struct CB_NOTIFY_DEVICEID4args {
  std::vector<notify4> cnda_changes{};

  bool operator==(const CB_NOTIFY_DEVICEID4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_NOTIFY_DEVICEID4args> v) {
  return xdr::array(x, v.cnda_changes, kMaxList, 8);
}
NFS4_STATUS_RESULT(CB_NOTIFY_DEVICEID)

struct CB_NOTIFY_LOCK4args {
  nfs_fh4 cnla_fh{};
  lock_owner4 cnla_lock_owner{};

  bool operator==(const CB_NOTIFY_LOCK4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_NOTIFY_LOCK4args> v) {
  return x(v.cnla_fh) && x(v.cnla_lock_owner);
}
NFS4_STATUS_RESULT(CB_NOTIFY_LOCK)

// --- CB_LAYOUTRECALL (section 20.3) ---

enum layoutiomode4 : uint32_t { LAYOUTIOMODE4_READ = 1, LAYOUTIOMODE4_RW = 2, LAYOUTIOMODE4_ANY = 3 };
enum layoutrecall_type4 : uint32_t { LAYOUTRECALL4_FILE = 1, LAYOUTRECALL4_FSID = 2, LAYOUTRECALL4_ALL = 3 };

// layoutrecall4; the two arms are flattened.
struct layoutrecall4 {
  layoutrecall_type4 lor_recalltype = LAYOUTRECALL4_ALL;
  nfs_fh4 lor_fh{};        // FILE
  offset4 lor_offset = 0;  // FILE
  length4 lor_length = 0;  // FILE
  stateid4 lor_stateid{};  // FILE
  fsid4 lor_fsid{};        // FSID

  bool operator==(const layoutrecall4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, layoutrecall4> v) {
  if (!x(v.lor_recalltype)) return false;
  switch (v.lor_recalltype) {
    case LAYOUTRECALL4_FILE: return x(v.lor_fh) && x(v.lor_offset) && x(v.lor_length) && x(v.lor_stateid);
    case LAYOUTRECALL4_FSID: return x(v.lor_fsid);
    case LAYOUTRECALL4_ALL: return true;
  }
  return x.fail("unknown layoutrecall_type4");
}

struct CB_LAYOUTRECALL4args {
  layouttype4 clora_type{};
  layoutiomode4 clora_iomode = LAYOUTIOMODE4_ANY;
  bool clora_changed = false;
  layoutrecall4 clora_recall{};

  bool operator==(const CB_LAYOUTRECALL4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CB_LAYOUTRECALL4args> v) {
  if (!x(v.clora_type) || !x(v.clora_iomode)) return false;
  if (v.clora_iomode < LAYOUTIOMODE4_READ || v.clora_iomode > LAYOUTIOMODE4_ANY) {
    return x.fail("unknown layoutiomode4");
  }
  return x(v.clora_changed) && x(v.clora_recall);
}
NFS4_STATUS_RESULT(CB_LAYOUTRECALL)

NFS4_CB_OP(CB_GETATTR);
NFS4_CB_OP(CB_RECALL);
NFS4_CB_OP(CB_LAYOUTRECALL);
NFS4_CB_OP(CB_NOTIFY);
NFS4_CB_OP(CB_PUSH_DELEG);
NFS4_CB_OP(CB_RECALL_ANY);
NFS4_CB_OP(CB_RECALLABLE_OBJ_AVAIL);
NFS4_CB_OP(CB_RECALL_SLOT);
NFS4_CB_OP(CB_SEQUENCE);
NFS4_CB_OP(CB_WANTS_CANCELLED);
NFS4_CB_OP(CB_NOTIFY_LOCK);
NFS4_CB_OP(CB_NOTIFY_DEVICEID);

}  // namespace nfsrdma::nfs4

// SPDX-License-Identifier: Apache-2.0
// Opening and closing files: OPEN, OPENATTR, OPEN_DOWNGRADE, CLOSE, and the delegations an OPEN may return
// (RFC 8881 sections 18.2, 18.16 to 18.18, 10.4).
//
// The RFC's unions are flattened: a comment at a member names its arm. A value without an arm is an error;
// any ond_why is accepted, because its union has a default arm. WANT_DELEGATION and CB_PUSH_DELEG, which
// grant delegations too, are in state_ops.h and callback.h.
#pragma once

#include <cstdint>

#include "xdr/nfs4/attributes.h"
#include "xdr/nfs4/op.h"

namespace nfsrdma::nfs4 {

// --- how to create ---

enum createmode4 : uint32_t { UNCHECKED4 = 0, GUARDED4 = 1, EXCLUSIVE4 = 2, EXCLUSIVE4_1 = 3 };

struct createhow4 {
  createmode4 mode = UNCHECKED4;
  verifier4 createverf{};  // EXCLUSIVE4 (deprecated), EXCLUSIVE4_1: cva_verf
  fattr4 createattrs{};    // UNCHECKED4, GUARDED4; EXCLUSIVE4_1: cva_attrs

  bool operator==(const createhow4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, createhow4> v) {
  if (!x(v.mode)) return false;
  switch (v.mode) {
    case UNCHECKED4:
    case GUARDED4: return x(v.createattrs);
    case EXCLUSIVE4: return x(v.createverf);
    case EXCLUSIVE4_1: return x(v.createverf) && x(v.createattrs);
  }
  return x.fail("unknown createmode4");
}

enum opentype4 : uint32_t { OPEN4_NOCREATE = 0, OPEN4_CREATE = 1 };

struct openflag4 {
  opentype4 opentype = OPEN4_NOCREATE;
  createhow4 how{};  // OPEN4_CREATE

  bool operator==(const openflag4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, openflag4> v) {
  if (!x(v.opentype)) return false;
  if (v.opentype > OPEN4_CREATE) return x.fail("unknown opentype4");
  return v.opentype != OPEN4_CREATE || x(v.how);
}

// --- share and delegation wants ---

enum open_share : uint32_t {
  OPEN4_SHARE_ACCESS_READ = 0x1,
  OPEN4_SHARE_ACCESS_WRITE = 0x2,
  OPEN4_SHARE_ACCESS_BOTH = 0x3,
  OPEN4_SHARE_DENY_NONE = 0x0,
  OPEN4_SHARE_DENY_READ = 0x1,
  OPEN4_SHARE_DENY_WRITE = 0x2,
  OPEN4_SHARE_DENY_BOTH = 0x3,
  OPEN4_SHARE_ACCESS_WANT_DELEG_MASK = 0xff00,
  OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE = 0x0000,
  OPEN4_SHARE_ACCESS_WANT_READ_DELEG = 0x0100,
  OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG = 0x0200,
  OPEN4_SHARE_ACCESS_WANT_ANY_DELEG = 0x0300,
  OPEN4_SHARE_ACCESS_WANT_NO_DELEG = 0x0400,
  OPEN4_SHARE_ACCESS_WANT_CANCEL = 0x0500,
  OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL = 0x10000,
  OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED = 0x20000,
};

// --- what is opened ---

enum open_delegation_type4 : uint32_t {
  OPEN_DELEGATE_NONE = 0,
  OPEN_DELEGATE_READ = 1,
  OPEN_DELEGATE_WRITE = 2,
  OPEN_DELEGATE_NONE_EXT = 3,
};

enum open_claim_type4 : uint32_t {
  CLAIM_NULL = 0,
  CLAIM_PREVIOUS = 1,
  CLAIM_DELEGATE_CUR = 2,
  CLAIM_DELEGATE_PREV = 3,
  CLAIM_FH = 4,
  CLAIM_DELEG_CUR_FH = 5,
  CLAIM_DELEG_PREV_FH = 6,
};

template <class X>
bool delegation_type(X& x, Ref<X, open_delegation_type4> v) {
  return x(v) && (v <= OPEN_DELEGATE_NONE_EXT || x.fail("unknown open_delegation_type4"));
}

struct open_claim4 {
  open_claim_type4 claim = CLAIM_NULL;
  component4 file{};  // CLAIM_NULL, CLAIM_DELEGATE_CUR, CLAIM_DELEGATE_PREV: a name in the current directory
  open_delegation_type4 delegate_type = OPEN_DELEGATE_NONE;  // CLAIM_PREVIOUS
  stateid4 delegate_stateid{};                               // CLAIM_DELEGATE_CUR, CLAIM_DELEG_CUR_FH

  bool operator==(const open_claim4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, open_claim4> v) {
  if (!x(v.claim)) return false;
  switch (v.claim) {
    case CLAIM_NULL:
    case CLAIM_DELEGATE_PREV: return xdr::bytes(x, v.file, kMaxComponent);
    case CLAIM_PREVIOUS: return delegation_type(x, v.delegate_type);
    case CLAIM_DELEGATE_CUR: return x(v.delegate_stateid) && xdr::bytes(x, v.file, kMaxComponent);
    case CLAIM_DELEG_CUR_FH: return x(v.delegate_stateid);
    case CLAIM_FH:
    case CLAIM_DELEG_PREV_FH: return true;
  }
  return x.fail("unknown open_claim_type4");
}

struct OPEN4args {
  seqid4 seqid = 0;           // ignored in NFSv4.1
  uint32_t share_access = 0;  // open_share: access, and the wanted delegation
  uint32_t share_deny = 0;
  open_owner4 owner{};
  openflag4 openhow{};
  open_claim4 claim{};

  bool operator==(const OPEN4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, OPEN4args> v) {
  return x(v.seqid) && x(v.share_access) && x(v.share_deny) && x(v.owner) && x(v.openhow) && x(v.claim);
}

// --- delegations ---

enum limit_by4 : uint32_t { NFS_LIMIT_SIZE = 1, NFS_LIMIT_BLOCKS = 2 };

struct nfs_space_limit4 {
  limit_by4 limitby = NFS_LIMIT_SIZE;
  uint64_t filesize = 0;         // NFS_LIMIT_SIZE: bytes
  uint32_t num_blocks = 0;       // NFS_LIMIT_BLOCKS
  uint32_t bytes_per_block = 0;  // NFS_LIMIT_BLOCKS

  bool operator==(const nfs_space_limit4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, nfs_space_limit4> v) {
  if (!x(v.limitby)) return false;
  switch (v.limitby) {
    case NFS_LIMIT_SIZE: return x(v.filesize);
    case NFS_LIMIT_BLOCKS: return x(v.num_blocks) && x(v.bytes_per_block);
  }
  return x.fail("unknown limit_by4");
}

enum why_no_delegation4 : uint32_t {
  WND4_NOT_WANTED = 0,
  WND4_CONTENTION = 1,
  WND4_RESOURCE = 2,
  WND4_NOT_SUPP_FTYPE = 3,
  WND4_WRITE_DELEG_NOT_SUPP_FTYPE = 4,
  WND4_NOT_SUPP_UPGRADE = 5,
  WND4_NOT_SUPP_DOWNGRADE = 6,
  WND4_CANCELLED = 7,
  WND4_IS_DIR = 8,
};

struct open_delegation4 {
  open_delegation_type4 delegation_type = OPEN_DELEGATE_NONE;
  stateid4 stateid{};                         // READ, WRITE
  bool recall = false;                        // READ, WRITE: to be returned at once
  nfs_space_limit4 space_limit{};             // WRITE
  nfsace4 permissions{};                      // READ, WRITE: users who may open without an ACCESS call
  why_no_delegation4 ond_why{};               // NONE_EXT; only the two reasons below have more data
  bool ond_server_will_push_deleg = false;    // NONE_EXT, WND4_CONTENTION
  bool ond_server_will_signal_avail = false;  // NONE_EXT, WND4_RESOURCE

  bool granted() const {
    return delegation_type == OPEN_DELEGATE_READ || delegation_type == OPEN_DELEGATE_WRITE;
  }
  bool operator==(const open_delegation4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, open_delegation4> v) {
  if (!delegation_type(x, v.delegation_type)) return false;
  switch (v.delegation_type) {
    case OPEN_DELEGATE_NONE: return true;
    case OPEN_DELEGATE_READ: return x(v.stateid) && x(v.recall) && x(v.permissions);
    case OPEN_DELEGATE_WRITE: return x(v.stateid) && x(v.recall) && x(v.space_limit) && x(v.permissions);
    case OPEN_DELEGATE_NONE_EXT: break;
  }
  if (!x(v.ond_why)) return false;
  if (v.ond_why == WND4_CONTENTION) return x(v.ond_server_will_push_deleg);
  return v.ond_why != WND4_RESOURCE || x(v.ond_server_will_signal_avail);
}

// --- OPEN's result ---

enum open_result_flags : uint32_t {
  OPEN4_RESULT_CONFIRM = 0x02,  // never set in NFSv4.1
  OPEN4_RESULT_LOCKTYPE_POSIX = 0x04,
  OPEN4_RESULT_PRESERVE_UNLINKED = 0x08,
  OPEN4_RESULT_MAY_NOTIFY_LOCK = 0x20,
};

struct OPEN4resok {
  stateid4 stateid{};
  change_info4 cinfo{};  // of the directory
  uint32_t rflags = 0;   // open_result_flags
  bitmap4 attrset{};
  open_delegation4 delegation{};

  bool operator==(const OPEN4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, OPEN4resok> v) {
  return x(v.stateid) && x(v.cinfo) && x(v.rflags) && x(v.attrset) && x(v.delegation);
}

struct OPEN4res {
  nfsstat4 status = NFS4_OK;
  OPEN4resok resok4{};

  bool operator==(const OPEN4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, OPEN4res> v) {
  return result(x, v);
}

// --- OPENATTR, OPEN_DOWNGRADE, CLOSE ---

struct OPENATTR4args {
  bool createdir = false;

  bool operator==(const OPENATTR4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, OPENATTR4args> v) {
  return x(v.createdir);
}
NFS4_STATUS_RESULT(OPENATTR)

struct OPEN_DOWNGRADE4args {
  stateid4 open_stateid{};
  seqid4 seqid = 0;  // ignored in NFSv4.1
  uint32_t share_access = 0;
  uint32_t share_deny = 0;

  bool operator==(const OPEN_DOWNGRADE4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, OPEN_DOWNGRADE4args> v) {
  return x(v.open_stateid) && x(v.seqid) && x(v.share_access) && x(v.share_deny);
}

struct OPEN_DOWNGRADE4resok {
  stateid4 open_stateid{};

  bool operator==(const OPEN_DOWNGRADE4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, OPEN_DOWNGRADE4resok> v) {
  return x(v.open_stateid);
}

struct OPEN_DOWNGRADE4res {
  nfsstat4 status = NFS4_OK;
  OPEN_DOWNGRADE4resok resok4{};

  bool operator==(const OPEN_DOWNGRADE4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, OPEN_DOWNGRADE4res> v) {
  return result(x, v);
}

struct CLOSE4args {
  seqid4 seqid = 0;  // ignored in NFSv4.1
  stateid4 open_stateid{};

  bool operator==(const CLOSE4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CLOSE4args> v) {
  return x(v.seqid) && x(v.open_stateid);
}

struct CLOSE4res {
  nfsstat4 status = NFS4_OK;
  stateid4 open_stateid{};  // NFS4_OK; useless to a client (RFC 8881 section 18.2.4)

  bool operator==(const CLOSE4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CLOSE4res> v) {
  return x(v.status) && (v.status != NFS4_OK || x(v.open_stateid));
}

NFS4_OP(OPEN);
NFS4_OP(OPENATTR);
NFS4_OP(OPEN_DOWNGRADE);
NFS4_OP(CLOSE);

}  // namespace nfsrdma::nfs4

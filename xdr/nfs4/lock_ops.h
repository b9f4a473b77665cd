// SPDX-License-Identifier: Apache-2.0
// Byte-range locks: LOCK, LOCKT, LOCKU (RFC 8881 sections 18.10 to 18.12).
//
// A length of NFS4_UINT64_MAX means to the end of the file. LOCK and LOCKT return the conflicting lock with
// NFS4ERR_DENIED. Ranges and owners are not checked here; lock types are a closed set.
#pragma once

#include <cstdint>

#include "xdr/nfs4/op.h"

namespace nfsrdma::nfs4 {

enum nfs_lock_type4 : uint32_t { READ_LT = 1, WRITE_LT = 2, READW_LT = 3, WRITEW_LT = 4 };

template <class X>
bool lock_type(X& x, Ref<X, nfs_lock_type4> v) {
  return x(v) && ((v >= READ_LT && v <= WRITEW_LT) || x.fail("unknown nfs_lock_type4"));
}

// locker4; its two arms are flattened.
struct locker4 {
  bool new_lock_owner = false;
  stateid4 stateid{};        // arm true: open_stateid; arm false: lock_stateid
  seqid4 open_seqid = 0;     // arm true; ignored in NFSv4.1
  seqid4 lock_seqid = 0;     // ignored in NFSv4.1
  lock_owner4 lock_owner{};  // arm true

  bool operator==(const locker4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, locker4> v) {
  if (!x(v.new_lock_owner)) return false;
  if (!v.new_lock_owner) return x(v.stateid) && x(v.lock_seqid);
  return x(v.open_seqid) && x(v.stateid) && x(v.lock_seqid) && x(v.lock_owner);
}

struct LOCK4args {
  nfs_lock_type4 locktype = READ_LT;
  bool reclaim = false;
  offset4 offset = 0;
  length4 length = 0;
  locker4 locker{};

  bool operator==(const LOCK4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LOCK4args> v) {
  return lock_type(x, v.locktype) && x(v.reclaim) && x(v.offset) && x(v.length) && x(v.locker);
}

struct LOCK4denied {
  offset4 offset = 0;
  length4 length = 0;
  nfs_lock_type4 locktype = READ_LT;
  lock_owner4 owner{};

  bool operator==(const LOCK4denied&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LOCK4denied> v) {
  return x(v.offset) && x(v.length) && lock_type(x, v.locktype) && x(v.owner);
}

struct LOCK4resok {
  stateid4 lock_stateid{};

  bool operator==(const LOCK4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LOCK4resok> v) {
  return x(v.lock_stateid);
}

struct LOCK4res {
  nfsstat4 status = NFS4_OK;
  LOCK4resok resok4{};
  LOCK4denied denied{};  // NFS4ERR_DENIED

  bool operator==(const LOCK4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LOCK4res> v) {
  if (!x(v.status)) return false;
  if (v.status == NFS4_OK) return x(v.resok4);
  return v.status != NFS4ERR_DENIED || x(v.denied);
}

struct LOCKT4args {
  nfs_lock_type4 locktype = READ_LT;
  offset4 offset = 0;
  length4 length = 0;
  lock_owner4 owner{};

  bool operator==(const LOCKT4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LOCKT4args> v) {
  return lock_type(x, v.locktype) && x(v.offset) && x(v.length) && x(v.owner);
}

struct LOCKT4res {
  nfsstat4 status = NFS4_OK;
  LOCK4denied denied{};  // NFS4ERR_DENIED

  bool operator==(const LOCKT4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LOCKT4res> v) {
  return x(v.status) && (v.status != NFS4ERR_DENIED || x(v.denied));
}

struct LOCKU4args {
  nfs_lock_type4 locktype = READ_LT;
  seqid4 seqid = 0;  // ignored in NFSv4.1
  stateid4 lock_stateid{};
  offset4 offset = 0;
  length4 length = 0;

  bool operator==(const LOCKU4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LOCKU4args> v) {
  return lock_type(x, v.locktype) && x(v.seqid) && x(v.lock_stateid) && x(v.offset) && x(v.length);
}

struct LOCKU4res {
  nfsstat4 status = NFS4_OK;
  stateid4 lock_stateid{};  // NFS4_OK

  bool operator==(const LOCKU4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LOCKU4res> v) {
  return x(v.status) && (v.status != NFS4_OK || x(v.lock_stateid));
}

NFS4_OP(LOCK);
NFS4_OP(LOCKT);
NFS4_OP(LOCKU);

}  // namespace nfsrdma::nfs4

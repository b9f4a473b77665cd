// SPDX-License-Identifier: Apache-2.0
// Operations on the object of the current filehandle: ACCESS, COMMIT, GETATTR, NVERIFY, READ, READLINK,
// SETATTR, VERIFY, WRITE (RFC 8881 sections 18.1, 18.3, 18.7, 18.15, 18.22, 18.24, 18.30 to 18.32).
//
// READ4resok.data and WRITE4args.data are the bulk items of NFSv4.1 (RFC 8267 section 6.1). They are views
// that are encoded beside the stream (see xdr/codec.h). A decoded one points into the message, or to the
// bytes given to set_bulk().
#pragma once

#include <cstdint>

#include "xdr/nfs4/attributes.h"
#include "xdr/nfs4/op.h"

namespace nfsrdma::nfs4 {

// --- ACCESS ---

enum access_bits : uint32_t {
  ACCESS4_READ = 0x01,
  ACCESS4_LOOKUP = 0x02,
  ACCESS4_MODIFY = 0x04,
  ACCESS4_EXTEND = 0x08,
  ACCESS4_DELETE = 0x10,
  ACCESS4_EXECUTE = 0x20,
};

struct ACCESS4args {
  uint32_t access = 0;  // the access_bits in question

  bool operator==(const ACCESS4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, ACCESS4args> v) {
  return x(v.access);
}

struct ACCESS4resok {
  uint32_t supported = 0;  // bits that the server can check
  uint32_t access = 0;     // bits that are allowed

  bool operator==(const ACCESS4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, ACCESS4resok> v) {
  return x(v.supported) && x(v.access);
}

struct ACCESS4res {
  nfsstat4 status = NFS4_OK;
  ACCESS4resok resok4{};

  bool operator==(const ACCESS4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, ACCESS4res> v) {
  return result(x, v);
}

// --- GETATTR, SETATTR, VERIFY, NVERIFY ---

struct GETATTR4args {
  bitmap4 attr_request{};

  bool operator==(const GETATTR4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, GETATTR4args> v) {
  return x(v.attr_request);
}

struct GETATTR4resok {
  fattr4 obj_attributes{};

  bool operator==(const GETATTR4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, GETATTR4resok> v) {
  return x(v.obj_attributes);
}

struct GETATTR4res {
  nfsstat4 status = NFS4_OK;
  GETATTR4resok resok4{};

  bool operator==(const GETATTR4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, GETATTR4res> v) {
  return result(x, v);
}

struct SETATTR4args {
  stateid4 stateid{};  // used only if the size is set
  fattr4 obj_attributes{};

  bool operator==(const SETATTR4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SETATTR4args> v) {
  return x(v.stateid) && x(v.obj_attributes);
}

struct SETATTR4res {
  nfsstat4 status = NFS4_OK;
  bitmap4 attrsset{};  // encoded with every status: a failed SETATTR may have set some

  bool operator==(const SETATTR4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, SETATTR4res> v) {
  return x(v.status) && x(v.attrsset);
}

struct VERIFY4args {
  fattr4 obj_attributes{};

  bool operator==(const VERIFY4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, VERIFY4args> v) {
  return x(v.obj_attributes);
}
NFS4_STATUS_RESULT(VERIFY)

struct NVERIFY4args {
  fattr4 obj_attributes{};

  bool operator==(const NVERIFY4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, NVERIFY4args> v) {
  return x(v.obj_attributes);
}
NFS4_STATUS_RESULT(NVERIFY)

// --- READ, WRITE, COMMIT ---

// Longest READ or WRITE data: the range of count4. The bytes left, or set_bulk(), limit it further.
inline constexpr size_t kMaxData = 0xffffffff;

inline bool same_bytes(ConstBytes a, ConstBytes b) {
  return as_string_view(a) == as_string_view(b);
}

struct READ4args {
  stateid4 stateid{};
  offset4 offset = 0;
  count4 count = 0;  // bytes

  bool operator==(const READ4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, READ4args> v) {
  return x(v.stateid) && x(v.offset) && x(v.count);
}

struct READ4resok {
  bool eof = false;
  ConstBytes data{};  // bulk

  bool operator==(const READ4resok& b) const { return eof == b.eof && same_bytes(data, b.data); }
};
template <class X>
bool xdr(X& x, Ref<X, READ4resok> v) {
  return x(v.eof) && x.bulk(v.data, kMaxData);
}

struct READ4res {
  nfsstat4 status = NFS4_OK;
  READ4resok resok4{};

  bool operator==(const READ4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, READ4res> v) {
  return result(x, v);
}

enum stable_how4 : uint32_t { UNSTABLE4 = 0, DATA_SYNC4 = 1, FILE_SYNC4 = 2 };

struct WRITE4args {
  stateid4 stateid{};
  offset4 offset = 0;
  stable_how4 stable = UNSTABLE4;
  ConstBytes data{};  // bulk

  bool operator==(const WRITE4args& b) const {
    return stateid == b.stateid && offset == b.offset && stable == b.stable && same_bytes(data, b.data);
  }
};
template <class X>
bool xdr(X& x, Ref<X, WRITE4args> v) {
  if (!x(v.stateid) || !x(v.offset) || !x(v.stable)) return false;
  if (v.stable > FILE_SYNC4) return x.fail("unknown stable_how4");
  return x.bulk(v.data, kMaxData);
}

struct WRITE4resok {
  count4 count = 0;                    // bytes written; may be fewer than sent
  stable_how4 committed = FILE_SYNC4;  // at least as stable as requested
  verifier4 writeverf{};

  bool operator==(const WRITE4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, WRITE4resok> v) {
  if (!x(v.count) || !x(v.committed)) return false;
  if (v.committed > FILE_SYNC4) return x.fail("unknown stable_how4");
  return x(v.writeverf);
}

struct WRITE4res {
  nfsstat4 status = NFS4_OK;
  WRITE4resok resok4{};

  bool operator==(const WRITE4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, WRITE4res> v) {
  return result(x, v);
}

struct COMMIT4args {
  offset4 offset = 0;
  count4 count = 0;  // 0: to the end of the file

  bool operator==(const COMMIT4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, COMMIT4args> v) {
  return x(v.offset) && x(v.count);
}

struct COMMIT4resok {
  verifier4 writeverf{};

  bool operator==(const COMMIT4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, COMMIT4resok> v) {
  return x(v.writeverf);
}

struct COMMIT4res {
  nfsstat4 status = NFS4_OK;
  COMMIT4resok resok4{};

  bool operator==(const COMMIT4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, COMMIT4res> v) {
  return result(x, v);
}

// --- READLINK ---

NFS4_VOID_ARGS(READLINK)

struct READLINK4resok {
  linktext4 link{};

  bool operator==(const READLINK4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, READLINK4resok> v) {
  return xdr::bytes(x, v.link, kMaxLinktext);
}

struct READLINK4res {
  nfsstat4 status = NFS4_OK;
  READLINK4resok resok4{};

  bool operator==(const READLINK4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, READLINK4res> v) {
  return result(x, v);
}

NFS4_OP(ACCESS);
NFS4_OP(GETATTR);
NFS4_OP(SETATTR);
NFS4_OP(VERIFY);
NFS4_OP(NVERIFY);
NFS4_OP(READ);
NFS4_OP(WRITE);
NFS4_OP(COMMIT);
NFS4_OP(READLINK);

}  // namespace nfsrdma::nfs4

// SPDX-License-Identifier: Apache-2.0
// Operations that read or change a directory: CREATE, LINK, READDIR, REMOVE, RENAME
// (RFC 8881 sections 18.4, 18.9, 18.23, 18.25, 18.26). OPEN, which creates regular files, is in open_ops.h.
//
// READDIR's linked list of entry4 is a vector here. It grows with the decoded entries, never by a claimed
// count.
#pragma once

#include "xdr/nfs4/attributes.h"
#include "xdr/nfs4/op.h"

namespace nfsrdma::nfs4 {

// --- CREATE ---

struct createtype4 {
  nfs_ftype4 type = NF4DIR;  // any value: the server answers those it cannot create with NFS4ERR_BADTYPE
  linktext4 linkdata{};      // NF4LNK
  specdata4 devdata{};       // NF4BLK, NF4CHR

  bool operator==(const createtype4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, createtype4> v) {
  if (!x(v.type)) return false;
  switch (v.type) {
    case NF4LNK: return xdr::bytes(x, v.linkdata, kMaxLinktext);
    case NF4BLK:
    case NF4CHR: return x(v.devdata);
    default: return true;
  }
}

struct CREATE4args {
  createtype4 objtype{};
  component4 objname{};
  fattr4 createattrs{};

  bool operator==(const CREATE4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CREATE4args> v) {
  return x(v.objtype) && xdr::bytes(x, v.objname, kMaxComponent) && x(v.createattrs);
}

struct CREATE4resok {
  change_info4 cinfo{};
  bitmap4 attrset{};

  bool operator==(const CREATE4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CREATE4resok> v) {
  return x(v.cinfo) && x(v.attrset);
}

struct CREATE4res {
  nfsstat4 status = NFS4_OK;
  CREATE4resok resok4{};

  bool operator==(const CREATE4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, CREATE4res> v) {
  return result(x, v);
}

// --- LINK: saved filehandle is the file, current filehandle the directory ---

struct LINK4args {
  component4 newname{};

  bool operator==(const LINK4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LINK4args> v) {
  return xdr::bytes(x, v.newname, kMaxComponent);
}

struct LINK4resok {
  change_info4 cinfo{};

  bool operator==(const LINK4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LINK4resok> v) {
  return x(v.cinfo);
}

struct LINK4res {
  nfsstat4 status = NFS4_OK;
  LINK4resok resok4{};

  bool operator==(const LINK4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, LINK4res> v) {
  return result(x, v);
}

// --- REMOVE ---

struct REMOVE4args {
  component4 target{};

  bool operator==(const REMOVE4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, REMOVE4args> v) {
  return xdr::bytes(x, v.target, kMaxComponent);
}

struct REMOVE4resok {
  change_info4 cinfo{};

  bool operator==(const REMOVE4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, REMOVE4resok> v) {
  return x(v.cinfo);
}

struct REMOVE4res {
  nfsstat4 status = NFS4_OK;
  REMOVE4resok resok4{};

  bool operator==(const REMOVE4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, REMOVE4res> v) {
  return result(x, v);
}

// --- RENAME: saved filehandle is the source directory, current filehandle the target directory ---

struct RENAME4args {
  component4 oldname{};
  component4 newname{};

  bool operator==(const RENAME4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, RENAME4args> v) {
  return xdr::bytes(x, v.oldname, kMaxComponent) && xdr::bytes(x, v.newname, kMaxComponent);
}

struct RENAME4resok {
  change_info4 source_cinfo{};
  change_info4 target_cinfo{};

  bool operator==(const RENAME4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, RENAME4resok> v) {
  return x(v.source_cinfo) && x(v.target_cinfo);
}

struct RENAME4res {
  nfsstat4 status = NFS4_OK;
  RENAME4resok resok4{};

  bool operator==(const RENAME4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, RENAME4res> v) {
  return result(x, v);
}

// --- READDIR ---

struct READDIR4args {
  nfs_cookie4 cookie = 0;  // 0: from the start; 1 and 2 are reserved
  verifier4 cookieverf{};
  count4 dircount = 0;  // a hint: bytes of names and cookies
  count4 maxcount = 0;  // bytes of the whole READDIR4resok
  bitmap4 attr_request{};

  bool operator==(const READDIR4args&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, READDIR4args> v) {
  return x(v.cookie) && x(v.cookieverf) && x(v.dircount) && x(v.maxcount) && x(v.attr_request);
}

struct entry4 {
  nfs_cookie4 cookie = 0;
  component4 name{};
  fattr4 attrs{};

  bool operator==(const entry4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, entry4> v) {
  return x(v.cookie) && xdr::bytes(x, v.name, kMaxComponent) && x(v.attrs);
}

struct dirlist4 {
  std::vector<entry4> entries{};
  bool eof = false;

  bool operator==(const dirlist4&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, dirlist4> v) {
  if constexpr (xdr::kDecodes<X>) {
    v.entries.clear();
    for (bool more = false; x(more);) {
      if (!more) return x(v.eof);
      if (!x(v.entries.emplace_back())) return false;
    }
    return false;
  } else {
    for (const entry4& entry : v.entries) {
      if (!x(true) || !x(entry)) return false;
    }
    return x(false) && x(v.eof);
  }
}

struct READDIR4resok {
  verifier4 cookieverf{};
  dirlist4 reply{};

  bool operator==(const READDIR4resok&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, READDIR4resok> v) {
  return x(v.cookieverf) && x(v.reply);
}

struct READDIR4res {
  nfsstat4 status = NFS4_OK;
  READDIR4resok resok4{};

  bool operator==(const READDIR4res&) const = default;
};
template <class X>
bool xdr(X& x, Ref<X, READDIR4res> v) {
  return result(x, v);
}

NFS4_OP(CREATE);
NFS4_OP(LINK);
NFS4_OP(REMOVE);
NFS4_OP(RENAME);
NFS4_OP(READDIR);

}  // namespace nfsrdma::nfs4

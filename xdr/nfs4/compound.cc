// SPDX-License-Identifier: Apache-2.0
#include "xdr/nfs4/compound.h"

namespace nfsrdma::nfs4 {

namespace {

bool assigned(nfs_opnum4 op) {
  return op_name(op) != nullptr && op != OP_ILLEGAL;
}

bool legal(const ILLEGAL4res& v) {
  if (v.resop == OP_ILLEGAL) return legal_illegal(v.status);
  return assigned(v.resop) && v.status == NFS4ERR_NOTSUPP;
}

template <class Op>
bool decode_arm(xdr::Decoder& x, auto& variant) {
  return x(variant.template emplace<Op>());
}

bool decode_args(xdr::Decoder& x, nfs_opnum4 op, nfs_argop4& v) {
  switch (op) {
#define NFS4_DECODE(name) \
  case OP_##name: return decode_arm<name##4args>(x, v.op);
    NFS4_EACH_OP(NFS4_DECODE)
#undef NFS4_DECODE
    default: v.op = ILLEGAL4args{op}; return true;
  }
}

bool decode_result(xdr::Decoder& x, nfs_opnum4 op, nfs_resop4& v) {
  switch (op) {
#define NFS4_DECODE(name) \
  case OP_##name: return decode_arm<name##4res>(x, v.op);
    NFS4_EACH_OP(NFS4_DECODE)
#undef NFS4_DECODE
    default: {
      ILLEGAL4res illegal{.resop = op};
      if (!x(illegal.status)) return false;
      v.op = illegal;
      return legal(illegal) || x.fail("result of an operation that is not known");
    }
  }
}

}  // namespace

nfs_opnum4 nfs_argop4::opnum() const {
  if (const auto* illegal = std::get_if<ILLEGAL4args>(&op)) return illegal->argop;
  return std::visit([]<class T>(const T&) { return op_of<T>; }, op);
}

nfs_opnum4 nfs_resop4::opnum() const {
  if (const auto* illegal = std::get_if<ILLEGAL4res>(&op)) return illegal->resop;
  return std::visit([]<class T>(const T&) { return op_of<T>; }, op);
}

nfsstat4 nfs_resop4::status() const {
  return std::visit([](const auto& res) { return res.status; }, op);
}

template <class X>
bool xdr(X& x, Ref<X, nfs_argop4> v) {
  if constexpr (xdr::kDecodes<X>) {
    nfs_opnum4 op{};
    return x(op) && decode_args(x, op, v);
  } else {
    if (!x(v.opnum())) return false;
    return std::visit(
        [&]<class T>(const T& args) {
          if constexpr (std::is_same_v<T, ILLEGAL4args>) {
            return x.ok();
          } else {
            return x(args);
          }
        },
        v.op);
  }
}

template <class X>
bool xdr(X& x, Ref<X, nfs_resop4> v) {
  if constexpr (xdr::kDecodes<X>) {
    nfs_opnum4 op{};
    return x(op) && decode_result(x, op, v);
  } else {
    if (!x(v.opnum())) return false;
    return std::visit(
        [&]<class T>(const T& res) {
          if constexpr (std::is_same_v<T, ILLEGAL4res>) {
            return legal(res) ? x(res.status) : x.fail("ILLEGAL with a status it cannot have");
          } else {
            return x(res);
          }
        },
        v.op);
  }
}

template <class X>
bool xdr(X& x, Ref<X, COMPOUND4args> v) {
  if constexpr (xdr::kDecodes<X>) {
    compound_call head;
    if (!x(head)) return false;
    v.tag.assign(as_string_view(head.tag));
    v.minorversion = head.minorversion;
    v.argarray.clear();
    for (uint32_t i = 0; i < head.operations; ++i) {
      nfs_argop4& op = v.argarray.emplace_back();
      if (!x(op)) return false;
      if (std::holds_alternative<ILLEGAL4args>(op.op)) return x.skip(x.left());
    }
    return true;
  } else {
    if (v.argarray.size() > kMaxOperations) return x.fail("too many operations");
    const compound_call head{as_const_bytes(v.tag), v.minorversion, static_cast<uint32_t>(v.argarray.size())};
    if (!x(head)) return false;
    for (const nfs_argop4& op : v.argarray) {
      if (!x(op)) return false;
    }
    return true;
  }
}

template <class X>
bool xdr(X& x, Ref<X, COMPOUND4res> v) {
  if constexpr (xdr::kDecodes<X>) {
    compound_reply head;
    if (!x(head)) return false;
    v.status = head.status;
    v.tag.assign(as_string_view(head.tag));
    v.resarray.clear();
    for (uint32_t i = 0; i < head.results; ++i) {
      if (!x(v.resarray.emplace_back())) return false;
    }
    return true;
  } else {
    if (v.resarray.size() > kMaxOperations) return x.fail("too many results");
    const compound_reply head{v.status, as_const_bytes(v.tag), static_cast<uint32_t>(v.resarray.size())};
    if (!x(head)) return false;
    for (const nfs_resop4& op : v.resarray) {
      if (!x(op)) return false;
    }
    return true;
  }
}

#define NFS4_INSTANTIATE(T)                               \
  template bool xdr(xdr::Encoder&, Ref<xdr::Encoder, T>); \
  template bool xdr(xdr::Sizer&, Ref<xdr::Sizer, T>);     \
  template bool xdr(xdr::Decoder&, Ref<xdr::Decoder, T>);
NFS4_INSTANTIATE(nfs_argop4)
NFS4_INSTANTIATE(nfs_resop4)
NFS4_INSTANTIATE(COMPOUND4args)
NFS4_INSTANTIATE(COMPOUND4res)
#undef NFS4_INSTANTIATE

}  // namespace nfsrdma::nfs4

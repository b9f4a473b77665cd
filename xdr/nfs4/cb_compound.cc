// SPDX-License-Identifier: Apache-2.0
#include "xdr/nfs4/cb_compound.h"

#include <iterator>

namespace nfsrdma::nfs4 {

namespace {

// Indexed by operation number, from OP_CB_GETATTR.
constexpr const char* kCallbackNames[] = {
    "CB_GETATTR",    "CB_RECALL",          "CB_LAYOUTRECALL",         "CB_NOTIFY",
    "CB_PUSH_DELEG", "CB_RECALL_ANY",      "CB_RECALLABLE_OBJ_AVAIL", "CB_RECALL_SLOT",
    "CB_SEQUENCE",   "CB_WANTS_CANCELLED", "CB_NOTIFY_LOCK",          "CB_NOTIFY_DEVICEID",
    "CB_OFFLOAD"};
static_assert(std::size(kCallbackNames) == OP_CB_OFFLOAD - OP_CB_GETATTR + 1);

bool legal(const CB_ILLEGAL4res& v) {
  if (v.resop == OP_CB_ILLEGAL) return legal_illegal(v.status);
  return v.resop == OP_CB_OFFLOAD && v.status == NFS4ERR_NOTSUPP;
}

bool decode_args(xdr::Decoder& x, nfs_cb_opnum4 op, nfs_cb_argop4& v) {
  switch (op) {
#define NFS4_DECODE(name) \
  case OP_##name: return x(v.op.emplace<name##4args>());
    NFS4_EACH_CB_OP(NFS4_DECODE)
#undef NFS4_DECODE
    default: v.op = CB_ILLEGAL4args{op}; return true;
  }
}

bool decode_result(xdr::Decoder& x, nfs_cb_opnum4 op, nfs_cb_resop4& v) {
  switch (op) {
#define NFS4_DECODE(name) \
  case OP_##name: return x(v.op.emplace<name##4res>());
    NFS4_EACH_CB_OP(NFS4_DECODE)
#undef NFS4_DECODE
    default: {
      CB_ILLEGAL4res illegal{.resop = op};
      if (!x(illegal.status)) return false;
      v.op = illegal;
      return legal(illegal) || x.fail("result of a callback operation that is not known");
    }
  }
}

}  // namespace

const char* cb_op_name(nfs_cb_opnum4 op) {
  if (op == OP_CB_ILLEGAL) return "CB_ILLEGAL";
  if (op < OP_CB_GETATTR || op > OP_CB_OFFLOAD) return nullptr;
  return kCallbackNames[op - OP_CB_GETATTR];
}

nfs_cb_opnum4 nfs_cb_argop4::opnum() const {
  if (const auto* illegal = std::get_if<CB_ILLEGAL4args>(&op)) return illegal->argop;
  return std::visit([]<class T>(const T&) { return cb_op_of<T>; }, op);
}

nfs_cb_opnum4 nfs_cb_resop4::opnum() const {
  if (const auto* illegal = std::get_if<CB_ILLEGAL4res>(&op)) return illegal->resop;
  return std::visit([]<class T>(const T&) { return cb_op_of<T>; }, op);
}

nfsstat4 nfs_cb_resop4::status() const {
  return std::visit([](const auto& res) { return res.status; }, op);
}

template <class X>
bool xdr(X& x, Ref<X, nfs_cb_argop4> v) {
  if constexpr (xdr::kDecodes<X>) {
    nfs_cb_opnum4 op{};
    return x(op) && decode_args(x, op, v);
  } else {
    if (!x(v.opnum())) return false;
    return std::visit(
        [&]<class T>(const T& args) {
          if constexpr (std::is_same_v<T, CB_ILLEGAL4args>) {
            return x.ok();
          } else {
            return x(args);
          }
        },
        v.op);
  }
}

template <class X>
bool xdr(X& x, Ref<X, nfs_cb_resop4> v) {
  if constexpr (xdr::kDecodes<X>) {
    nfs_cb_opnum4 op{};
    return x(op) && decode_result(x, op, v);
  } else {
    if (!x(v.opnum())) return false;
    return std::visit(
        [&]<class T>(const T& res) {
          if constexpr (std::is_same_v<T, CB_ILLEGAL4res>) {
            return legal(res) ? x(res.status) : x.fail("CB_ILLEGAL with a status it cannot have");
          } else {
            return x(res);
          }
        },
        v.op);
  }
}

template <class X>
bool xdr(X& x, Ref<X, CB_COMPOUND4args> v) {
  if (!xdr::bytes(x, v.tag, kMaxTag) || !x(v.minorversion) || !x(v.callback_ident)) return false;
  if constexpr (xdr::kDecodes<X>) {
    uint32_t operations = 0;
    if (!x.count(operations, kMaxOperations, 4)) return false;
    v.argarray.clear();
    for (uint32_t i = 0; i < operations; ++i) {
      nfs_cb_argop4& op = v.argarray.emplace_back();
      if (!x(op)) return false;
      if (std::holds_alternative<CB_ILLEGAL4args>(op.op)) return x.skip(x.left());
    }
    return true;
  } else {
    return xdr::array(x, v.argarray, kMaxOperations);
  }
}

template <class X>
bool xdr(X& x, Ref<X, CB_COMPOUND4res> v) {
  return x(v.status) && xdr::bytes(x, v.tag, kMaxTag) && xdr::array(x, v.resarray, kMaxOperations, 8);
}

#define NFS4_INSTANTIATE(T)                               \
  template bool xdr(xdr::Encoder&, Ref<xdr::Encoder, T>); \
  template bool xdr(xdr::Sizer&, Ref<xdr::Sizer, T>);     \
  template bool xdr(xdr::Decoder&, Ref<xdr::Decoder, T>);
NFS4_INSTANTIATE(nfs_cb_argop4)
NFS4_INSTANTIATE(nfs_cb_resop4)
NFS4_INSTANTIATE(CB_COMPOUND4args)
NFS4_INSTANTIATE(CB_COMPOUND4res)
#undef NFS4_INSTANTIATE

}  // namespace nfsrdma::nfs4

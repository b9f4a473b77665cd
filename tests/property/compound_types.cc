// SPDX-License-Identifier: Apache-2.0
// Whole compounds: how the Generator chooses operations. The other codecs use the descriptions in the
// library.

#include "tests/property/any_value.h"

namespace nfsrdma::nfs4 {
namespace {

using property::Generator;

// Arm 0 is ILLEGAL, which ends a list of arguments and has its own status in results. Unit tests cover it.
template <class Op>
bool operation(Generator& x, Op& op) {
  using Variant = decltype(op.op);
  constexpr size_t kArms = std::variant_size_v<Variant> - 1;
  const size_t arm = 1 + x.below(kArms);
  return [&]<size_t... I>(std::index_sequence<I...>) {
    bool good = false;
    ((I + 1 == arm ? (good = x(op.op.template emplace<I + 1>())) : false), ...);
    return good;
  }
  (std::make_index_sequence<kArms>{});
}

template <class Op>
bool operations(Generator& x, std::vector<Op>& list) {
  list.resize(x.below(5));
  for (Op& op : list) {
    if (!operation(x, op)) return false;
  }
  return true;
}

}  // namespace

template <>
bool xdr(Generator& x, COMPOUND4args& v) {
  return xdr::bytes(x, v.tag, 8) && x(v.minorversion) && operations(x, v.argarray);
}
template <>
bool xdr(Generator& x, COMPOUND4res& v) {
  return x(v.status) && xdr::bytes(x, v.tag, 8) && operations(x, v.resarray);
}
template <>
bool xdr(Generator& x, CB_COMPOUND4args& v) {
  return xdr::bytes(x, v.tag, 8) && x(v.minorversion) && x(v.callback_ident) && operations(x, v.argarray);
}
template <>
bool xdr(Generator& x, CB_COMPOUND4res& v) {
  return x(v.status) && xdr::bytes(x, v.tag, 8) && operations(x, v.resarray);
}

}  // namespace nfsrdma::nfs4

namespace nfsrdma::property {

std::vector<WireType> compound_types() {
  std::vector<WireType> types;
  types.push_back({"COMPOUND4args", std::make_unique<ValueOf<nfs4::COMPOUND4args>>()});
  types.push_back({"COMPOUND4res", std::make_unique<ValueOf<nfs4::COMPOUND4res>>()});
  types.push_back({"CB_COMPOUND4args", std::make_unique<ValueOf<nfs4::CB_COMPOUND4args>>()});
  types.push_back({"CB_COMPOUND4res", std::make_unique<ValueOf<nfs4::CB_COMPOUND4res>>()});
  return types;
}

}  // namespace nfsrdma::property

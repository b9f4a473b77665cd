// SPDX-License-Identifier: Apache-2.0
// A fourth "codec": where the Decoder reads a value from bytes, the Generator creates one from random
// choices.
//
// Each wire type has one description (xdr/codec.h), which is enough to create any legal value of the type,
// also after later changes. The choices are a list of numbers that rapidcheck generates and shrinks. When the
// list is used up, further choices are 0, so values stay finite. Strings and arrays stay short. If a
// description refuses an arm (x.fail), the caller discards the value.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <type_traits>
#include <vector>

#include "xdr/nfs4/cb_compound.h"
#include "xdr/nfs4/compound.h"

namespace nfsrdma::property {

class Generator;

}  // namespace nfsrdma::property

template <>
inline constexpr bool nfsrdma::xdr::kDecodes<nfsrdma::property::Generator> = true;

namespace nfsrdma::property {

// The range from which an enum's values are chosen: those that its RFC defines.
struct Range {
  uint32_t low = 0;
  uint32_t high = 0;
};
template <class E>
inline constexpr Range kRange{0, 3};
template <>
inline constexpr Range kRange<nfs4::nfs_ftype4>{1, 9};
template <>
inline constexpr Range kRange<nfs4::opentype4>{0, 1};
template <>
inline constexpr Range kRange<nfs4::open_claim_type4>{0, 6};
template <>
inline constexpr Range kRange<nfs4::limit_by4>{1, 2};
template <>
inline constexpr Range kRange<nfs4::why_no_delegation4>{0, 8};
template <>
inline constexpr Range kRange<nfs4::nfs_lock_type4>{1, 4};
template <>
inline constexpr Range kRange<nfs4::stable_how4>{0, 2};
template <>
inline constexpr Range kRange<nfs4::time_how4>{0, 1};
template <>
inline constexpr Range kRange<nfs4::secinfo_style4>{0, 1};
template <>
inline constexpr Range kRange<nfs4::rpc_gss_svc_t>{1, 3};
template <>
inline constexpr Range kRange<rpc::auth_flavor>{0, 6};
template <>
inline constexpr Range kRange<nfs4::state_protect_how4>{0, 2};
template <>
inline constexpr Range kRange<nfs4::channel_dir_from_client4>{1, 3};
template <>
inline constexpr Range kRange<nfs4::channel_dir_from_server4>{1, 3};
template <>
inline constexpr Range kRange<nfs4::gddrnf4_status>{0, 1};
template <>
inline constexpr Range kRange<nfs4::layoutrecall_type4>{1, 3};
template <>
inline constexpr Range kRange<nfs4::layoutiomode4>{1, 3};
template <>
inline constexpr Range kRange<nfs4::fs4_status_type>{1, 5};
template <>
inline constexpr Range kRange<rpc::msg_type>{0, 1};
template <>
inline constexpr Range kRange<rpc::reply_stat>{0, 1};
template <>
inline constexpr Range kRange<rpc::reject_stat>{0, 1};
template <>
inline constexpr Range kRange<rpc::accept_stat>{0, 5};

// Up to eight attributes with any number; most of them get a value.
bool xdr(Generator& x, nfs4::fattr4& v);

class Generator {
 public:
  explicit Generator(std::span<const uint32_t> choices) : choices_(choices) {}

  uint32_t next();
  uint32_t below(uint32_t n) { return next() % n; }

  bool operator()(uint32_t& v);
  bool operator()(int32_t& v);
  bool operator()(uint64_t& v);
  bool operator()(int64_t& v);
  bool operator()(bool& v);
  bool operator()(nfs4::nfsstat4& v);
  bool operator()(rpc::Xid& v);
  template <xdr::XdrEnum E>
  bool operator()(E& v) {
    v = static_cast<E>(kRange<E>.low + below(kRange<E>.high - kRange<E>.low + 1));
    return ok_;
  }
  template <class T>
  requires requires(Generator& x, T& v) { xdr(x, v); }
  bool operator()(T& v) { return xdr(*this, v); }

  bool fixed(MutableBytes bytes);
  bool opaque(ConstBytes& view, size_t max);
  bool bulk(ConstBytes& view, size_t max) { return opaque(view, max); }
  bool count(uint32_t& n, size_t max, size_t min_element_bytes);
  bool fail(const char*);
  bool ok() const { return ok_; }

 private:
  std::span<const uint32_t> choices_;
  size_t at_ = 0;
  bool ok_ = true;
  std::deque<ByteVector> kept_;  // the bytes that views point into
};

}  // namespace nfsrdma::property

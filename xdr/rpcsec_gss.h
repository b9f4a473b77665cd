// SPDX-License-Identifier: Apache-2.0
// RPCSEC_GSS version 1: the credential of a call and the bodies that it protects (RFC 2203 sections 5
// and 5.2).
//
//     cred body = version 1, gss_proc, seq_num, service, opaque handle<>     in opaque_auth (xdr/rpc.h)
//     INIT      = opaque gss_token<>      -> opaque handle<>, gss_major, gss_minor, seq_window, opaque
//     gss_token<> integrity = opaque databody_integ<>, opaque checksum<>                 databody_integ =
//     rpc_gss_data_t privacy   = opaque databody_priv<>                                     decrypted =
//     rpc_gss_data_t rpc_gss_data_t = seq_num, arguments or results
//
// Byte strings are views: into the decoded message, or of bytes that the caller keeps until encoding is done.
// Lengths without a maximum in the RFC have one here, with its reason. Values only; no I/O; any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "xdr/codec.h"
#include "xdr/rpc.h"

namespace nfsrdma::rpc {

inline constexpr uint32_t RPCSEC_GSS_VERS_1 = 1;
// A sequence number above it needs a new context (section 5.3.3.3).
inline constexpr uint32_t MAXSEQ = 0x80000000;

enum rpc_gss_proc_t : uint32_t {
  RPCSEC_GSS_DATA = 0,
  RPCSEC_GSS_INIT = 1,
  RPCSEC_GSS_CONTINUE_INIT = 2,
  RPCSEC_GSS_DESTROY = 3,
};

enum rpc_gss_service_t : uint32_t {
  rpc_gss_svc_none = 1,       // authentication: sec=krb5
  rpc_gss_svc_integrity = 2,  // sec=krb5i
  rpc_gss_svc_privacy = 3,    // sec=krb5p
};

// The words of a credential in front of the handle's bytes, with the handle's length.
inline constexpr size_t kGssCredentialWords = 20;
// So that a credential fits into the body of an opaque_auth.
inline constexpr size_t kMaxGssHandle = kMaxAuthBytes - kGssCredentialWords;
// A token of Kerberos carries a ticket, whose largest part is the authorization data of Active Directory.
// Windows limits tokens to 65,535 bytes (MaxTokenSize).
inline constexpr size_t kMaxGssToken = 65536;
// The checksum of the header has to fit into a verifier, and that of the body is made alike.
inline constexpr size_t kMaxGssChecksum = kMaxAuthBytes;

inline bool same_bytes(ConstBytes a, ConstBytes b) {
  return std::ranges::equal(a, b);
}

// Section 5.2.2: "In a creation request, the seq_num and service fields are undefined and both must be
// ignored by the server."
inline bool creates_context(rpc_gss_proc_t proc) {
  return proc == RPCSEC_GSS_INIT || proc == RPCSEC_GSS_CONTINUE_INIT;
}

struct rpc_gss_cred_vers_1_t {
  rpc_gss_proc_t gss_proc = RPCSEC_GSS_DATA;
  uint32_t seq_num = 0;
  rpc_gss_service_t service = rpc_gss_svc_none;
  ConstBytes handle{};  // empty in RPCSEC_GSS_INIT

  bool operator==(const rpc_gss_cred_vers_1_t& other) const {
    return gss_proc == other.gss_proc && seq_num == other.seq_num && service == other.service &&
           same_bytes(handle, other.handle);
  }
};

template <class X>
bool xdr(X& x, Ref<X, rpc_gss_cred_vers_1_t> v) {
  if (!x(v.gss_proc)) return false;
  if (v.gss_proc > RPCSEC_GSS_DESTROY) return x.fail("unknown rpc_gss_proc_t");
  if (!x(v.seq_num) || !x(v.service)) return false;
  const bool known = v.service >= rpc_gss_svc_none && v.service <= rpc_gss_svc_privacy;
  if (!known && !creates_context(v.gss_proc)) return x.fail("unknown rpc_gss_service_t");
  return xdr::view(x, v.handle, kMaxGssHandle);
}

// The body of a credential. If a decoded version is not 1, the rest was not decoded: the answer to INIT is
// AUTH_REJECTEDCRED, to anything else AUTH_BADCRED (sections 5.2.3.2 and 5.3.3.3). If decoding fails, it is
// AUTH_BADCRED.
struct rpc_gss_cred_t {
  uint32_t version = RPCSEC_GSS_VERS_1;
  rpc_gss_cred_vers_1_t v1{};

  bool operator==(const rpc_gss_cred_t&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, rpc_gss_cred_t> v) {
  if (!x(v.version)) return false;
  return v.version != RPCSEC_GSS_VERS_1 || x(v.v1);
}

// The arguments of INIT and CONTINUE_INIT.
struct rpc_gss_init_arg {
  ConstBytes gss_token{};

  bool operator==(const rpc_gss_init_arg& other) const { return same_bytes(gss_token, other.gss_token); }
};

template <class X>
bool xdr(X& x, Ref<X, rpc_gss_init_arg> v) {
  return xdr::view(x, v.gss_token, kMaxGssToken);
}

// Their results. Section 5.2.3.1: if gss_major is an error, "handle and gss_token must be set to NULL by the
// server". A receiver looks at neither then.
struct rpc_gss_init_res {
  ConstBytes handle{};
  uint32_t gss_major = 0;
  uint32_t gss_minor = 0;
  uint32_t seq_window = 0;
  ConstBytes gss_token{};

  bool operator==(const rpc_gss_init_res& other) const {
    return same_bytes(handle, other.handle) && gss_major == other.gss_major && gss_minor == other.gss_minor &&
           seq_window == other.seq_window && same_bytes(gss_token, other.gss_token);
  }
};

template <class X>
bool xdr(X& x, Ref<X, rpc_gss_init_res> v) {
  return xdr::view(x, v.handle, kMaxGssHandle) && x(v.gss_major) && x(v.gss_minor) && x(v.seq_window) &&
         xdr::view(x, v.gss_token, kMaxGssToken);
}

// Appendix A: GSS_S_COMPLETE and GSS_S_CONTINUE_NEEDED, the values of gss_major that are no errors. (Under
// these names the library has macros.)
inline constexpr uint32_t kGssComplete = 0;
inline constexpr uint32_t kGssContinueNeeded = 1;

// Arguments or results of rpc_gss_svc_integrity. The message is in memory, so nothing else limits the body.
struct rpc_gss_integ_data {
  ConstBytes databody_integ{};
  ConstBytes checksum{};

  bool operator==(const rpc_gss_integ_data& other) const {
    return same_bytes(databody_integ, other.databody_integ) && same_bytes(checksum, other.checksum);
  }
};

template <class X>
bool xdr(X& x, Ref<X, rpc_gss_integ_data> v) {
  return xdr::view(x, v.databody_integ, UINT32_MAX) && xdr::view(x, v.checksum, kMaxGssChecksum);
}

// Arguments or results of rpc_gss_svc_privacy.
struct rpc_gss_priv_data {
  ConstBytes databody_priv{};

  bool operator==(const rpc_gss_priv_data& other) const {
    return same_bytes(databody_priv, other.databody_priv);
  }
};

template <class X>
bool xdr(X& x, Ref<X, rpc_gss_priv_data> v) {
  return xdr::view(x, v.databody_priv, UINT32_MAX);
}

// What a checksum covers or an encryption hides: the number of the credential, then whole XDR words.
struct rpc_gss_data_t {
  uint32_t seq_num = 0;
  ConstBytes arg{};  // or the results

  bool operator==(const rpc_gss_data_t& other) const {
    return seq_num == other.seq_num && same_bytes(arg, other.arg);
  }
};

template <class X>
bool xdr(X& x, Ref<X, rpc_gss_data_t> v) {
  if (!x(v.seq_num)) return false;
  if constexpr (xdr::kDecodes<X>) {
    v.arg = x.rest();
    if (v.arg.size() % 4 != 0) return x.fail("arguments of a part of a word");
    return x.skip(v.arg.size());
  } else {
    return x.raw(v.arg);
  }
}

}  // namespace nfsrdma::rpc

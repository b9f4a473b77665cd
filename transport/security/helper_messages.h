// SPDX-License-Identifier: Apache-2.0
// What the daemon and the Kerberos helper say to each other. One exchange has one SOCK_SEQPACKET socket, and
// each message is one packet:
//
//     daemon: ContextRequest, then one server token after each kToken
//     helper: HelperAnswer: kToken any number of times, then kDone or kFailed
//
// The helper runs with the rights of a user, and the daemon with others: each treats the other's messages as
// hostile. Values only; any thread. Errors: Layer::kXdr, EIO.
#pragma once

#include <cstdint>
#include <string>

#include "transport/security/token_source.h"
#include "xdr/codec.h"

namespace nfsrdma::security {

// A token with the privilege data of a large directory has at most 64 KiB (MaxTokenSize of Active Directory).
inline constexpr size_t kMaxTokenBytes = 64u << 10;
// An exported context of libkrb5 has about 1 KiB.
inline constexpr size_t kMaxContextBytes = 16u << 10;
inline constexpr size_t kMaxHostBytes = 512;
inline constexpr size_t kMaxCauseBytes = 1024;
// The longest message: an answer with everything, and its lengths.
inline constexpr size_t kMaxHelperMessage = kMaxTokenBytes + kMaxContextBytes + kMaxCauseBytes + 64;

template <class X>
bool xdr(X& x, xdr::Ref<X, ContextRequest> v) {
  return x(v.user) && xdr::bytes(x, v.host, kMaxHostBytes);
}

enum class AnswerKind : uint32_t { kToken = 1, kDone = 2, kFailed = 3 };

struct HelperAnswer {
  AnswerKind kind = AnswerKind::kFailed;
  ByteVector token{};    // kToken; kDone: for the server, may be empty
  ByteVector context{};  // kDone
  uint32_t failure = 0;  // kFailed: gss::Failure, or 0; and:
  uint32_t errnum = 0;
  bool passing = false;  // another try may succeed (no answer of the KDC)
  std::string cause{};   // for a person

  bool operator==(const HelperAnswer&) const = default;
};

template <class X>
bool xdr(X& x, xdr::Ref<X, HelperAnswer> v) {
  if (!x(v.kind)) return false;
  switch (v.kind) {
    case AnswerKind::kToken: return xdr::bytes(x, v.token, kMaxTokenBytes);
    case AnswerKind::kDone:
      return xdr::bytes(x, v.token, kMaxTokenBytes) && xdr::bytes(x, v.context, kMaxContextBytes);
    case AnswerKind::kFailed:
      return x(v.failure) && x(v.errnum) && x(v.passing) && xdr::bytes(x, v.cause, kMaxCauseBytes);
  }
  return x.fail("unknown answer of the Kerberos helper");
}

ByteVector encode(const ContextRequest& request);
ByteVector encode(const HelperAnswer& answer);  // kFailed: the cause is cut at its limit
Result<ContextRequest> decode_request(ConstBytes message);
Result<HelperAnswer> decode_answer(ConstBytes message);

HelperAnswer answer_of(const Error& error);
// `answer` is kFailed. An errno that no helper sends becomes EIO; what is not printable is replaced.
Error error_of(HelperAnswer answer);

}  // namespace nfsrdma::security

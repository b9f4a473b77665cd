// SPDX-License-Identifier: Apache-2.0
#include "transport/security/helper_messages.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace nfsrdma::security {
namespace {

template <class T>
ByteVector encode_message(const T& message) {
  ByteVector bytes;
  xdr::Encoder x(bytes);
  if (!x(message)) bytes.clear();
  return bytes;
}

constexpr int kSentErrors[] = {EACCES, EKEYEXPIRED, EHOSTUNREACH, EBADMSG, ENOMEM, EPERM};

}  // namespace

ByteVector encode(const ContextRequest& request) {
  return encode_message(request);
}

ByteVector encode(const HelperAnswer& answer) {
  if (answer.cause.size() <= kMaxCauseBytes) return encode_message(answer);
  HelperAnswer shorter = answer;
  shorter.cause.resize(kMaxCauseBytes);
  return encode_message(shorter);
}

Result<ContextRequest> decode_request(ConstBytes message) {
  return xdr::decode<ContextRequest>(message, "Kerberos helper");
}

Result<HelperAnswer> decode_answer(ConstBytes message) {
  return xdr::decode<HelperAnswer>(message, "Kerberos helper");
}

HelperAnswer answer_of(const Error& error) {
  HelperAnswer answer;
  if (error.layer == Layer::kSecurity) answer.failure = error.status;
  answer.errnum = static_cast<uint32_t>(error.errnum);
  answer.passing = error.recovery == Recovery::kRetry;
  answer.cause = error.cause;
  return answer;
}

Error error_of(HelperAnswer answer) {
  const auto known = std::ranges::find(kSentErrors, static_cast<int>(answer.errnum));
  std::ranges::replace_if(
      answer.cause, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return {.layer = Layer::kSecurity,
          .recovery = answer.passing ? Recovery::kRetry : Recovery::kPermanent,
          .errnum = known == std::end(kSentErrors) ? EIO : *known,
          .status = answer.failure,
          .op = "Kerberos",
          .cause = std::move(answer.cause)};
}

}  // namespace nfsrdma::security

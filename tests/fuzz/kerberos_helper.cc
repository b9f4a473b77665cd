// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: the messages of the Kerberos helper, both directions (transport/security/helper_messages.h).
//
// Checked: what decodes encodes to the same bytes again (unless a cause was cut), and an error for a person
// is one printable line with an errno that an application may get.
//
// Input: one byte; if bit 0 is set, the rest is an answer of the helper, else a request of the daemon.

#include "transport/security/helper_messages.h"

#include <algorithm>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nfsrdma;            // NOLINT
  using namespace nfsrdma::security;  // NOLINT
  if (size == 0) return 0;
  const ConstBytes message = fuzz::bytes_of(data, size).subspan(1);
  if ((data[0] & 1) == 0) {
    if (const auto request = decode_request(message)) {
      fuzz::require(request->host.size() <= kMaxHostBytes, "the host's name is bounded");
      fuzz::require(decode_request(encode(*request)) == *request, "a request survives the way");
    }
    return 0;
  }
  const auto answer = decode_answer(message);
  if (!answer) return 0;
  fuzz::require(encode(*answer).size() <= kMaxHelperMessage, "an answer fits into a packet");
  fuzz::require(decode_answer(encode(*answer)) == *answer, "an answer survives the way");
  if (answer->kind != AnswerKind::kFailed) return 0;
  const Error error = error_of(*answer);
  fuzz::require(error.errnum > 0, "an error has an errno");
  fuzz::require(std::ranges::none_of(error.cause, [](char c) { return c == '\n' || c == '\x1b'; }),
                "a cause is one printable line");
  return 0;
}

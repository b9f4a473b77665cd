// SPDX-License-Identifier: Apache-2.0
// Why a TLS session or its certificates do not work, as a person can mend it. Each function takes the errors
// of this thread out of OpenSSL's queue. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "xdr/support/error.h"

struct x509_store_ctx_st;

namespace nfsrdma::tls {

// Error::status of Layer::kSecurity when the server offers no TLS. gss::Failure has the smaller numbers.
inline constexpr uint32_t kNoTlsOffered = 1000;

// Why a certificate of the other end is not accepted, and what to do, in one clause. `host`: the server's
// name; empty at the server's end.
std::string certificate_refused(x509_store_ctx_st* verification, const std::string& host);
// Why the handshake failed. `refused`: what certificate_refused() said meanwhile.
Error handshake_failed(std::string refused);
// Why an established session ended with an error; one clause.
std::string session_failed();
// A file that cannot be used. `what` is said before its name ("the certificate").
Error bad_file(const char* what, const std::string& path);
Error make_error(const char* op, std::string cause, Recovery recovery = Recovery::kPermanent, int errnum = 0);

}  // namespace nfsrdma::tls

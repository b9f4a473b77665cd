// SPDX-License-Identifier: Apache-2.0
// Why a GSS call failed, as a caller can act on it and as a person can mend it.
//
// GSS reports a major status of the API and a minor status of the mechanism (RFC 2743 section 1.2.1.1). Their
// texts name the library's view ("Unspecified GSS failure"). A Failure names the cause that a user or an
// administrator can remove. Values only; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "xdr/support/error.h"

namespace nfsrdma::gss {

// Error::status of Layer::kSecurity.
enum class Failure : uint32_t {
  kOther = 1,          // the texts of GSS say more
  kNoTicket,           // no credential cache, or nothing in it
  kTicketExpired,      // the ticket has run out
  kTicketNotYetValid,  // a postdated ticket, or a clock that is late
  kClockSkew,          // the clocks of client, server and KDC differ by more than the realm allows
  kUnknownServer,      // the KDC's database has no such service principal
  kUnknownClient,      // the KDC's database has no such user or machine
  kKdcUnreachable,     // no KDC answered, or none is known for the realm
  kNoKeytab,           // the keytab is missing or unreadable
  kNoKeytabEntry,      // the keytab has no key for the name, the version or the encryption type
  kKeyChanged,         // the ticket's key is not the keytab's: the server's keytab is old, or the ticket is
  kReplay,             // the token was seen before (with a replay cache only)
  kBadToken,           // the bytes are no token, or were changed on the way
  kBadSignature,       // a checksum does not fit the message
  kContextExpired,     // the context's lifetime is over
  kNoConfidentiality,  // a wrapped message is not encrypted
  kNoLocalUser,        // auth_to_local maps the principal to no user
};

std::string_view to_string(Failure failure);

// An error of Layer::kSecurity. `op` is a static string that names the step ("gss_init_sec_context").
// `subject` is what the message is about: a service, a principal, a credential cache or a keytab; it may be
// empty. Recovery::kRetry (a later attempt may succeed by itself): kKdcUnreachable. Else
// Recovery::kPermanent. errnum: EKEYEXPIRED for what has expired, EHOSTUNREACH for kKdcUnreachable, EBADMSG
// for kBadToken, kBadSignature and kNoConfidentiality, else EACCES.
Error make_error(Failure failure, const char* op, std::string_view subject = {}, std::string detail = {},
                 SourceLocation where = SourceLocation::current());

// The same from the two status words of a failed GSS call of this thread.
Error error_of(uint32_t major, uint32_t minor, const char* op, std::string_view subject = {},
               SourceLocation where = SourceLocation::current());

// kOther for errors of other layers.
Failure failure_of(const Error& error);

}  // namespace nfsrdma::gss

// SPDX-License-Identifier: Apache-2.0
#include "transport/security/gss/failure.h"

#include <krb5.h>

#include <cerrno>
#include <optional>

#include "transport/security/gss/library.h"

namespace nfsrdma::gss {

namespace {

// Codes of MIT's GSS mechanism (error table k5g), which no installed header names.
constexpr krb5_error_code kCcacheOfAnotherName = 39756032;  // KG_CCACHE_NOMATCH
constexpr krb5_error_code kKeytabOfAnotherName = 39756033;  // KG_KEYTAB_NOMATCH
constexpr krb5_error_code kTgtMissing = 39756034;           // KG_TGT_MISSING
constexpr krb5_error_code kEmptyCcache = 39756044;          // KG_EMPTY_CCACHE
constexpr krb5_error_code kNoKcmServer = -1750600181;       // KRB5_KCM_NO_SERVER
// Larger codes than any errno belong to error tables.
constexpr OM_uint32 kLastErrno = 1000;

struct OfMinor {
  krb5_error_code minor;
  Failure failure;
};
// What the mechanism reports (krb5.h, RFC 4120 section 7.5.9).
constexpr OfMinor kOfMinor[] = {
    {KRB5_FCC_NOFILE, Failure::kNoTicket},
    {KRB5_FCC_PERM, Failure::kNoTicket},
    {KRB5_CC_NOTFOUND, Failure::kNoTicket},
    {KRB5_CC_UNKNOWN_TYPE, Failure::kNoTicket},
    {KRB5_CC_FORMAT, Failure::kNoTicket},
    {KRB5_CC_END, Failure::kNoTicket},
    {KRB5KRB_AP_ERR_NO_TGT, Failure::kNoTicket},
    {kCcacheOfAnotherName, Failure::kNoTicket},
    {kTgtMissing, Failure::kNoTicket},
    {kEmptyCcache, Failure::kNoTicket},
    {kNoKcmServer, Failure::kNoTicket},
    {KRB5KRB_AP_ERR_TKT_EXPIRED, Failure::kTicketExpired},
    {KRB5KRB_AP_ERR_TKT_NYV, Failure::kTicketNotYetValid},
    {KRB5KRB_AP_ERR_TKT_INVALID, Failure::kTicketNotYetValid},
    {KRB5KRB_AP_ERR_SKEW, Failure::kClockSkew},
    {KRB5_KDCREP_SKEW, Failure::kClockSkew},
    {KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN, Failure::kUnknownServer},
    {KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN, Failure::kUnknownClient},
    {KRB5_KDC_UNREACH, Failure::kKdcUnreachable},
    {KRB5_REALM_CANT_RESOLVE, Failure::kKdcUnreachable},
    {KRB5_REALM_UNKNOWN, Failure::kKdcUnreachable},
    {KRB5KDC_ERR_SVC_UNAVAILABLE, Failure::kKdcUnreachable},
    {KRB5_KT_UNKNOWN_TYPE, Failure::kNoKeytab},
    {KRB5_KT_IOERR, Failure::kNoKeytab},
    {KRB5_KT_FORMAT, Failure::kNoKeytab},
    {KRB5_KEYTAB_BADVNO, Failure::kNoKeytab},
    {KRB5_KT_NOTFOUND, Failure::kNoKeytabEntry},
    {KRB5_KT_KVNONOTFOUND, Failure::kNoKeytabEntry},
    {KRB5KRB_AP_ERR_NOKEY, Failure::kNoKeytabEntry},
    {KRB5KRB_AP_ERR_BADKEYVER, Failure::kNoKeytabEntry},
    {KRB5KRB_AP_ERR_NOT_US, Failure::kNoKeytabEntry},
    {KRB5KRB_AP_WRONG_PRINC, Failure::kNoKeytabEntry},
    {kKeytabOfAnotherName, Failure::kNoKeytabEntry},
    {KRB5KRB_AP_ERR_BAD_INTEGRITY, Failure::kKeyChanged},
    {KRB5KRB_AP_ERR_REPEAT, Failure::kReplay},
    {KRB5KRB_AP_ERR_MODIFIED, Failure::kBadToken},
    {KRB5KRB_AP_ERR_MSG_TYPE, Failure::kBadToken},
    {KRB5KRB_AP_ERR_BADMATCH, Failure::kBadToken},
    {KRB5KRB_AP_ERR_MUT_FAIL, Failure::kBadToken},
};

std::optional<Failure> of_minor(OM_uint32 minor) {
  for (const OfMinor& row : kOfMinor)
    if (row.minor == static_cast<krb5_error_code>(minor)) return row.failure;
  return std::nullopt;
}

// What the API reports where the mechanism says nothing more (RFC 2743 table 1).
Failure of_major(OM_uint32 major) {
  switch (GSS_ROUTINE_ERROR(major)) {
    case GSS_S_NO_CRED: return Failure::kNoTicket;
    case GSS_S_CREDENTIALS_EXPIRED: return Failure::kTicketExpired;
    case GSS_S_CONTEXT_EXPIRED: return Failure::kContextExpired;
    case GSS_S_DUPLICATE_TOKEN: return Failure::kReplay;
    case GSS_S_BAD_MECH:
    case GSS_S_DEFECTIVE_TOKEN: return Failure::kBadToken;
    case GSS_S_BAD_SIG: return Failure::kBadSignature;
    default: break;
  }
  // The library says that it cannot read its input.
  if (GSS_CALLING_ERROR(major) != 0) return Failure::kBadToken;
  return Failure::kOther;
}

Failure classify(OM_uint32 major, OM_uint32 minor) {
  // A signature that does not fit is one, whatever the mechanism found inside.
  if (GSS_ROUTINE_ERROR(major) == GSS_S_BAD_SIG) return Failure::kBadSignature;
  // An errno is a keytab's: credential caches have codes of their own for files that cannot be read.
  if (GSS_ROUTINE_ERROR(major) == GSS_S_NO_CRED && minor > 0 && minor < kLastErrno) return Failure::kNoKeytab;
  return of_minor(minor).value_or(of_major(major));
}

// One line of the library's for a status word; empty if it knows none.
std::string text_of(OM_uint32 status, int kind) {
  Buffer text;
  OM_uint32 minor = 0;
  OM_uint32 more = 0;
  const gss_OID mechanism = kind == GSS_C_MECH_CODE ? krb5_mechanism() : GSS_C_NO_OID;
  if (failed(gss_display_status(&minor, status, kind, mechanism, &more, text.out()))) return {};
  return std::string(text.text());
}

// What happened and what to do. "%" stands for the subject.
const char* advice(Failure failure) {
  switch (failure) {
    case Failure::kOther: return "%: Kerberos failed";
    case Failure::kNoTicket: return "%: no Kerberos ticket; run kinit";
    case Failure::kTicketExpired: return "%: the Kerberos ticket has expired; run kinit";
    case Failure::kTicketNotYetValid:
      return "%: the Kerberos ticket is not valid yet; run kinit -v when its time has come, or set the clock";
    case Failure::kClockSkew:
      return "%: the clocks of this host, the server and the KDC differ too much; synchronize them";
    case Failure::kUnknownServer:
      return "%: the KDC does not know this service; add it there, or use the server's full name";
    case Failure::kUnknownClient: return "%: the KDC does not know this user or machine";
    case Failure::kKdcUnreachable: return "%: no KDC answers; see [realms] of krb5.conf, and the network";
    case Failure::kNoKeytab: return "%: no readable keytab";
    case Failure::kNoKeytabEntry: return "%: the keytab has no fitting key; add it with kadmin's ktadd";
    case Failure::kKeyChanged:
      return "%: the ticket's key is not the keytab's; export the keytab again, and run kinit again";
    case Failure::kReplay: return "%: a token that was used before";
    case Failure::kBadToken: return "%: a damaged token";
    case Failure::kBadSignature: return "%: a signature that does not fit";
    case Failure::kContextExpired:
      return "%: the security context has expired; it lasts as long as the ticket";
    case Failure::kNoConfidentiality: return "%: the message is not encrypted";
    case Failure::kNoLocalUser: return "%: auth_to_local of krb5.conf maps it to no local user";
  }
  return "%: Kerberos failed";
}

int errno_of(Failure failure) {
  switch (failure) {
    case Failure::kTicketExpired:
    case Failure::kContextExpired: return EKEYEXPIRED;
    case Failure::kKdcUnreachable: return EHOSTUNREACH;
    case Failure::kBadToken:
    case Failure::kBadSignature:
    case Failure::kNoConfidentiality: return EBADMSG;
    default: return EACCES;
  }
}

// Whether the library's text tells more than the advice does: which name, realm or key.
bool names_more(Failure failure) {
  switch (failure) {
    case Failure::kOther:
    case Failure::kUnknownServer:
    case Failure::kUnknownClient:
    case Failure::kKdcUnreachable:
    case Failure::kNoKeytab:
    case Failure::kNoKeytabEntry:
    case Failure::kKeyChanged: return true;
    default: return false;
  }
}

}  // namespace

std::string_view to_string(Failure failure) {
  switch (failure) {
    case Failure::kOther: return "other";
    case Failure::kNoTicket: return "no ticket";
    case Failure::kTicketExpired: return "ticket expired";
    case Failure::kTicketNotYetValid: return "ticket not yet valid";
    case Failure::kClockSkew: return "clock skew";
    case Failure::kUnknownServer: return "unknown server";
    case Failure::kUnknownClient: return "unknown client";
    case Failure::kKdcUnreachable: return "KDC unreachable";
    case Failure::kNoKeytab: return "no keytab";
    case Failure::kNoKeytabEntry: return "no keytab entry";
    case Failure::kKeyChanged: return "key changed";
    case Failure::kReplay: return "replay";
    case Failure::kBadToken: return "bad token";
    case Failure::kBadSignature: return "bad signature";
    case Failure::kContextExpired: return "context expired";
    case Failure::kNoConfidentiality: return "no confidentiality";
    case Failure::kNoLocalUser: return "no local user";
  }
  return "unknown failure";
}

Error make_error(Failure failure, const char* op, std::string_view subject, std::string detail,
                 SourceLocation where) {
  // Without a subject the sentence begins behind "%: ".
  std::string cause = subject.empty() ? std::string(advice(failure) + 3)
                                      : std::string(subject) + std::string(advice(failure) + 1);
  if (!detail.empty()) cause += " (" + detail + ")";
  return {.layer = Layer::kSecurity,
          .recovery = failure == Failure::kKdcUnreachable ? Recovery::kRetry : Recovery::kPermanent,
          .errnum = errno_of(failure),
          .status = static_cast<uint32_t>(failure),
          .op = op,
          .cause = std::move(cause),
          .where = where};
}

Error error_of(uint32_t major, uint32_t minor, const char* op, std::string_view subject,
               SourceLocation where) {
  const Failure failure = classify(major, minor);
  std::string detail;
  if (names_more(failure)) {
    if (minor != 0) detail = text_of(minor, GSS_C_MECH_CODE);
    if (detail.empty()) detail = text_of(major, GSS_C_GSS_CODE);
  }
  return make_error(failure, op, subject, std::move(detail), where);
}

Failure failure_of(const Error& error) {
  return error.layer == Layer::kSecurity ? static_cast<Failure>(error.status) : Failure::kOther;
}

}  // namespace nfsrdma::gss

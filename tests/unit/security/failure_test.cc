// SPDX-License-Identifier: Apache-2.0
#include "transport/security/gss/failure.h"

#include <gssapi/gssapi.h>
#include <gtest/gtest.h>
#include <krb5.h>

#include <cerrno>
#include <set>

namespace nfsrdma::gss {
namespace {

constexpr uint32_t kLast = static_cast<uint32_t>(Failure::kNoLocalUser);

TEST(Failures, HaveNamesAndTextsOfTheirOwn) {
  std::set<std::string> names;
  std::set<std::string> texts;
  for (uint32_t n = 1; n <= kLast; ++n) {
    const Error error = make_error(static_cast<Failure>(n), "op", "who");
    EXPECT_EQ(error.layer, Layer::kSecurity);
    EXPECT_EQ(failure_of(error), static_cast<Failure>(n));
    EXPECT_TRUE(error.cause.starts_with("who: ")) << error.cause;
    EXPECT_EQ(error.cause.find_first_of("%\n"), std::string::npos) << error.cause;
    EXPECT_NE(error.errnum, 0);
    names.emplace(to_string(static_cast<Failure>(n)));
    texts.insert(error.cause);
  }
  EXPECT_EQ(names.size(), kLast);
  EXPECT_EQ(texts.size(), kLast);
  EXPECT_FALSE(names.contains("unknown failure"));
}

TEST(Failures, AreToldOnce) {
  const Error error = make_error(Failure::kTicketExpired, "gss_init_sec_context", "FILE:/tmp/krb5cc_7");
  EXPECT_EQ(describe(error),
            "gss_init_sec_context: FILE:/tmp/krb5cc_7: the Kerberos ticket has expired; run kinit");
  EXPECT_EQ(describe(make_error(Failure::kBadSignature, "gss_verify_mic")),
            "gss_verify_mic: a signature that does not fit");
  EXPECT_EQ(describe(make_error(Failure::kOther, "gss_wrap", {}, "why")), "gss_wrap: Kerberos failed (why)");
}

TEST(Failures, OfStatusWords_NameTheCause) {
  struct Case {
    uint32_t major;
    int32_t minor;
    Failure failure;
    int errnum;
  };
  for (const auto& [major, minor, failure, errnum] :
       {Case{GSS_S_FAILURE, KRB5KRB_AP_ERR_SKEW, Failure::kClockSkew, EACCES},
        Case{GSS_S_FAILURE, KRB5KRB_AP_ERR_TKT_EXPIRED, Failure::kTicketExpired, EKEYEXPIRED},
        Case{GSS_S_CREDENTIALS_EXPIRED, 0, Failure::kTicketExpired, EKEYEXPIRED},
        Case{GSS_S_CONTEXT_EXPIRED, 0, Failure::kContextExpired, EKEYEXPIRED},
        Case{GSS_S_NO_CRED, KRB5_FCC_NOFILE, Failure::kNoTicket, EACCES},
        Case{GSS_S_NO_CRED, KRB5_KT_NOTFOUND, Failure::kNoKeytabEntry, EACCES},
        Case{GSS_S_FAILURE, KRB5_KDC_UNREACH, Failure::kKdcUnreachable, EHOSTUNREACH},
        Case{GSS_S_FAILURE, KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN, Failure::kUnknownServer, EACCES},
        Case{GSS_S_DUPLICATE_TOKEN, KRB5KRB_AP_ERR_REPEAT, Failure::kReplay, EACCES},
        Case{GSS_S_DEFECTIVE_TOKEN, 0, Failure::kBadToken, EBADMSG},
        Case{GSS_S_CALL_INACCESSIBLE_READ, 0, Failure::kBadToken, EBADMSG},
        Case{GSS_S_BAD_SIG, 0, Failure::kBadSignature, EBADMSG},
        Case{GSS_S_FAILURE, 12345, Failure::kOther, EACCES}}) {
    const Error error = error_of(major, static_cast<uint32_t>(minor), "op");
    EXPECT_EQ(to_string(failure_of(error)), to_string(failure)) << major << " " << minor;
    EXPECT_EQ(error.errnum, errnum);
  }
}

TEST(Failures, OfOtherLayers_AreNone) {
  EXPECT_EQ(failure_of(system_error(EIO, "read")), Failure::kOther);
}

}  // namespace
}  // namespace nfsrdma::gss

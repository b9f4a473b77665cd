// SPDX-License-Identifier: Apache-2.0
// Realm: what the tests of this folder begin with: a KDC with the users alice and bob and the service
// nfs/localhost, started once per program. They are skipped, with the reason, where no KDC can run.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "tests/unit/support/kdc.h"
#include "transport/security/gss/context.h"
#include "transport/security/gss/credential.h"
#include "transport/security/gss/establishment.h"
#include "transport/security/gss/failure.h"
#include "transport/security/gss/name.h"

namespace nfsrdma::gss {

// The two ends of one context.
struct Ends {
  Context initiator;
  Context acceptor;
};

class Realm : public testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;

  static test::Kdc& kdc() { return *kdc_; }
  static const std::string& keytab() { return keytab_; }
  // A fresh credential cache with alice's ticket-granting ticket of ten hours.
  static std::string alice() { return kdc().kinit("alice"); }
  // Calls `use` with credential caches whose tickets end soon, in 3, 6, 12 and 24 seconds, until it returns
  // true: on a busy machine a ticket may end before it was used. False: it never did.
  template <class Use>
  static bool with_a_short_ticket(Use use) {
    for (const char* lifetime : {"3s", "6s", "12s", "24s"}) {
      try {
        if (use(kdc().kinit("alice", {.lifetime = lifetime}))) return true;
      } catch (const std::runtime_error&) {  // the ticket has ended
      }
    }
    return false;
  }

  static std::shared_ptr<const Name> server(const std::string& service = "nfs",
                                            const std::string& host = "localhost");
  static std::shared_ptr<const Credential> user(const std::string& ccache);
  // The server's credential: key of nfs/localhost, no replay cache.
  static std::shared_ptr<const Credential> service() { return service({.keytab = keytab()}); }
  static std::shared_ptr<const Credential> service(const Credential::Accepting& options);

  // The first token of a user with this credential cache to nfs/localhost.
  static ByteVector first_token(const std::string& ccache);
  // Runs both ends until they are done.
  static Ends establish(const std::string& ccache);
  static Ends establish(Initiator initiator, Acceptor acceptor);

 private:
  static std::unique_ptr<test::Kdc> kdc_;
  static std::string keytab_;
};

// The failure of a step or result, kOther + 0 if there was none.
inline std::string failure_in(const Step& step) {
  return step.error ? std::string(to_string(failure_of(*step.error))) : "none";
}
template <class T>
std::string failure_in(const Result<T>& result) {
  return result ? "none" : std::string(to_string(failure_of(result.error())));
}

}  // namespace nfsrdma::gss

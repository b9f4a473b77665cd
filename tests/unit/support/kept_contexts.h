// SPDX-License-Identifier: Apache-2.0
// The two ends of a Kerberos context without a KDC: both were exported once and are imported again. Their
// session key is therefore known, and the same in every run: for tests and fuzz targets of what is done with
// a context.
//
// alice@NFSRDMA.TEST at nfs/localhost, AES-256 with SHA-1, from 2026-11-30 to 2046. (An exported context
// names the krb5.conf files in use; here /dev/null was put into that place.) Each call gives new objects.
#pragma once

#include <optional>

#include "transport/security/gss/context.h"

namespace nfsrdma::test {

struct KeptContexts {
  gss::Context initiator;
  gss::Context acceptor;
};

// nullopt: this version of the library exports contexts in another form (these are of krb5 1.20).
std::optional<KeptContexts> kept_contexts();

}  // namespace nfsrdma::test

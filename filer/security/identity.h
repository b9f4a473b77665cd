// SPDX-License-Identifier: Apache-2.0
// Identity: the principal that the server uses for a credential (RFC 5531 appendix A, RFC 2203).
//
// AUTH_SYS is what the caller says. A Kerberos principal is the local user that krb5.conf's auth_to_local
// rules map it to (gss_localname), with the groups that this host's name service knows; without one, the
// anonymous user with the principal's name. Loop thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "filer/tree/principal.h"
#include "transport/runtime/loop.h"
#include "transport/security/gss/name.h"
#include "xdr/support/result.h"

namespace nfsrdma::filer::security {

// The principal of an AUTH_NONE or AUTH_SYS credential. nullopt: AUTH_BADCRED.
std::optional<tree::Principal> principal_of(const rpc::opaque_auth& cred);

// Adds the principal for exports that squash root: without group 0, and for user 0 nobody.
void add_squashed(tree::Principal& who);

// The principal for a server that squashes root everywhere (Switches::anonymous_root).
tree::Principal without_root(const tree::Principal& who);

// What the host knows of a user.
struct Account {
  uint32_t uid = tree::Principal::kAnonymous;
  uint32_t gid = tree::Principal::kAnonymous;
  std::vector<uint32_t> groups{};
};

// The account by getpwnam(3) and getgrouplist(3); nullopt: there is no such user. It may ask a directory over
// the network, and blocks then. Errors: Layer::kSystem, Recovery::kRetry: the name service fails.
Result<std::optional<Account>> account_of(const std::string& user);

class Identities {
 public:
  using Lookup = std::function<Result<std::optional<Account>>(const std::string& user)>;
  // An account is looked up again after this time: its groups may have changed.
  static constexpr std::chrono::minutes kKept{5};
  static constexpr size_t kMostKept = 1024;

  explicit Identities(Lookup lookup = account_of) : lookup_(std::move(lookup)) {}

  struct Known {
    tree::Principal who{};
    TimePoint looked_up{};
  };
  // Errors: those of the lookup; they are not kept.
  Result<Known> of(const gss::Name& name, TimePoint now);

 private:
  Result<tree::Principal> look_up(const gss::Name& name) const;

  Lookup lookup_;
  std::map<std::string, Known> known_;  // by principal
};

}  // namespace nfsrdma::filer::security

// SPDX-License-Identifier: Apache-2.0
#include "transport/security/helper_worker.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "transport/runtime/user_ids.h"
#include "transport/security/credential_caches.h"
#include "transport/security/gss/credential.h"
#include "transport/security/gss/establishment.h"
#include "transport/security/gss/failure.h"

namespace nfsrdma::security {
namespace {

class GssTokens final : public TokenMaker {
 public:
  GssTokens(std::shared_ptr<const gss::Credential> credential, std::shared_ptr<const gss::Name> server)
      : initiator_(std::move(credential), std::move(server)) {}

  Result<InitiationStep> step(ConstBytes token) override {
    gss::Step taken = initiator_.step(token);
    if (taken.error) return fail(*std::move(taken.error));
    InitiationStep step{std::move(taken.token), std::nullopt};
    if (!taken.done) return step;
    Result<gss::Context> established = initiator_.take();
    if (!established) return fail(std::move(established.error()));
    Result<ByteVector> context = (*std::move(established)).exported();
    if (!context) return fail(std::move(context.error()));
    step.context = *std::move(context);
    return step;
  }

 private:
  gss::Initiator initiator_;
};

// A ticket that has run out says more to the user than a place without tickets.
bool says_more(const Error& error, const std::optional<Error>& than) {
  return !than || (gss::failure_of(*than) == gss::Failure::kNoTicket &&
                   gss::failure_of(error) != gss::Failure::kNoTicket);
}

bool usable(const gss::Credential& credential) {
  const auto lifetime = credential.lifetime();
  return lifetime && (!*lifetime || **lifetime > std::chrono::seconds(0));
}

Result<gss::Credential> tickets_of(uint32_t user, bool own_mount) {
  std::optional<Error> why;
  for (const std::string& name : credential_caches(user, own_mount)) {
    Result<gss::Credential> credential = gss::Credential::from_ccache(name);
    if (credential && usable(*credential)) return credential;
    Error error = credential ? gss::make_error(gss::Failure::kTicketExpired, "gss_acquire_cred", name)
                             : std::move(credential.error());
    if (says_more(error, why)) why = std::move(error);
  }
  return fail(*std::move(why));
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

// rpc.gssd's order for what a machine is called in its keytab.
Result<gss::Credential> key_of_machine() {
  const std::string host = host_name();
  std::string account = host.substr(0, host.find('.'));
  std::ranges::transform(account, account.begin(), [](unsigned char c) { return std::toupper(c); });
  std::optional<Error> why;
  for (const char* service : {"", "root", "nfs", "host"}) {
    Result<gss::Name> name =
        *service == '\0' ? gss::Name::principal(account + "$") : gss::Name::service(service, host);
    if (!name) continue;
    Result<gss::Credential> key = gss::Credential::from_keytab("", *name, "MEMORY:machine");
    if (key) return key;
    const gss::Failure failure = gss::failure_of(key.error());
    if (!why || failure != gss::Failure::kNoKeytabEntry) why = std::move(key.error());
    if (failure == gss::Failure::kNoKeytab) break;
  }
  return fail(*std::move(why));
}

}  // namespace

Result<std::unique_ptr<TokenMaker>> find_credentials(const ContextRequest& request) {
  const uid_t own = ::geteuid();
  // Root of a user namespace is a user like others outside it: his tickets come first, and the namespace may
  // have a keytab.
  // Proc::ours() is of the daemon, whose files the helper has closed.
  const bool contained = own == 0 && UserIds::of_this_process(Proc()).mapped();
  const bool machine = own == 0 && request.user == 0;
  const bool own_mount = (own != 0 || contained) && request.user == own;
  // Also before the keytab is read: its owner needs no capability for that.
  NFSRDMA_TRY(become(request.user));
  std::optional<Result<gss::Credential>> found;
  if (machine && !contained) found = key_of_machine();
  if (!found || !*found) {
    Result<gss::Credential> tickets = tickets_of(request.user, own_mount);
    if (!found || tickets) found = std::move(tickets);
  }
  if (!*found && machine && contained) {
    Result<gss::Credential> key = key_of_machine();
    if (key) found = std::move(key);
  }
  if (!*found) return fail(std::move(found->error()));
  Result<gss::Name> server = gss::Name::service("nfs", request.host);
  if (!server) return fail(std::move(server.error()));
  return std::make_unique<GssTokens>(std::make_shared<const gss::Credential>(**std::move(found)),
                                     std::make_shared<const gss::Name>(*std::move(server)));
}

}  // namespace nfsrdma::security

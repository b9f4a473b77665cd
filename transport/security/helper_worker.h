// SPDX-License-Identifier: Apache-2.0
// HelperWorker: the helper's end of one exchange. It runs in a process of its own, which becomes the user for
// good, may block on the KDC, and ends with the exchange.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "transport/security/token_source.h"
#include "xdr/support/bytes.h"
#include "xdr/support/result.h"

namespace nfsrdma::security {

// Makes the tokens of one context; may block.
class TokenMaker {
 public:
  virtual ~TokenMaker() = default;
  virtual Result<InitiationStep> step(ConstBytes token) = 0;
};

// Finds the credentials for a request. May give up this process' rights for good.
using FindCredentials = std::function<Result<std::unique_ptr<TokenMaker>>(const ContextRequest& request)>;

// Answers the request that comes over `socket`, until the context is there, an error has been told, or the
// daemon has closed its end. Blocks. `limit`: how long finding the credentials and each step may take;
// SIGALRM, which must be neither blocked nor caught, ends the process after that.
void serve_exchange(int socket, const FindCredentials& find, std::chrono::seconds limit);

// Becomes `user`: real, effective and saved user and group IDs, no supplementary groups, no capabilities,
// also if that is user 0: what comes after this parses what DNS, the KDC and the server send. As root this
// gives up root's rights for good; the user's tickets are then read with his rights alone. Otherwise `user`
// must be this process' own. Root of a user namespace that forbids setgroups(2) can be himself only. Error:
// EACCES.
Result<> become(uint32_t user);

// The real thing: the user's tickets (credential_caches.h). Calls become() first. For user 0 of root's mount:
// the machine's, from the keytab, or if it has no key of this machine, root's own tickets. Root of a user
// namespace has his own mount: the tickets come first, by KRB5CCNAME as well.
Result<std::unique_ptr<TokenMaker>> find_credentials(const ContextRequest& request);

}  // namespace nfsrdma::security

// SPDX-License-Identifier: Apache-2.0
// CallSecurities: the CallSecurity for a user's calls over one of the session's transports, in a mount with
// sec=krb5, krb5i or krb5p. A mount with sec=sys has none of this.
//
// Owned by the RequestSender. A method with `transport` runs on that transport's loop. Errors:
// transport/security/contexts.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/api/options.h"
#include "client/api/statistics.h"
#include "client/nfs4/session/connections.h"
#include "transport/rpc/call_security.h"
#include "transport/rpc/credential.h"
#include "xdr/support/error.h"

namespace nfsrdma::client::nfs4 {

// Why a call needs another context.
enum class ContextLoss : uint8_t {
  kNone,     // it needs none: the error has another reason
  kRefused,  // the server has refused the last transmission, and not executed it (RFC 2203 section 5.3.3.3)
  kUseless,  // this client could not seal the call or verify a reply. Of transmissions nothing is known.
};
ContextLoss context_loss(const Error& error);

class CallSecurities {
 public:
  virtual ~CallSecurities() = default;
  // Null for sec=sys.
  static std::unique_ptr<CallSecurities> make(Connections& connections, const ClientOptions& options,
                                              unsigned transports);

  // `handshake`: the call is part of the connection's handshake.
  virtual Task<Result<std::shared_ptr<rpc::CallSecurity>>> get(unsigned transport, rpc::CredentialPtr who,
                                                               bool handshake) = 0;
  // The context is lost: get() makes another.
  virtual void forget(unsigned transport, const rpc::Credential& who, const rpc::CallSecurity& security) = 0;
  // For status. Any thread.
  virtual std::vector<ContextStatistics> statistics() const = 0;
  // Loop 0. Ends the contexts of transport 0; the server forgets those of the others.
  virtual Task<> destroy() = 0;
};

}  // namespace nfsrdma::client::nfs4

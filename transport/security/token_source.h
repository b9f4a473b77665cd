// SPDX-License-Identifier: Apache-2.0
// TokenSource: makes the client's GSS tokens (RFC 2743 section 2.2.1, GSS_Init_sec_context) without blocking
// a loop. The daemon exchanges the tokens with the server itself; whoever makes them reads credential caches
// and asks the KDC.
//
// Shared by the loops of a mount; begin() may be called on any loop. An Initiation belongs to the loop that
// began it. Errors: Layer::kSecurity with gss::Failure (gss/failure.h); kRetry if no KDC answered, or the
// helper ended an exchange or did not answer in time; kPermanent if there is no helper any more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/runtime/task.h"
#include "xdr/support/bytes.h"
#include "xdr/support/result.h"

namespace nfsrdma::security {

// For whom a context is made, and with which server.
struct ContextRequest {
  // The user whose credentials are used, as this process' user namespace counts. In root's mount 0 stands for
  // the machine.
  uint32_t user = 0;
  std::string host;  // of the service "nfs" (RFC 8881 section 2.2.1.1.1.2)

  bool operator==(const ContextRequest&) const = default;
};

struct InitiationStep {
  ByteVector token;                   // for the server; may be empty once the context is there
  std::optional<ByteVector> context;  // the established context, exported (RFC 2743 section 2.2.8)
};

// One exchange of tokens. Destroying it early ends the exchange.
class Initiation {
 public:
  virtual ~Initiation() = default;
  // `token`: the server's, empty in the first step. One step at a time; none after the context is there or
  // after an error.
  virtual Task<Result<InitiationStep>> step(ByteVector token) = 0;
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual Result<std::unique_ptr<Initiation>> begin(ContextRequest request) = 0;
};

}  // namespace nfsrdma::security

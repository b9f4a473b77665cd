// SPDX-License-Identifier: Apache-2.0
// Makes and ends a context at the server: NULL calls with RPCSEC_GSS_INIT, CONTINUE_INIT and DESTROY (RFC
// 2203 sections 5.2, 5.4).
//
// Runs on the transport's loop. The tokens come from a TokenSource, so nothing blocks. Errors: those of the
// TokenSource and of the transport; Layer::kSecurity, kPermanent, EACCES for a server that refuses the ticket
// or RPCSEC_GSS; kBadSignature if the server does not prove that it knows the session key.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/rpc/rpc_transport.h"
#include "transport/security/gss_security.h"
#include "transport/security/token_source.h"

namespace nfsrdma::security {

struct Program {
  uint32_t number = 0;
  uint32_t version = 0;
};

struct Establishing {
  rpc::RpcTransport& transport;  // outlives the task
  TokenSource& tokens;           // likewise
  ContextRequest request;
  rpc::rpc_gss_service_t service = rpc::rpc_gss_svc_none;
  Program program;
  // The context is for the connection's handshake: its calls are sent before the connection is ready, and
  // fail (kReconnect) when it is lost.
  bool handshake = false;
};

Task<Result<std::shared_ptr<GssSecurity>>> establish(Establishing e);

// Tells the server that the context is not needed any more. No further call may use it. The answer does not
// matter: the server forgets unused contexts by itself.
Task<> destroy(rpc::RpcTransport& transport, std::shared_ptr<GssSecurity> security, Program program);

}  // namespace nfsrdma::security

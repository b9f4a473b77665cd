// SPDX-License-Identifier: Apache-2.0
// The Connection Configuration Protocol (RFC 5666 section 6), client and server. Off by default: today's
// servers answer PROG_UNAVAIL, and private data and version 2's properties set the same values without it.
//
// Section 11 requires that it is "protected by an appropriate RPC security flavor". We send it with
// AUTH_NONE, as the NULL procedure: this program has no other flavor before there is a session.
#pragma once

#include <optional>

#include "transport/rpc/rpc_transport.h"
#include "xdr/rpcrdma/configuration.h"

namespace nfsrdma::rdma {

// The client's call; part of a connection's handshake.
rpc::Call configuration_call(const rpcrdma::config_rdma_req& ours);

// The server's reply. nullopt: the server does not have the protocol. Errors: kReconnect: the connection was
// lost; kPermanent with EPROTONOSUPPORT: the server cannot do what NFS needs.
Result<std::optional<rpcrdma::config_rdma_reply>> configuration_from(const rpc::Outcome& outcome);

// The server's reply to `call`; `theirs` receives the client's values. nullopt: the call is for another
// program.
std::optional<ByteVector> answer_configuration(ConstBytes call, const rpcrdma::config_rdma_reply& ours,
                                               std::optional<rpcrdma::config_rdma_req>& theirs);

}  // namespace nfsrdma::rdma

// SPDX-License-Identifier: Apache-2.0
// The Connection Configuration Protocol (RFC 5666 section 6), both roles. Off by default: servers of today
// answer PROG_UNAVAIL, and what it settles private data and version 2's properties settle without it.
//
// Section 11 wants it "protected by an appropriate RPC security flavor"; it goes as AUTH_NONE here, the only
// one that this program and NULL have before there is a session.
#pragma once

#include <optional>

#include "transport/rpc/rpc_transport.h"
#include "xdr/rpcrdma/configuration.h"

namespace nfsrdma::rdma {

// The client's call; part of a connection's handshake.
rpc::Call configuration_call(const rpcrdma::config_rdma_req& ours);

// What the server said. nullopt: it does not have the protocol. Errors: kReconnect: the connection was lost;
// kPermanent: EPROTONOSUPPORT: the server cannot do what NFS needs.
Result<std::optional<rpcrdma::config_rdma_reply>> configuration_from(const rpc::Outcome& outcome);

// The server's answer to `call`, and in `theirs` what the client wants. nullopt: it is a call of another
// program.
std::optional<ByteVector> answer_configuration(ConstBytes call, const rpcrdma::config_rdma_reply& ours,
                                               std::optional<rpcrdma::config_rdma_req>& theirs);

}  // namespace nfsrdma::rdma

// SPDX-License-Identifier: Apache-2.0
// Translates a mount's options into its transports' options. Pure.
#pragma once

#include "client/api/options.h"
#include "client/nfs4/protocol_types.h"
#include "transport/tcp/tcp_transport.h"

namespace nfsrdma::client::nfs4 {

tcp::TcpOptions tcp_options(const ClientOptions& options);
rdma::RdmaOptions rdma_options(const ClientOptions& options);

}  // namespace nfsrdma::client::nfs4

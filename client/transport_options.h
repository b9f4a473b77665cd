// SPDX-License-Identifier: Apache-2.0
// Translates a mount's options into its transports' options. Pure.
#pragma once

#include "client/options.h"
#include "transport/tcp/tcp_transport.h"

namespace nfsrdma::client {

tcp::TcpOptions tcp_options(const ClientOptions& options);
rdma::RdmaOptions rdma_options(const ClientOptions& options);

}  // namespace nfsrdma::client

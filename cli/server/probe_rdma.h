// SPDX-License-Identifier: Apache-2.0
// The RDMA part of `nfsrdma-fuse probe`: one connection, version negotiation, and the NULL procedure.
#pragma once

#include <string>

#include "cli/support/outcome.h"
#include "client/api/options.h"

namespace nfsrdma::cli {

// Returns "127.0.0.1:20049: software RDMA, version 2, ...", or why there is no connection. Blocks for a
// bounded time.
Outcome<std::string> probe_rdma(const client::ClientOptions& options);

}  // namespace nfsrdma::cli

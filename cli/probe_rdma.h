// SPDX-License-Identifier: Apache-2.0
// The RDMA part of `nfsrdma-fuse probe`: one connection, the agreement on a version, and the NULL procedure.
#pragma once

#include <string>

#include "cli/outcome.h"
#include "client/options.h"

namespace nfsrdma::cli {

// "127.0.0.1:20049: software RDMA, version 2, ...", or why there is none. Blocks, for a bounded time.
Outcome<std::string> probe_rdma(const client::ClientOptions& options);

}  // namespace nfsrdma::cli

// SPDX-License-Identifier: Apache-2.0
// Single steps on the way to a server's NFS, for `probe` and `doctor`: names, TCP, the NULL procedure. Each
// blocks for a bounded time, but for resolve_server(), which takes as long as the system's resolver does. No
// state.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "cli/outcome.h"
#include "client/options.h"
#include "transport/runtime/fd.h"
#include "transport/tcp/endpoint.h"
#include "xdr/support/result.h"

namespace nfsrdma::cli {

// The addresses of `options.host` with `options.port`; the failure is what getaddrinfo(3) says.
Outcome<std::vector<tcp::Endpoint>> resolve_server(const client::ClientOptions& options);

struct Connecting {
  Fd fd;
  int error = 0;  // an errno; ETIMEDOUT: nothing came back within the limit
};
Connecting connect_to(const tcp::Endpoint& endpoint, std::chrono::milliseconds limit);

// The NULL procedure of NFS `version` over a connection. Failure: what came back is no answer of an RPC
// server, or nothing came. Result<>: what the server said to it.
Outcome<Result<>> call_null(const Fd& fd, uint32_t version, std::chrono::milliseconds limit);

}  // namespace nfsrdma::cli

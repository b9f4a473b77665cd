// SPDX-License-Identifier: Apache-2.0
// Single steps to a server's NFS service, for `probe` and `doctor`: names, TCP, the NULL procedure. Each
// blocks for a bounded time, except resolve_server(), which takes as long as the system's resolver. No state.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/support/outcome.h"
#include "client/api/options.h"
#include "transport/net/endpoint.h"
#include "transport/runtime/fd.h"
#include "xdr/support/result.h"

namespace nfsrdma::cli {

inline tl::unexpected<Failure> step_failed(std::string text) {
  return refuse(ToolExit::kFailed, std::move(text));
}

// The addresses of `options.host` with `options.port`. The failure is getaddrinfo(3)'s text.
Outcome<std::vector<net::Endpoint>> resolve_server(const client::ClientOptions& options);

struct Connecting {
  Fd fd;
  int error = 0;  // an errno; ETIMEDOUT: no answer within the limit
};
Connecting connect_to(const net::Endpoint& endpoint, std::chrono::milliseconds limit);

// Calls the NULL procedure of NFS `version` over a connection. The outer failure: no answer, or not an answer
// of an RPC server. The inner Result<>: the server's answer.
Outcome<Result<>> call_null(const Fd& fd, uint32_t version, std::chrono::milliseconds limit);

}  // namespace nfsrdma::cli

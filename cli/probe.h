// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse probe SERVER[:/path]`: goes the way of a mount step by step and says how long each took and
// where it ends: names, TCP, the NULL procedure, client ID and session, the path, its contents.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/outcome.h"
#include "cli/tool_args.h"
#include "client/options.h"

namespace nfsrdma::cli {

// Each transport that a mount with the same options may take.
struct ServerWays {
  std::vector<client::ClientOptions> rdma;  // through a device, in software
  std::optional<client::ClientOptions> tcp;
};
// Failures are ToolExit::kUsage.
Outcome<ServerWays> ways_to_server(const ProbeVerb& verb);

// ToolExit. Steps go to standard output, the failure to standard error.
int run_probe(const std::string& program, const ProbeVerb& verb);

}  // namespace nfsrdma::cli

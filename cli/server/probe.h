// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse probe SERVER[:/path]`: takes the steps of a mount one by one, and reports the duration of
// each and the step that fails: name resolution, TCP, the NULL procedure, client ID and session, the path,
// its contents.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/option_split.h"
#include "cli/support/outcome.h"
#include "client/api/options.h"

namespace nfsrdma::cli {

struct ProbeVerb {
  std::string server;
  std::vector<RawOption> options;
};

// Each transport that a mount with the same options could use.
struct ServerWays {
  std::vector<client::ClientOptions> rdma;  // through a device, in software
  std::optional<client::ClientOptions> tcp;
};
// Failures are ToolExit::kUsage.
Outcome<ServerWays> ways_to_server(const ProbeVerb& verb);

// Returns ToolExit. Steps go to standard output, the failure to standard error.
int run_probe(const std::string& program, const ProbeVerb& verb);

}  // namespace nfsrdma::cli

// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse probe SERVER[:/path]`: goes the way of a mount step by step and says how long each took and
// where it ends: names, TCP, the NULL procedure, client ID and session, the path, its contents.
#pragma once

#include <string>

#include "cli/tool_args.h"

namespace nfsrdma::cli {

// ToolExit. Steps go to standard output, the failure to standard error.
int run_probe(const std::string& program, const ProbeVerb& verb);

}  // namespace nfsrdma::cli

// SPDX-License-Identifier: Apache-2.0
// The process `nfsrdma-filer`: serves in the foreground until SIGTERM or SIGINT.
#pragma once

#include <string>

#include "cli/filer/filer_args.h"

namespace nfsrdma::cli {

// Returns the exit status. Blocks SIGTERM and SIGINT for the process; call it before other threads exist.
int run_filer(const std::string& program, FilerCommand command);

}  // namespace nfsrdma::cli

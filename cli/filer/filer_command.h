// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-filer` as a process: serves in the foreground until SIGTERM or SIGINT.
#pragma once

#include <string>

#include "cli/filer/filer_args.h"

namespace nfsrdma::cli {

// Returns the exit status. Blocks SIGTERM and SIGINT for the process; to be called before there are threads.
int run_filer(const std::string& program, FilerCommand command);

}  // namespace nfsrdma::cli

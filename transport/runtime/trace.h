// SPDX-License-Identifier: Apache-2.0
// The operation log (log_level=trace): a line for each operation that the server was asked for. Names of
// files are in it. Any thread.
#pragma once

#include <string_view>

namespace nfsrdma::log {

// Whether it is kept; cheap, to be asked before a line is put together.
bool tracing();
void trace(std::string_view line);

}  // namespace nfsrdma::log

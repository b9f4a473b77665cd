// SPDX-License-Identifier: Apache-2.0
// The operation log (log_level=trace): one line for each operation requested from the server. The lines
// contain file names. Any thread.
#pragma once

#include <string_view>

namespace nfsrdma::log {

// True if the log is written. Cheap: call it before composing a line.
bool tracing();
void trace(std::string_view line);

}  // namespace nfsrdma::log

// SPDX-License-Identifier: Apache-2.0
// The doctor's questions to a server, step by step; see gather.h for its threads and time limit.
#pragma once

#include <chrono>
#include <optional>

#include "cli/doctor/facts.h"
#include "cli/server/probe.h"

namespace nfsrdma::cli::doctor {

// Returns nothing if `verb` names no server. Facts without an answer at `end` stay unknown.
std::optional<ServerFacts> gather_server(const ProbeVerb& verb, std::chrono::steady_clock::time_point end);

}  // namespace nfsrdma::cli::doctor

// SPDX-License-Identifier: Apache-2.0
// What the doctor asks of a server, step by step; see gather.h for its threads and its bound.
#pragma once

#include <chrono>
#include <optional>

#include "cli/doctor/facts.h"
#include "cli/probe.h"

namespace nfsrdma::cli::doctor {

// Nothing: `verb` names no server. What has not answered at `end` stays unknown.
std::optional<ServerFacts> gather_server(const ProbeVerb& verb, std::chrono::steady_clock::time_point end);

}  // namespace nfsrdma::cli::doctor

// SPDX-License-Identifier: Apache-2.0
// Finds out what the doctor judges. Asks the machine, the server and the daemons, and changes nothing
// anywhere; never looks into a mount.
//
// All of it ends within kLongest: what has not answered by then stays unknown. Steps that cannot be called
// off (the name service, a session) go on on threads of their own; after a call the process should end
// without waiting for them (std::_Exit).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/doctor/facts.h"
#include "cli/mountinfo.h"
#include "cli/outcome.h"

namespace nfsrdma::cli::doctor {

inline constexpr std::chrono::seconds kLongest{30};

// `what`: a mount, or a path in one; a server, with a path or without; empty: this machine, and the caller's
// mounts. Fails with ToolExit::kNotOurs for a path that is no mount, kUsage for what is neither.
Outcome<Facts> gather(const std::string& what);

// Parts of it, for tests.
// The text of a `features` file of virtio_balloon's, one character for each bit (VIRTIO_BALLOON_F_REPORTING
// is bit 5).
bool reports_pages(std::string_view features);
// "Domain = x" of idmapd.conf(5), section [General].
std::string domain_in(std::string_view idmapd_conf);
// What leads to the same server by the same way, from a mount's options as status shows them:
// "port=2049,proto=tcp".
std::string way_in(std::string_view mount_options, bool found_transport);
// "log=FILE" of them.
std::string log_file_in(std::string_view mount_options);

}  // namespace nfsrdma::cli::doctor

// SPDX-License-Identifier: Apache-2.0
// Gathers the facts that the doctor judges. It asks the machine, the server and the daemons. It changes
// nothing, and it never accesses files in a mount.
//
// The steps for one mount or server together end within kLongest; facts without an answer by then stay
// unknown. Steps that cannot be cancelled (name service, session) continue on their own threads. After
// gather() the process should exit without waiting for them (std::_Exit).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/doctor/facts.h"
#include "cli/support/mountinfo.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli::doctor {

inline constexpr std::chrono::seconds kLongest{30};

// `what`: a mount or a path in one; a server with or without a path; empty: this machine and the caller's
// mounts. Fails with ToolExit::kNotOurs for a path that is not in a mount of ours, with kUsage for anything
// else.
Outcome<Facts> gather(const std::string& what);

// Returns the content of a file; empty if it cannot be read.
std::string contents(const std::string& path);

// Parts of gather(), for tests.
//
// `features`: the text of a virtio_balloon `features` file, one character per bit (VIRTIO_BALLOON_F_REPORTING
// is bit 5).
bool reports_pages(std::string_view features);
// The value of the first line "Domain = x" in the text of idmapd.conf(5); sections are not checked.
std::string domain_in(std::string_view idmapd_conf);
// The options that lead to the same server over the same transport, taken from a mount's options as `status`
// shows them: "port=2049,proto=tcp".
std::string way_in(std::string_view mount_options, bool found_transport);
// The FILE of "log=FILE" in these options.
std::string log_file_in(std::string_view mount_options);

}  // namespace nfsrdma::cli::doctor

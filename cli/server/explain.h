// SPDX-License-Identifier: Apache-2.0
// Additions to a failure line: the operation that was in progress when no answer came, and the command that
// the user can run next. Pure functions on values.
#pragma once

#include <string>
#include <string_view>

#include "cli/options/mount_options.h"
#include "cli/options/source.h"
#include "client/api/options.h"
#include "client/api/statistics.h"
#include "xdr/support/error.h"

namespace nfsrdma::cli {

// The operation that a mounting client waits for, derived from its first connection and the progress of its
// session: "connect", "EXCHANGE_ID", "CREATE_SESSION", "LOOKUP"...
std::string_view operation_under_way(const client::Statistics& statistics);

// "run 'nfsrdma-fuse probe SOURCE'", for a mount that failed. Includes the options that select the same port
// and transport.
std::string probe_advice(const Source& source, const MountOptions& options);

// For a path that the server does not have: the probe of the server's root over the same transport.
std::string exports_advice(const client::ClientOptions& options);

// For a mount that the server refused, or a port that probably belongs to another service: what the server
// may require and this mount lacks. Ends in "; ", or is empty.
std::string server_hint(const Error& error, const MountOptions& options, bool root);

// For a mount that this machine refused. Begins with "; ", or is empty.
std::string mount_advice(const Error& error);

}  // namespace nfsrdma::cli

// SPDX-License-Identifier: Apache-2.0
// What a failure line says beside its cause: which operation was under way when no answer came, and what the
// user can run next. Pure functions on values.
#pragma once

#include <string>
#include <string_view>

#include "cli/mount_options.h"
#include "cli/source.h"
#include "client/options.h"
#include "client/statistics.h"
#include "xdr/support/error.h"

namespace nfsrdma::cli {

// What a client that is mounting waits for, by its first connection and by what its session has got so far:
// "connect", "EXCHANGE_ID", "CREATE_SESSION", "LOOKUP"...
std::string_view operation_under_way(const client::Statistics& statistics);

// "run 'nfsrdma-fuse probe SOURCE'": for a mount that failed; with what of the options leads to the same
// port by the same transport.
std::string probe_advice(const Source& source, const MountOptions& options);

// For a path that a server does not have: the probe of its root, by the same transport.
std::string exports_advice(const client::ClientOptions& options);

// For a mount that the server refused, or a port that is probably another service's: what it may want that
// this mount has not, ending in "; "; or empty.
std::string server_hint(const Error& error, const MountOptions& options, bool root);

// For a mount that this machine refused; begins with "; ", or is empty.
std::string mount_advice(const Error& error);

}  // namespace nfsrdma::cli

// SPDX-License-Identifier: Apache-2.0
// The TLS part of `nfsrdma-fuse probe`: whether the server offers RPC-with-TLS (RFC 9289), and whether its
// certificate is accepted.
#pragma once

#include <string>

#include "client/api/options.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {

// What the server offers, in one line; empty: no TLS. `connection` is new, and used up. Blocks for a bounded
// time.
std::string probe_tls(const client::ClientOptions& options, const Fd& connection);

}  // namespace nfsrdma::cli

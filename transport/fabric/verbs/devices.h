// SPDX-License-Identifier: Apache-2.0
// Local addresses for connections, so that they use the requested device.
#pragma once

#include <cstdint>

#include "transport/fabric/verbs/options.h"
#include "transport/net/endpoint.h"
#include "xdr/support/result.h"

namespace nfsrdma::fabric::verbs {

// The addresses of the requested device, port and GID that belong to `family`; on RoCE they are the
// interface's addresses. Empty: use any address, and compare the resulting device with Options::device
// afterwards. Errors: ENODEV: the GID does not exist or is no IP address.
Result<net::Endpoints> source_addresses(const Options& options, int family);

// The IP address that a RoCE GID represents (InfiniBand Architecture release 1.4 annex A17), if one can
// connect from it: IPv4 as ::ffff:a.b.c.d, else IPv6, link-local with its interface.
std::optional<net::Endpoint> address_of_gid(const uint8_t (&gid)[16], unsigned interface);

}  // namespace nfsrdma::fabric::verbs

// SPDX-License-Identifier: Apache-2.0
// Which local addresses connections may come from, so that they leave by the device that was asked for.
#pragma once

#include <cstdint>

#include "transport/fabric/verbs/options.h"
#include "transport/tcp/endpoint.h"
#include "xdr/support/result.h"

namespace nfsrdma::fabric::verbs {

// Of the device, port and GID that are asked for, those of `family`; on RoCE these are the interface's
// addresses. Empty: any will do, and where it leads is to be compared with Options::device afterwards.
// Errors: ENODEV, the GID is not there or is no IP address.
Result<tcp::Endpoints> source_addresses(const Options& options, int family);

// The IP address that a RoCE GID stands for (InfiniBand Architecture release 1.4 annex A17), if it is one
// that can be connected from: IPv4 as ::ffff:a.b.c.d, else IPv6, link-local with its interface.
std::optional<tcp::Endpoint> address_of_gid(const uint8_t (&gid)[16], unsigned interface);

}  // namespace nfsrdma::fabric::verbs

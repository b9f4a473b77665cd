// SPDX-License-Identifier: Apache-2.0
// Family: which kind of addresses a host may be reached by.
#pragma once

#include <cstdint>

namespace nfsrdma::net {

enum class Family : uint8_t { kAny, kIpv4, kIpv6 };

}  // namespace nfsrdma::net

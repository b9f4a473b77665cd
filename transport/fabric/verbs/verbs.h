// SPDX-License-Identifier: Apache-2.0
// RDMA through a device (rdma-core: librdmacm, libibverbs): InfiniBand, RoCE, iWARP, with any provider.
//
// The connection manager finds devices, ports and paths from IP addresses; Options restrict the choice.
// Exposed memory is fenced by type 2 memory windows, or, if a device has none, by one registration for each
// exposure (exposures.h).
//
// No verbs object survives a fork: make_shared_domains() must not be called before the process has become a
// daemon.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/fabric/fabric.h"
#include "transport/fabric/verbs/options.h"

namespace nfsrdma::fabric::verbs {

class Domains;

// What the fabrics of one mount or server share on all their loops: devices, and memory registered with them.
// Any thread. `pool` outlives it, and it outlives endpoints.
std::shared_ptr<Domains> make_shared_domains(BufferPool& pool);

// How many bytes of the pool's memory can stay registered with every device in use. A device shows its limit
// when it refuses more (RLIMIT_MEMLOCK). UINT64_MAX: no device has refused.
uint64_t registrable_bytes(Domains& domains);

// Endpoints may outlive the fabric.
std::unique_ptr<Fabric> make_fabric(Loop& loop, Options options, std::shared_ptr<Domains> domains);

// The names of this machine's RDMA devices.
std::vector<std::string> devices();
// What `wanted` requires and this machine lacks, as a text for people; empty: nothing is missing.
std::string missing(const Options& wanted);

}  // namespace nfsrdma::fabric::verbs

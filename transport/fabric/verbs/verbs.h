// SPDX-License-Identifier: Apache-2.0
// RDMA through a device (rdma-core: librdmacm, libibverbs): InfiniBand, RoCE, iWARP; any provider.
//
// Devices, ports and paths are found by the connection manager from IP addresses; Options narrow that down.
// Exposed memory is fenced by type 2 memory windows, or where a device has none by a registration for each
// exposure (exposures.h).
//
// Nothing of verbs survives a fork: the first Shared is made after the process has become a daemon.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/fabric/fabric.h"
#include "transport/fabric/verbs/options.h"

namespace nfsrdma::fabric::verbs {

class Domains;

// What the fabrics of one mount, or server, have in common, whatever loop they are on: devices, and memory
// that is registered with them. Any thread. `pool` outlives it, and it outlives endpoints.
std::shared_ptr<Domains> make_shared_domains(BufferPool& pool);

// How much of the pool's memory can stay registered with every device in use, by what a device has refused so
// far (RLIMIT_MEMLOCK); UINT64_MAX: all that was wanted. Bytes.
uint64_t registrable_bytes(Domains& domains);

// Endpoints may outlive the fabric.
std::unique_ptr<Fabric> make_fabric(Loop& loop, Options options, std::shared_ptr<Domains> domains);

// The names of this machine's RDMA devices.
std::vector<std::string> devices();
// What is wanted of them and not there: "no RDMA device", "no RDMA device mlx5_0 (there is rxe0)"; empty: all
// is there.
std::string missing(const Options& wanted);

}  // namespace nfsrdma::fabric::verbs

// SPDX-License-Identifier: Apache-2.0
// make_rdma_transport(): RPC over RDMA to one server, over one fabric, for one loop.
//
// The RpcTransport is ClientTransport. This file's Dialer makes the fabric's connection and then agrees on a
// version, on the same connection if the server allows it (draft-cel-nfsv4-rpcrdma-version-two-09 section 7).
// What we learn about the server's versions is stored in a VersionMemory that the mount's transports share.
// The use of version 1 because the server lacks version 2 is logged once.
#pragma once

#include <memory>

#include "transport/fabric/fabric.h"
#include "transport/rdma/options.h"
#include "transport/rdma/version_memory.h"
#include "transport/rpc/rpc_transport.h"

namespace nfsrdma::rdma {

std::unique_ptr<rpc::RpcTransport> make_rdma_transport(Loop& loop, std::unique_ptr<fabric::Fabric> fabric,
                                                       RdmaOptions options,
                                                       std::shared_ptr<VersionMemory> memory,
                                                       BufferPool& pool, rpc::TransportHooks hooks);

}  // namespace nfsrdma::rdma

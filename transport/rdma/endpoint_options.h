// SPDX-License-Identifier: Apache-2.0
// What both ends of an RPC-over-RDMA connection request from their fabric.
#pragma once

#include "transport/fabric/fabric.h"
#include "xdr/rpcrdma/private_data.h"

namespace nfsrdma::rdma {

// Announces `ours`, with the R flag (remote invalidation) only if the fabric supports it, too.
inline fabric::EndpointOptions make_endpoint_options(size_t receive_bytes, unsigned receives,
                                                     const rpcrdma::private_data& ours) {
  fabric::EndpointOptions options;
  options.receive_bytes = receive_bytes;
  options.receives = receives;
  options.private_data = [ours](bool remote_invalidation) {
    rpcrdma::private_data said = ours;
    said.remote_invalidation &= remote_invalidation;
    const auto bytes = rpcrdma::encode(said);
    return ByteVector(bytes.begin(), bytes.end());
  };
  return options;
}

}  // namespace nfsrdma::rdma

// What either end of an RPC-over-RDMA connection asks its fabric for.
#pragma once

#include "transport/fabric/fabric.h"
#include "xdr/rpcrdma/private_data.h"

namespace nfsrdma::rdma {

inline fabric::EndpointOptions make_endpoint_options(size_t receive_bytes, unsigned receives,
                                                     const rpcrdma::private_data& ours) {
  fabric::EndpointOptions options;
  options.receive_bytes = receive_bytes;
  options.receives = receives;
  const auto bytes = rpcrdma::encode(ours);
  options.private_data.assign(bytes.begin(), bytes.end());
  return options;
}

}  // namespace nfsrdma::rdma

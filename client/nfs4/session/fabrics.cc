// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/fabrics.h"

#include "client/api/make_filesystem.h"
#include "client/nfs4/session/transport_options.h"
#include "transport/fabric/iwarp/iwarp.h"
#include "transport/rdma/rdma_transport.h"

namespace nfsrdma::client::nfs4 {

std::unique_ptr<fabric::Fabric> make_fabric(Loop& loop, const ClientOptions& options,
                                            const std::shared_ptr<fabric::verbs::Domains>& domains) {
  if (options.transport == TransportKind::kRdmaDevice)
    return fabric::verbs::make_fabric(loop, options.verbs, domains);
  fabric::iwarp::Options iwarp;
  iwarp.timeo = options.timeo;
  iwarp.retrans = options.retrans;
  return fabric::iwarp::make_fabric(loop, iwarp);
}

}  // namespace nfsrdma::client::nfs4

namespace nfsrdma::client {

std::unique_ptr<rpc::RpcTransport> make_rdma_transport(Loop& loop, BufferPool& buffers,
                                                       const ClientOptions& options) {
  return rdma::make_rdma_transport(
      loop, nfs4::make_fabric(loop, options, fabric::verbs::make_shared_domains(buffers)),
      nfs4::rdma_options(options), std::make_shared<rdma::VersionMemory>(), buffers, rpc::TransportHooks{});
}

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
#include "client/fabrics.h"

#include "transport/fabric/iwarp/iwarp.h"

namespace nfsrdma::client {

std::unique_ptr<fabric::Fabric> make_fabric(Loop& loop, const ClientOptions& options,
                                            const std::shared_ptr<fabric::verbs::Domains>& domains) {
  if (options.transport == TransportKind::kRdmaDevice)
    return fabric::verbs::make_fabric(loop, options.verbs, domains);
  fabric::iwarp::Options iwarp;
  iwarp.timeo = options.timeo;
  iwarp.retrans = options.retrans;
  return fabric::iwarp::make_fabric(loop, iwarp);
}

}  // namespace nfsrdma::client

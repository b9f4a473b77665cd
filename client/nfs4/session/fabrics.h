// SPDX-License-Identifier: Apache-2.0
// Makes the fabric that a mount's options select.
#pragma once

#include <memory>

#include "client/api/options.h"
#include "client/nfs4/protocol_types.h"
#include "transport/fabric/fabric.h"
#include "transport/fabric/verbs/verbs.h"

namespace nfsrdma::client::nfs4 {

// For kSoftwareRdma and kRdmaDevice. All loops of a mount share `domains`.
std::unique_ptr<fabric::Fabric> make_fabric(Loop& loop, const ClientOptions& options,
                                            const std::shared_ptr<fabric::verbs::Domains>& domains);

}  // namespace nfsrdma::client::nfs4

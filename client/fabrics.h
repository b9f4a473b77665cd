// SPDX-License-Identifier: Apache-2.0
// The fabric that a mount's options ask for.
#pragma once

#include <memory>

#include "client/options.h"
#include "transport/fabric/fabric.h"
#include "transport/fabric/verbs/verbs.h"

namespace nfsrdma::client {

// For kSoftwareRdma and kRdmaDevice. `domains`: one for all loops of the mount.
std::unique_ptr<fabric::Fabric> make_fabric(Loop& loop, const ClientOptions& options,
                                            const std::shared_ptr<fabric::verbs::Domains>& domains);

}  // namespace nfsrdma::client

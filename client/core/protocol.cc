// SPDX-License-Identifier: Apache-2.0
#include "client/core/protocol.h"

#include <utility>

#include "client/core/names/listing.h"

namespace nfsrdma::client {

Task<Result<uint32_t>> Protocol::ask_access_and_list(RequestContext ctx, Listing& listing, uint32_t wanted,
                                                     bool) {
  co_return co_await ask_access(std::move(ctx), listing.node, wanted);
}

}  // namespace nfsrdma::client

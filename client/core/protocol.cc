// SPDX-License-Identifier: Apache-2.0
#include "client/core/protocol.h"

#include <utility>

#include "client/core/names/listing.h"

namespace nfsrdma::client {

Task<Result<ListOutcome>> Protocol::list_with_access(RequestContext ctx, const Listing& listing, bool plus,
                                                     bool) {
  return list(std::move(ctx), listing, 0, plus);
}

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// Errors of the verbs fabric: layer transport, kReconnect.
#pragma once

#include <string>
#include <utility>

#include "xdr/support/error.h"

namespace nfsrdma::fabric::verbs {

inline Error rdma_error(int errnum, const char* op, std::string cause,
                        SourceLocation where = SourceLocation::current()) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kReconnect,
          .errnum = errnum,
          .op = op,
          .cause = std::move(cause),
          .where = where};
}

// The errno in the result of a provider's function: some return it negative, as the kernel does (libcxgb4).
inline int errno_from_provider(int result) {
  return result < 0 ? -result : result;
}

}  // namespace nfsrdma::fabric::verbs

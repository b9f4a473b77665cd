// Errors of the verbs fabric: layer transport, and a new connection is worth trying.
#pragma once

#include <string>
#include <utility>

#include "xdr/support/error.h"

namespace nfsrdma::fabric::verbs {

inline Error rdma_error(int errnum, const char* op, std::string cause,
                        SourceLocation where = SourceLocation::current()) {
  return {Layer::kTransport, Recovery::kReconnect, errnum, 0, op, std::move(cause), where};
}

}  // namespace nfsrdma::fabric::verbs

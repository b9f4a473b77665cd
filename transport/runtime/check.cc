// SPDX-License-Identifier: Apache-2.0
#include "transport/runtime/check.h"

#include <cstdlib>

#include "transport/runtime/log.h"

namespace nfsrdma {

void check_failed(const char* condition, const char* file, int line) {
  log::error("internal error: {} does not hold ({}:{}); the program ends here", condition, file, line);
  std::abort();
}

}  // namespace nfsrdma

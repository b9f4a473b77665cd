// SPDX-License-Identifier: Apache-2.0
#include "filer/state/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "transport/runtime/log.h"

namespace nfsrdma::filer::state {

void fill_random(MutableBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = getrandom(bytes.data(), bytes.size(), 0);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      log::error("filer: getrandom: {}", std::strerror(errno));
      std::abort();
    }
  }
}

}  // namespace nfsrdma::filer::state

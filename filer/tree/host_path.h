// SPDX-License-Identifier: Apache-2.0
// The name under which a descriptor's object can be named to a system call that takes only names: also for
// O_PATH descriptors, without following anything of the object's own. Pure.
#pragma once

#include <string>

namespace nfsrdma::filer {

inline std::string host_path(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

}  // namespace nfsrdma::filer

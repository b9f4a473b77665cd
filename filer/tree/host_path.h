// SPDX-License-Identifier: Apache-2.0
// A path to a descriptor's object, for system calls that accept only paths. It also works for O_PATH
// descriptors and does not follow the object if that is a symbolic link. Pure.
#pragma once

#include <string>

namespace nfsrdma::filer::tree {

inline std::string host_path(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

}  // namespace nfsrdma::filer::tree

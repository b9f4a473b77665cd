// SPDX-License-Identifier: Apache-2.0
// What can be the name of a directory entry.
#pragma once

#include <string>

namespace nfsrdma::client {

// False for names that must never reach a server as a component. The kernel sends none of these.
inline bool valid_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// What can be the name of a directory entry.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>

#include "xdr/support/error.h"
#include "xdr/support/result.h"

namespace nfsrdma::client {

// False for names that must never reach a server as a component. The kernel sends none of these.
inline bool valid_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// For the name of a new object. EINVAL; ENAMETOOLONG beyond `name_max` bytes.
inline Result<> check_new_name(const std::string& name, uint32_t name_max, const char* op) {
  if (!valid_name(name)) return fail(system_error(EINVAL, op));
  if (name.size() > name_max) return fail(system_error(ENAMETOOLONG, op));
  return {};
}

}  // namespace nfsrdma::client

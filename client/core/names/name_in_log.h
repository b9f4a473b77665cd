// SPDX-License-Identifier: Apache-2.0
// How the log names a file: by its inode, and from log_level=debug on by its name, if it is known.
#pragma once

#include <cstdint>
#include <string>

#include "client/core/names/name_cache.h"

namespace nfsrdma::client {

// The Node's mutex is not taken.
std::string called(NameCache& names, Node& node, uint64_t ino);
// The end of a line about the file: how to find its name, unless the line has it.
std::string how_to_find(NameCache& names, Node& node, uint64_t ino);

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
// ListedEntry: one entry of a directory as the server listed it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client/filesystem.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::client {

struct ListedEntry {
  std::string name;
  uint64_t cookie = 0;
  uint64_t ino = 0;
  uint32_t type = 0;  // S_IFMT bits; 0: not known
  // With attributes and a file handle, to be looked up no more.
  bool complete = false;
  nfs4::nfs_fh4 fh{};  // in place: a string of its own for each would come from memory no cache holds
  uint32_t export_index = 0;
  Attributes attributes;

  std::string_view handle() const { return as_string_view(fh.bytes()); }
};

}  // namespace nfsrdma::client

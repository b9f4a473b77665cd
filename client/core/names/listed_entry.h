// SPDX-License-Identifier: Apache-2.0
// ListedEntry: one entry of a directory as the server listed it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client/api/filesystem.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::client {

struct ListedEntry {
  std::string name;
  uint64_t cookie = 0;
  uint64_t ino = 0;
  uint32_t type = 0;  // S_IFMT bits; 0: not known
  // It has attributes and a file handle, so no LOOKUP is needed.
  bool complete = false;
  nfs4::nfs_fh4 fh{};  // in place: a separate string per entry would miss the processor's cache
  uint32_t export_index = 0;
  Attributes attributes;

  std::string_view handle() const { return as_string_view(fh.bytes()); }
};

}  // namespace nfsrdma::client

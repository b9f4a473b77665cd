// ListedEntry: one entry of a directory as the server listed it.
#pragma once

#include <cstdint>
#include <string>

#include "client/filesystem.h"

namespace nfsrdma::client {

struct ListedEntry {
  std::string name;
  uint64_t cookie = 0;
  uint64_t ino = 0;
  uint32_t type = 0;  // S_IFMT bits; 0: not known
  // With attributes and a file handle, to be looked up no more.
  bool complete = false;
  std::string handle;
  uint32_t export_index = 0;
  Attributes attributes;
};

}  // namespace nfsrdma::client

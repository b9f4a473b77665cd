// SPDX-License-Identifier: Apache-2.0
// HostExport: a directory of the host as an export, and the key its filehandles are sealed with. Values.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace nfsrdma::filer {

enum class Squash : uint8_t {
  kNone,  // callers are who they say they are
  kRoot,  // user 0 is nobody (65534)
};

struct HostExport {
  std::string path;       // in the server's name space, absolute, not "/"
  std::string directory;  // on the host
  bool read_only = false;
  // Where the server may act as its callers, that is as root. Otherwise every caller is the user it runs as.
  Squash squash = Squash::kRoot;
  // Changes reach the disk before they are answered; else whenever the host likes (but for COMMIT and stable
  // WRITEs).
  bool sync = true;
  // How many objects may have descriptors at a time; 0: as RLIMIT_NOFILE allows.
  size_t most_with_descriptors = 0;
  size_t exports = 1;  // which share that limit
};

// A secret of the server: without it nobody can make a filehandle of a file he was not given one of.
using HandleKey = std::array<uint64_t, 2>;

}  // namespace nfsrdma::filer

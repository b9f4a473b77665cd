// SPDX-License-Identifier: Apache-2.0
// HostExport: a host's directory as an export, and the key that seals its filehandles. Values.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace nfsrdma::filer::tree {

enum class Squash : uint8_t {
  kNone,  // callers keep the user that they claim to be
  kRoot,  // user 0 becomes nobody (65534)
};

struct HostExport {
  std::string path;       // absolute path in the server's name space; not "/"
  std::string directory;  // on the host
  bool read_only = false;
  // Applies if the server runs as root and so can act as its callers. Otherwise every caller is the server's
  // own user.
  Squash squash = Squash::kRoot;
  // Changes reach the disk before they are answered. False: the host decides when, except for COMMIT and
  // stable WRITEs.
  bool sync = true;
  // Limit for the number of objects with open descriptors; 0: derived from RLIMIT_NOFILE.
  size_t most_with_descriptors = 0;
  size_t exports = 1;  // number of exports that share that limit
};

// A secret of the server. Without it nobody can forge the filehandle of a file.
using HandleKey = std::array<uint64_t, 2>;

}  // namespace nfsrdma::filer::tree

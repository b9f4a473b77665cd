// SPDX-License-Identifier: Apache-2.0
// Believed: the peers whose AUTH_SYS credentials a server accepts. peer_check.h applies it.
#pragma once

#include <cstdint>

namespace nfsrdma::filer::links {

enum class Believed : uint8_t {
  kEverybody,
  kReservedPorts,  // peers that connect from a port below 1024
  kOwnUser,        // on this machine only processes of the server's own user; from other machines all peers
};

}  // namespace nfsrdma::filer::links

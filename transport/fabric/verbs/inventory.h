// SPDX-License-Identifier: Apache-2.0
// What this machine's RDMA devices are and in which state their ports are, for people who look for a fault.
// Opens each device for a moment; changes nothing. Not on a loop: a driver may take its time.
#pragma once

#include <string>
#include <vector>

namespace nfsrdma::fabric::verbs {

struct PortReport {
  std::string device;
  unsigned port = 0;    // from 1; 0: the device cannot be opened, see `error`
  std::string state{};  // as libibverbs calls it: "PORT_ACTIVE"
  bool active = false;
  std::string link_layer{};  // "Ethernet", "InfiniBand"
  unsigned mtu = 0;          // bytes, in use
  unsigned largest_mtu = 0;
  int error = 0;  // errno
};

std::vector<PortReport> inventory();

}  // namespace nfsrdma::fabric::verbs

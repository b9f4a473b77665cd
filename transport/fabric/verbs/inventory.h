// SPDX-License-Identifier: Apache-2.0
// A report on this machine's RDMA devices and the state of their ports, for people who look for a fault.
// Opens each device for a moment and changes nothing. Not on a loop: a driver may be slow.
#pragma once

#include <string>
#include <vector>

namespace nfsrdma::fabric::verbs {

struct PortReport {
  std::string device;
  unsigned port = 0;    // from 1; 0: the device cannot be opened, see `error`
  std::string state{};  // libibverbs' name: "PORT_ACTIVE"
  bool active = false;
  std::string link_layer{};  // "Ethernet", "InfiniBand"
  unsigned mtu = 0;          // bytes, in use
  unsigned largest_mtu = 0;
  int error = 0;  // errno
};

std::vector<PortReport> inventory();

}  // namespace nfsrdma::fabric::verbs

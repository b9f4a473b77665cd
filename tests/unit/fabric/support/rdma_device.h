// SPDX-License-Identifier: Apache-2.0
// An RDMA device of this machine with an address to test over, or what is missing for that. tests/interop has
// a machine with such a device.
#pragma once

#include <sys/socket.h>

#include <string>

namespace nfsrdma::test {

struct RdmaDevice {
  std::string name;
  std::string address;
  std::string lacking;  // empty: a device was found
};

// With an address of this family (AF_INET, AF_INET6) that leads the connection manager to the device.
RdmaDevice find_rdma_device(int family);

}  // namespace nfsrdma::test

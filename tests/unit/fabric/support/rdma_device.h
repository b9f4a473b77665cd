// SPDX-License-Identifier: Apache-2.0
// An RDMA device of this machine with an address to test over, or what is missing for one. tests/interop has
// a machine that has one.
#pragma once

#include <sys/socket.h>

#include <string>

namespace nfsrdma::test {

struct RdmaDevice {
  std::string name;
  std::string address;
  std::string lacking;  // empty: it is there
};

// With an address of this family (AF_INET, AF_INET6) that the connection manager finds it by.
RdmaDevice find_rdma_device(int family);

}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// A fake RDMA device: the functions in fake_device.cc replace those of libibverbs and librdmacm that
// transport/fabric/verbs calls, inside the test's process. It is for the behaviour of drivers that a guest's
// software devices do not show: refusing requests, lacking features, running out of resources.
//
// Every address leads to this device, and every peer accepts; there is no real peer. Posted requests are kept
// and complete when the test says so; the end of a queue pair flushes its Receives. One at a time; it
// outlives its users. Set it up before use, or on the loop that uses it.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "transport/net/endpoint.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::test {

struct FakeDevice {
  struct Posted {
    uint64_t id = 0;
    ibv_wr_opcode opcode{};
    bool signalled = false;
    bool has_list = false;  // sg_list is set; with num_sge == 0 nobody may read it
  };

  FakeDevice();
  ~FakeDevice();
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  // A peer asks the listener for a connection.
  void ask();
  // Completes the last posted request that asked for a completion, and everything before it.
  void complete();

  ibv_context context{};
  ibv_device_attr attributes{};
  size_t may_lock = SIZE_MAX;  // limit in bytes; registered of these:
  size_t locked = 0;
  unsigned windows = 0;  // existing ones

  // The result of ibv_post_send() for this request; 0: accepted. post_recv_returns is the result of
  // ibv_post_recv().
  std::function<int(const ibv_send_wr&)> on_post_send = [](const ibv_send_wr&) { return 0; };
  int post_recv_returns = 0;
  ibv_qp_state state_of_pairs = IBV_QPS_RTS;
  // The errno of rdma_bind_addr().
  std::function<int(const net::Endpoint&)> on_bind = [](const net::Endpoint&) { return 0; };
  std::function<void()> on_destroy_id = [] {};
  bool peers_establish = true;  // false: the peer never confirms the connection

  std::vector<Posted> posted;
  std::vector<net::Endpoint> bound;  // in the order of the calls
  std::vector<ByteVector> said;      // private data of connect and accept calls
  unsigned ids = 0;                  // existing ones
  unsigned domains = 0;              // existing protection domains
};

}  // namespace nfsrdma::test

// SPDX-License-Identifier: Apache-2.0
// An RDMA device that is not there: what transport/fabric/verbs asks of libibverbs and librdmacm is answered
// within the test's process, by the functions of these names in fake_device.cc. For what drivers do that the
// software devices of a guest do not: refuse, lack, run out.
//
// Every address leads to it, and every peer accepts; nobody is there. What is posted is kept, and completes
// when the test says so; the end of a queue pair flushes its Receives. One at a time; it outlives what uses
// it. Set it up before, or on the loop that uses it.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "transport/tcp/endpoint.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::test {

struct FakeDevice {
  struct Posted {
    uint64_t id = 0;
    ibv_wr_opcode opcode{};
    bool signalled = false;
    bool has_list = false;  // sg_list, which num_sge == 0 gives nobody the right to read
  };

  FakeDevice();
  ~FakeDevice();
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  // A peer asks the one who listens.
  void ask();
  // What was posted last, and has asked for it, is over, and so is all before it.
  void complete();

  ibv_context context{};
  ibv_device_attr attributes{};
  size_t may_lock = SIZE_MAX;  // bytes of memory; of these are registered:
  size_t locked = 0;
  unsigned windows = 0;  // there are

  // What an ibv_post_send() of this request returns, 0: it is taken. Likewise ibv_post_recv().
  std::function<int(const ibv_send_wr&)> on_post_send = [](const ibv_send_wr&) { return 0; };
  int post_recv_returns = 0;
  ibv_qp_state state_of_pairs = IBV_QPS_RTS;
  // errno of an rdma_bind_addr().
  std::function<int(const tcp::Endpoint&)> on_bind = [](const tcp::Endpoint&) { return 0; };
  std::function<void()> on_destroy_id = [] {};
  bool peers_establish = true;  // else who asked never says that the connection stands

  std::vector<Posted> posted;
  std::vector<tcp::Endpoint> bound;  // as it was asked for
  std::vector<ByteVector> said;      // private data, of those who connected and accepted
  unsigned ids = 0;                  // there are
  unsigned domains = 0;              // protection domains, there are
};

}  // namespace nfsrdma::test

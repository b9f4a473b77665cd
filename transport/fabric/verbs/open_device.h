// SPDX-License-Identifier: Apache-2.0
// OpenDevice: a device as librdmacm has opened it for this process, and how it is let go when it is removed.
//
// librdmacm opens a device with the first identifier there, and closes it when it next looks at the list of
// devices and misses it; while there is no device at all it does not look (rdma-core 44, 2026-11). Linux'
// drivers for software devices (rxe and siw of 6.1) cannot take a device from a program: there the removal
// waits until nobody has it open, and nobody can be told why. So when the connection manager has told of a
// removal, and nothing here uses the device any more, both of its descriptors become others, which closes it
// for the kernel; librdmacm closes these in its time. While nothing is connected a witness is told of it
// (connecting.h).
//
// Owners: everything that uses the device (CmId, Domain), together. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>

namespace nfsrdma::fabric::verbs {

class OpenDevice {
 public:
  explicit OpenDevice(ibv_context* context) : context_(context) {}
  ~OpenDevice();
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;

  ibv_context* context() const { return context_; }
  void set_removed() { removed_.store(true, std::memory_order_relaxed); }

 private:
  ibv_context* const context_;
  std::atomic<bool> removed_{false};
};

}  // namespace nfsrdma::fabric::verbs

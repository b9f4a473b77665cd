// SPDX-License-Identifier: Apache-2.0
// OpenDevice: a device that librdmacm has opened for this process, and how it is closed when it is removed.
//
// librdmacm opens a device with the first identifier on it. It closes the device when it next reads the list
// of devices and does not find it there; while there is no device at all, it does not read the list
// (rdma-core 44, 2026-11). Linux' drivers for software devices (rxe and siw of 6.1) cannot take a device from
// a program: its removal waits until no program has it open, and no program is told the reason. So when the
// connection manager has reported a removal and nothing here uses the device any more, both of its
// descriptors are replaced by others. That closes the device for the kernel; librdmacm closes the
// replacements later. While nothing is connected, a witness receives the report (connecting.h).
//
// Owners: shared by everything that uses the device (CmId, Domain). Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>

namespace nfsrdma::fabric::verbs {

// 0: a value that verbs does not define.
constexpr unsigned mtu_bytes(ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << static_cast<unsigned>(mtu) : 0;
}

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

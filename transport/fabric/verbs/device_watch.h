// SPDX-License-Identifier: Apache-2.0
// DeviceWatch: receives a device's asynchronous events on a loop. IBV_EVENT_DEVICE_FATAL ends all connections
// of the device. Events of queue pairs are ignored: their completions and the connection manager report the
// same. Every loop that uses the device has a DeviceWatch; the one that wakes first takes the event, for all
// of them.
//
// Owner: shared by the endpoints of its loop. Loop thread only.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <memory>

#include "transport/fabric/verbs/domain.h"

namespace nfsrdma::fabric::verbs {

class DeviceWatch final : public std::enable_shared_from_this<DeviceWatch> {
 public:
  static std::shared_ptr<DeviceWatch> make(Loop& loop, const std::shared_ptr<Domain>& domain);

 private:
  DeviceWatch(Loop& loop, const std::shared_ptr<Domain>& domain, int fd);
  void wait();
  bool drain();

  const std::weak_ptr<Domain> domain_;
  asio::posix::stream_descriptor descriptor_;  // a duplicate of the device's
};

}  // namespace nfsrdma::fabric::verbs

// SPDX-License-Identifier: Apache-2.0
// DeviceWatch: listens, on a loop, to what a device says of itself. IBV_EVENT_DEVICE_FATAL ends all its
// connections; the events of queue pairs tell nothing that their completions, and the connection manager, do
// not. Every loop that uses the device has one; whichever wakes first takes the event, for all.
//
// Owner: the endpoints of its loop together. Loop thread only.
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

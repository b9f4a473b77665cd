// SPDX-License-Identifier: Apache-2.0
// ServerAddress: which of a server's addresses a mount uses. A name may stand for several machines, and a
// session lives on one: the first connection looks the name up and says where it went, the others go there.
//
// Owner: the mount's transports together. Any loop.
#pragma once

#include <mutex>
#include <optional>

#include "transport/tcp/endpoint.h"

namespace nfsrdma::tcp {

class ServerAddress {
 public:
  std::optional<Endpoint> get() const {
    std::lock_guard lock(mutex_);
    return endpoint_;
  }
  void set(const Endpoint& endpoint) {
    std::lock_guard lock(mutex_);
    endpoint_ = endpoint;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Endpoint> endpoint_;
};

}  // namespace nfsrdma::tcp

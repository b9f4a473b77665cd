// SPDX-License-Identifier: Apache-2.0
// ServerAddress: the address of a server that a mount uses. A name may stand for several machines, and a
// session lives on one of them. The first connection looks up the name and stores its address here; the other
// connections use that address.
//
// Owner: shared by the mount's transports. Any loop.
#pragma once

#include <optional>

#include "transport/net/endpoint.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::net {

class ServerAddress {
 public:
  std::optional<Endpoint> get() const {
    MutexLock lock(mutex_);
    return endpoint_;
  }
  void set(const Endpoint& endpoint) {
    MutexLock lock(mutex_);
    endpoint_ = endpoint;
  }

 private:
  mutable Mutex mutex_;
  std::optional<Endpoint> endpoint_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::net

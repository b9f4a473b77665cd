// VersionMemory: what was learnt of a server's RPC-over-RDMA versions, so that a reconnect does not ask again
// what had cost the last connection (draft-cel-nfsv4-rpcrdma-version-two-09 section 7.2: a client that loses
// its connection to the first message must not try version 2 there for ever). Forgotten after a while:
// servers are updated.
//
// Owner: the mount's transports together. Any loop.
#pragma once

#include <mutex>
#include <optional>

#include "transport/runtime/loop.h"

namespace nfsrdma::rdma {

class VersionMemory {
 public:
  static constexpr Duration kExpiry = std::chrono::minutes(15);

  bool lacks_version2(TimePoint now) const {
    std::lock_guard lock(mutex_);
    return learnt_ && now - *learnt_ < kExpiry;
  }
  void note_lacks_version2(TimePoint now) {
    std::lock_guard lock(mutex_);
    learnt_ = now;
  }
  void note_has_version2() {
    std::lock_guard lock(mutex_);
    learnt_.reset();
  }

 private:
  mutable std::mutex mutex_;
  std::optional<TimePoint> learnt_;
};

}  // namespace nfsrdma::rdma

// SPDX-License-Identifier: Apache-2.0
// VersionMemory: which RPC-over-RDMA versions a server is known to lack. A reconnect then does not repeat a
// question that ended the last connection (draft-cel-nfsv4-rpcrdma-version-two-09 section 7.2: a client whose
// first message ends the connection must not try version 2 there for ever). The knowledge expires, because
// servers are updated.
//
// Owner: shared by the mount's transports and its attempts to connect. Any loop.
#pragma once

#include <optional>
#include <string>

#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::rdma {

class VersionMemory {
 public:
  static constexpr Duration kExpiry = std::chrono::minutes(15);

  bool lacks_version2(TimePoint now) const {
    MutexLock lock(mutex_);
    return learnt_ && now - *learnt_ < kExpiry;
  }
  // True if this reason is new and should be logged.
  bool note_lacks_version2(TimePoint now, std::string reason) {
    MutexLock lock(mutex_);
    learnt_ = now;
    const bool changed = reason != reason_;
    reason_ = std::move(reason);
    return changed;
  }
  void note_has_version2() {
    MutexLock lock(mutex_);
    learnt_.reset();
    reason_.clear();
  }
  // Why version 2 is not used; empty: nothing is known.
  std::string reason() const {
    MutexLock lock(mutex_);
    return reason_;
  }

 private:
  mutable Mutex mutex_;
  std::optional<TimePoint> learnt_ NFSRDMA_GUARDED_BY(mutex_);
  std::string reason_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::rdma

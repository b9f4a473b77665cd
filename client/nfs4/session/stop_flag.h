// SPDX-License-Identifier: Apache-2.0
// StopFlag: whether the session is being stopped, and pauses that end when it is. Owned by the Session; any
// thread.
#pragma once

#include <algorithm>
#include <atomic>

#include "client/nfs4/protocol_types.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::client::nfs4 {

class StopFlag {
 public:
  void raise() { raised_.store(true); }
  bool raised() const { return raised_.load(std::memory_order_relaxed); }
  // Pauses for `d`, or until at most 0.1 s after raise().
  Task<> pause(Duration d) const {
    constexpr Duration kSlice = std::chrono::milliseconds(100);
    for (const TimePoint end = Clock::now() + d; !raised();) {
      const TimePoint now = Clock::now();
      if (now >= end) co_return;
      co_await Loop::current()->sleep(std::min<Duration>(end - now, kSlice));
    }
  }

 private:
  std::atomic<bool> raised_{false};
};

}  // namespace nfsrdma::client::nfs4

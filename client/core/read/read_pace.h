// SPDX-License-Identifier: Apache-2.0
// ReadPace: how many bytes of READs must be in flight so that the path to the server is never idle: bandwidth
// × delay. Both are measured from the replies to READs.
//
// Bandwidth is the highest recent rate. The rate of a READ is the bytes that this mount received between
// sending it and its reply, divided by that time. The window is two round trips of bandwidth. So the window
// doubles until the bandwidth stops growing, and then at most one round trip of data waits in queues on the
// path.
//
// Delay is the shortest time of a READ while the path was not full. On a full path every READ waits behind
// earlier ones, and a delay measured there would let the window grow without limit. So the shortest delay is
// remembered for kProbeEach. Then the window shrinks to half of bandwidth × delay for a few round trips: the
// queues drain, and the delay is measured again.
//
// If the wait for a reply is below kWorthwhile, nothing is read ahead: read-ahead data passes through the
// daemon's memory, which is one copy more than splice, and the kernel's own read-ahead covers a short wait.
// The wait does not include the time that the bytes take on this machine (kLocalNanoseconds each). Both
// values were chosen, not measured.
//
// One per mount, any thread, one short lock. Time is a parameter.
#pragma once

#include <cstdint>

#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

class ReadPace {
 public:
  static constexpr Duration kMemory = std::chrono::seconds(2);  // "recent": one to two of these
  static constexpr Duration kProbeEach = std::chrono::seconds(10);
  static constexpr Duration kWorthwhile = std::chrono::microseconds(500);
  static constexpr uint64_t kLocalNanoseconds = 1;

  struct Sent {
    TimePoint at{};
    uint64_t delivered = 0;
  };
  Sent sending(TimePoint now) const;
  void answered(const Sent& sent, uint64_t bytes, TimePoint now);

  // In bytes. 0: read-ahead is not worthwhile, or nothing was measured yet.
  uint64_t window(TimePoint now) const;

 private:
  struct Period {
    Duration wait = Duration::max();  // the shortest, without the bytes' time on this machine
    double rate = 0;                  // bytes per second
  };
  void begin_period(TimePoint now) const NFSRDMA_REQUIRES(mutex_);
  bool probing(TimePoint now) const NFSRDMA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  uint64_t delivered_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  mutable Period now_ NFSRDMA_GUARDED_BY(mutex_), before_ NFSRDMA_GUARDED_BY(mutex_);
  mutable TimePoint since_ NFSRDMA_GUARDED_BY(mutex_){};  // start of now_
  mutable Duration delay_ NFSRDMA_GUARDED_BY(mutex_) = Duration::max();
  mutable Duration probed_ NFSRDMA_GUARDED_BY(mutex_) = Duration::max();
  // READs sent after this time found the path empty.
  mutable TimePoint empty_at_ NFSRDMA_GUARDED_BY(mutex_){};
  // Start of the next probe; end of the present one.
  mutable TimePoint probe_at_ NFSRDMA_GUARDED_BY(mutex_){}, probe_until_ NFSRDMA_GUARDED_BY(mutex_){};
};

}  // namespace nfsrdma::client

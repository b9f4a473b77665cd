// SPDX-License-Identifier: Apache-2.0
// ReadPace: how much must be asked for at once so that the way to the server is never idle: bandwidth ×
// delay, both measured from READs as they are answered.
//
// Bandwidth is the highest rate lately: for each READ, what was delivered to this mount between its sending
// and its answer, by the time between. Two round trips' worth is asked for, so that measuring what one window
// brings doubles it until bandwidth stops growing; no more than that waits in queues on the way.
//
// Delay is the shortest time that a READ took while the way was not full. A way that is kept full shows none
// that short: what is asked for waits behind itself, and a delay measured there would make the window grow
// without end. So the shortest one is remembered for kProbeEach, and then the window is halved below
// bandwidth × delay for a few round trips, in which the queues empty and it is measured anew.
//
// Where the wait for an answer is less than kWorthwhile nothing is read ahead: that brings the data through
// our memory, a copy more than splicing it, and the kernel's own window covers a short wait. Not counted as
// waiting is what the bytes take where the server is this machine (kLocalNanoseconds for each). Both values
// are chosen.
//
// One per mount, any thread, one short lock. Time comes in as a parameter.
#pragma once

#include <cstdint>
#include <mutex>

#include "transport/runtime/loop.h"

namespace nfsrdma::client {

class ReadPace {
 public:
  static constexpr Duration kMemory = std::chrono::seconds(2);  // "lately": between one and two of these
  static constexpr Duration kProbeEach = std::chrono::seconds(10);
  static constexpr Duration kWorthwhile = std::chrono::microseconds(500);
  static constexpr uint64_t kLocalNanoseconds = 1;

  struct Sent {
    TimePoint at{};
    uint64_t delivered = 0;
  };
  Sent sending(TimePoint now) const;
  void answered(const Sent& sent, uint64_t bytes, TimePoint now);

  // Bytes; 0: reading ahead is not worth it, or nothing is known yet.
  uint64_t window(TimePoint now) const;

 private:
  struct Period {
    Duration wait = Duration::max();  // the shortest, without what the bytes take anywhere
    double rate = 0;                  // bytes per second
  };
  // With the lock held.
  void turn(TimePoint now) const;
  bool probing(TimePoint now) const;

  mutable std::mutex mutex_;
  uint64_t delivered_ = 0;
  mutable Period now_, before_;
  mutable TimePoint since_{};  // now_
  mutable Duration delay_ = Duration::max(), probed_ = Duration::max();
  mutable TimePoint empty_at_{};                  // READs that were sent since then have found the way empty
  mutable TimePoint probe_at_{}, probe_until_{};  // the next one, or the present one
};

}  // namespace nfsrdma::client

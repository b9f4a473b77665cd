// ReadPace: how much must be asked for at once so that the way to the server is never idle: bandwidth ×
// delay, both measured from READs as they are answered.
//
// Delay is the shortest time a READ took lately, bandwidth the highest rate lately: for each READ, what was
// delivered to this mount between its sending and its answer, by the time between. Two round trips' worth is
// asked for, so that measuring what one window brings doubles it until bandwidth stops growing; no more than
// that waits in queues on the way.
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
    Duration delay = Duration::max();
    Duration wait = Duration::max();  // of it: without what the bytes take anywhere
    double rate = 0;                  // bytes per second
  };
  void turn(TimePoint now) const;  // with the lock held

  mutable std::mutex mutex_;
  uint64_t delivered_ = 0;
  mutable Period now_, before_;
  mutable TimePoint since_{};
};

}  // namespace nfsrdma::client

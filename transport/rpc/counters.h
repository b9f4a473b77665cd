// SPDX-License-Identifier: Apache-2.0
// Counters for TransportStatus. The transport's loop alone writes them; any thread may read them.
#pragma once

#include <atomic>
#include <cstdint>

namespace nfsrdma::rpc {

// One writer: adding needs no locked instruction.
class Counter {
 public:
  void add(uint64_t n = 1) { value_.store(get() + n, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

struct Counters {
  Counter calls;
  Counter replies;
  Counter retransmissions;
  Counter connects;
  Counter bytes_sent;
  Counter bytes_received;
  Counter bytes_placed;
  Counter bytes_spliced;
  Counter bytes_copied;
  Counter bad_messages;
};

}  // namespace nfsrdma::rpc

// SPDX-License-Identifier: Apache-2.0
// OperationCounters: counts requests by operation, without a lock. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "client/api/statistics.h"
#include "transport/runtime/latency_histogram.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::client {

class OperationCounters {
 public:
  static constexpr uint32_t kOperations = 76;  // OP_ACCESS ... OP_REMOVEXATTR

  struct Sample {
    bool error = false;
    unsigned transmissions = 1;
    size_t sent = 0;
    size_t received = 0;
    Duration queue{};
    Duration response{};
  };

  // By default the names of NFSv4's operations.
  using NameOf = std::string (*)(uint32_t op);
  OperationCounters();
  explicit OperationCounters(NameOf name_of) : name_of_(name_of) {}

  void add(uint32_t op, const Sample& sample);
  std::vector<OperationStatistics> snapshot() const;

 private:
  struct Counter {
    std::atomic<uint64_t> errors{0}, retransmissions{0}, sent{0}, received{0}, queue_us{0}, response_us{0},
        max_us{0};
    LatencyHistogram latency;  // its sum is the number of replies
  };
  const NameOf name_of_;
  std::array<Counter, kOperations> counters_;
};

}  // namespace nfsrdma::client

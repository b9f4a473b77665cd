// SPDX-License-Identifier: Apache-2.0
#include "client/core/operation_counters.h"

#include "xdr/nfs4/op.h"

namespace nfsrdma::client {
namespace {

uint64_t us(Duration d) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(d).count());
}

// Usually only a load, because it writes only a new maximum.
void raise(std::atomic<uint64_t>& most, uint64_t value) {
  uint64_t now = most.load(std::memory_order_relaxed);
  while (value > now && !most.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

OperationCounters::OperationCounters()
    : OperationCounters(
          [](uint32_t op) -> std::string { return nfs4::op_name(static_cast<nfs4::nfs_opnum4>(op)); }) {}

void OperationCounters::add(uint32_t op, const Sample& s) {
  if (op >= kOperations) return;
  Counter& c = counters_[op];
  constexpr auto relaxed = std::memory_order_relaxed;
  c.latency.record_shared(s.response);
  if (s.error) c.errors.fetch_add(1, relaxed);
  if (s.transmissions > 1) c.retransmissions.fetch_add(s.transmissions - 1, relaxed);
  c.sent.fetch_add(s.sent, relaxed);
  c.received.fetch_add(s.received, relaxed);
  c.queue_us.fetch_add(us(s.queue), relaxed);
  c.response_us.fetch_add(us(s.response), relaxed);
  raise(c.max_us, us(s.response));
}

std::vector<OperationStatistics> OperationCounters::snapshot() const {
  std::vector<OperationStatistics> all;
  for (uint32_t op = 0; op < kOperations; ++op) {
    const Counter& c = counters_[op];
    OperationStatistics s;
    s.requests = c.latency.add_to(s.latency);
    if (s.requests == 0) continue;
    s.name = name_of_(op);
    s.errors = c.errors.load(std::memory_order_relaxed);
    s.retransmissions = c.retransmissions.load(std::memory_order_relaxed);
    s.bytes_sent = c.sent.load(std::memory_order_relaxed);
    s.bytes_received = c.received.load(std::memory_order_relaxed);
    s.queue_us = c.queue_us.load(std::memory_order_relaxed);
    s.response_us = c.response_us.load(std::memory_order_relaxed);
    s.max_us = c.max_us.load(std::memory_order_relaxed);
    s.total_us = s.queue_us + s.response_us;
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace nfsrdma::client

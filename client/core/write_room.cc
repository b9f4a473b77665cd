// SPDX-License-Identifier: Apache-2.0
#include "client/core/write_room.h"

#include <algorithm>

#include "transport/runtime/log.h"

namespace nfsrdma::client {
namespace {

using namespace std::chrono_literals;

// The smallest write limit in a container, if a quarter of its memory is less than WriteLimits::kLeast.
constexpr uint64_t kLeastOfSmall = 4u << 20;

// How long memory counts as short after an allocation failed.
constexpr Duration kMemoryShortFor = 2s;

}  // namespace

bool WriteRoom::note_memory_is_short() {
  const TimePoint until = Clock::now() + kMemoryShortFor;
  return short_until_.exchange(until.time_since_epoch().count()) == 0;
}

uint64_t WriteRoom::bytes_beside_data() const {
  const uint64_t all = buffers_.outstanding_bytes();
  return all - std::min(all, table_.data().bytes());
}

WriteLimits WriteRoom::fit_writes(uint64_t available) {
  const uint64_t kept = bytes_beside_data() + buffers_.idle_bytes();
  WriteLimits limits = WriteLimits::fitting(available, kept);
  // In a small container, WriteLimits::kLeast may be more than a quarter of the memory.
  if (const uint64_t total = options_.memory().total; total != 0 && total / 4 < limits.buffers())
    limits = WriteLimits(std::clamp((available + kept) / 4, kLeastOfSmall, limits.buffers()));
  write_limit_.store(limits.buffers(), std::memory_order_relaxed);
  return limits;
}

WriteLimits WriteRoom::write_limits() {
  const uint64_t known = write_limit_.load(std::memory_order_relaxed);
  return known != 0 ? WriteLimits(known) : fit_writes(options_.memory().available);
}

bool WriteRoom::keeps_too_much_memory() {
  // The buffers of writes that wait for room do not count: each caller has at most one.
  const uint64_t waiting = waiting_bytes_.load(std::memory_order_relaxed);
  return bytes_beside_data() > write_limits().buffers() + waiting;
}

bool WriteRoom::awaits_answers() {
  return written_.unanswered.load(std::memory_order_relaxed) > write_limits().unanswered() ||
         keeps_too_much_memory() || memory_is_short();
}

bool WriteRoom::keeps_too_much() {
  const uint64_t uncommitted = written_.uncommitted.load(std::memory_order_relaxed);
  return uncommitted > write_limits().uncommitted() ||
         (uncommitted != 0 && (keeps_too_much_memory() || memory_is_short()));
}

bool WriteRoom::memory_is_short() const {
  const int64_t until = short_until_.load(std::memory_order_relaxed);
  return until != 0 && Clock::now().time_since_epoch().count() < until;
}

void WriteRoom::note_memory_is_back() {
  int64_t until = short_until_.load();
  if (until == 0 || memory_is_short()) return;
  if (short_until_.compare_exchange_strong(until, 0))
    log::info("server {}: there is memory for requests again", options_.host);
}

}  // namespace nfsrdma::client

// SPDX-License-Identifier: Apache-2.0
#include "transport/runtime/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nfsrdma {

uint64_t LatencyCounts::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

uint64_t LatencyCounts::below(uint64_t microseconds) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < latency::kBuckets && latency::lower_edge(i) < microseconds; ++i) sum += counts_[i];
  return sum;
}

double LatencyCounts::quantile(double share) const {
  const uint64_t all = total();
  if (all == 0) return 0;
  const auto wanted =
      std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(share * static_cast<double>(all))));
  uint64_t seen = 0;
  size_t bucket = 0;
  while (bucket + 1 < latency::kBuckets && (seen += counts_[bucket]) < wanted) ++bucket;
  return static_cast<double>(latency::lower_edge(bucket) + latency::upper_edge(bucket)) / 2;
}

uint64_t LatencyCounts::upper_bound() const {
  size_t end = latency::kBuckets;
  while (end > 0 && counts_[end - 1] == 0) --end;
  return end == 0 ? 0 : latency::upper_edge(end - 1);
}

void LatencyCounts::subtract(const LatencyCounts& before) {
  for (size_t i = 0; i < latency::kBuckets; ++i) {
    if (counts_[i] >= before.counts_[i]) counts_[i] -= before.counts_[i];
  }
}

uint64_t LatencyHistogram::add_to(LatencyCounts& sum) const {
  uint64_t all = 0;
  for (size_t i = 0; i < latency::kBuckets; ++i) {
    const uint64_t count = counts_[i].load(std::memory_order_relaxed);
    sum[i] += count;
    all += count;
  }
  return all;
}

}  // namespace nfsrdma

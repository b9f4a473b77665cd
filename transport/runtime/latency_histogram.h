// SPDX-License-Identifier: Apache-2.0
// LatencyHistogram: how long things took, counted in buckets of fixed memory. LatencyCounts is its plain
// snapshot.
//
// Each octave of microseconds (4 to 8, 8 to 16, ...) is divided into four buckets of equal width. Below 4 us
// each microsecond has its own bucket, and the last bucket also holds everything beyond. There are 124
// buckets, up to 71 minutes, in about a kilobyte. A time that is reported as the middle of its bucket is
// wrong by 12.5 % at most, or by half a microsecond below 4 us. A bucket includes its lower edge and excludes
// its upper edge.
//
// record() has one writer, the thread that owns the histogram, and needs no locked instruction.
// record_shared() may be called by any thread and costs one locked instruction. Do not use both on one
// histogram. Readers may be on any thread; they do not see all buckets at the same moment.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nfsrdma {

namespace latency {

inline constexpr size_t kSubBuckets = 4;  // of each octave
inline constexpr size_t kBuckets = 124;

constexpr size_t bucket_of(uint64_t microseconds) {
  if (microseconds < kSubBuckets) return static_cast<size_t>(microseconds);
  const auto octave = static_cast<size_t>(std::bit_width(microseconds)) - 1;
  const size_t bucket = (octave - 1) * kSubBuckets + ((microseconds >> (octave - 2)) & (kSubBuckets - 1));
  return bucket < kBuckets ? bucket : kBuckets - 1;
}

// Microseconds.
constexpr uint64_t lower_edge(size_t bucket) {
  if (bucket < kSubBuckets) return bucket;
  return (kSubBuckets + bucket % kSubBuckets) << (bucket / kSubBuckets - 1);
}
constexpr uint64_t upper_edge(size_t bucket) {
  return lower_edge(bucket + 1);
}

}  // namespace latency

class LatencyCounts {
 public:
  uint64_t& operator[](size_t bucket) { return counts_[bucket]; }
  uint64_t operator[](size_t bucket) const { return counts_[bucket]; }

  uint64_t total() const;
  // The number of times shorter than `microseconds`, which must be an edge of a bucket.
  uint64_t below(uint64_t microseconds) const;
  // The quantile for `share` (0.5: the median): the middle of its bucket, in microseconds. 0 when nothing was
  // counted.
  double quantile(double share) const;
  // Upper edge of the highest bucket in use, in microseconds: no counted time is longer. 0 when nothing was
  // counted. Says nothing about times in the last bucket.
  uint64_t upper_bound() const;
  // Subtracts `before`. A bucket with a larger count in `before` belonged to another histogram: it stays
  // unchanged.
  void subtract(const LatencyCounts& before);

 private:
  std::array<uint64_t, latency::kBuckets> counts_{};
};

class LatencyHistogram {
 public:
  void record(std::chrono::nanoseconds took) {
    std::atomic<uint64_t>& count = counts_[bucket_of(took)];
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void record_shared(std::chrono::nanoseconds took) {
    counts_[bucket_of(took)].fetch_add(1, std::memory_order_relaxed);
  }

  // Adds all counts to `sum` and returns their total.
  uint64_t add_to(LatencyCounts& sum) const;

 private:
  static size_t bucket_of(std::chrono::nanoseconds took) {
    return latency::bucket_of(static_cast<uint64_t>(took.count()) / 1000);
  }
  std::array<std::atomic<uint64_t>, latency::kBuckets> counts_{};
};

}  // namespace nfsrdma
